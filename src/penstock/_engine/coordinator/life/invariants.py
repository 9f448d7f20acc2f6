"""The invariants of a job between any two events; tests check them after each event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator.phases import CUT, STOPPING, Phase
from penstock.errors import InternalError

if TYPE_CHECKING:
    from penstock._engine.coordinator.context import CoordinatorContext


def check(
    context: CoordinatorContext, *, has_pending: bool, uncommitted: bool, undelivered: bool, finished: bool
) -> None:
    """Check the rules.

    Args:
        context: The coordinator's context.
        has_pending: An epoch is between its end and its commit point.
        uncommitted: Commits are outstanding.
        undelivered: The program has not got all output.
        finished: The job has finished in this driver.

    Raises:
        InternalError: One of them is broken.
    """
    stopping = context.phase in STOPPING
    runs_epoch = context.phase in {Phase.EPOCH, Phase.RELEASING}
    rules = {
        "an epoch runs in its own phase, or while the job breaks off": context.epoch_running == runs_epoch or stopping,
        "a record is on its way in its own phases, or while the job breaks off": (context.entry is not None)
        == (context.phase in {Phase.RECORDING, Phase.RESUMING, Phase.CLOSING})
        or stopping,
        "a savepoint gets its name in its own phase, or while the job breaks off": not context.saving
        or context.phase is Phase.SAVING
        or stopping,
        "an epoch between its end and its commit point has a cut": has_pending == (context.phase in CUT) or stopping,
        "nothing new is read before the commits of the checkpoint are done": not (
            context.phase is Phase.OPENING and uncommitted
        ),
        "a job that has finished has committed everything": not (finished and uncommitted),
        "a job that has finished has handed over everything": not (finished and undelivered),
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise InternalError(f"In phase {context.phase.name}: not true that {broken[0]}.")
