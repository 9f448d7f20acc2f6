"""The invariants of a job between any two events; tests check them after each event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator.phases import CHECKPOINTING, STOPPING, Phase
from penstock.common.job_status import JobStatus
from penstock.errors import InternalError

if TYPE_CHECKING:
    from penstock._engine.coordinator.life.reactions import JobParts


def check(job: JobParts) -> None:
    """Check the invariants.

    Raises:
        InternalError: One of them is broken.
    """
    context, start, has_pending = job.context, job.start, job.scheduler.has_pending_checkpoint
    entry_due = start.chain is not None and start.chain.entry is not None
    uncommitted, undelivered = bool(job.state.ledger), job.output.is_due
    finished = context.status is JobStatus.FINISHED and start.already_ended is None
    stopping = context.phase in STOPPING
    runs_epoch = context.phase in {Phase.EPOCH, Phase.RELEASING}
    rules = {
        "an epoch runs in its own phase, or during a teardown": context.epoch_running == runs_epoch or stopping,
        "a chain entry is unanswered in its own phases, or during a teardown": entry_due
        == (context.phase in {Phase.RECORDING, Phase.RESUMING, Phase.CLOSING})
        or stopping,
        "a savepoint is named in its own phase, or during a teardown": not context.saving
        or context.phase is Phase.SAVING
        or stopping,
        "a checkpoint is pending in its own phases": has_pending == (context.phase in CHECKPOINTING) or stopping,
        "nothing new is read before the commits of the checkpoint are done": not (
            context.phase is Phase.OPENING and uncommitted
        ),
        "a job that has finished has committed everything": not (finished and uncommitted),
        "a job that has finished has delivered everything": not (finished and undelivered),
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise InternalError(f"In phase {context.phase.name}: not true that {broken[0]}.")
