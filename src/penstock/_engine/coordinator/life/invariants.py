"""The invariants of a job between any two events; tests check them after each event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator.phases import CHECKPOINTING, STOPPING, Phase
from penstock.errors import InternalError

if TYPE_CHECKING:
    from penstock._engine.coordinator.context import CoordinatorContext


def check(
    context: CoordinatorContext, *, has_pending: bool, uncommitted: bool, undelivered: bool, finished: bool
) -> None:
    """Check the invariants.

    Args:
        context: The coordinator's context.
        has_pending: Whether a checkpoint is pending.
        uncommitted: Whether commits are outstanding.
        undelivered: Whether output is still to be delivered.
        finished: Whether the job has finished in this driver.

    Raises:
        InternalError: One of them is broken.
    """
    stopping = context.phase in STOPPING
    runs_epoch = context.phase in {Phase.EPOCH, Phase.RELEASING}
    rules = {
        "an epoch runs in its own phase, or during a teardown": context.epoch_running == runs_epoch or stopping,
        "a chain entry is unanswered in its own phases, or during a teardown": (context.entry is not None)
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
