"""Time to live: which rows are stamped with the time at which they were last written or read, and when they go.

Kinds of state stamp rows and look at stamps as functions use them (`row_lives`). What nobody reads is found by going
through a table time and again, a part of it in each epoch, all of it before a snapshot (`sweep`). Both delete rows as a
function would, so that all copies of a state know, and what has been seen to be over never comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._api.state.ttl import StateTtlConfig

if TYPE_CHECKING:
    from collections.abc import Callable


class TimeToLive:
    """How long the rows of a state live, and what renews them.

    Args:
        config: As the state's descriptor has it.
        clock: The time of day in milliseconds.
        count: Is told how many rows were removed.
    """

    __slots__ = ("clock", "count", "duration_ms", "is_renewed_by_reads", "returns_expired")

    def __init__(self, config: StateTtlConfig, clock: Callable[[], int], count: Callable[[int], object]) -> None:
        self.clock = clock
        self.count = count
        self.duration_ms = config.get_ttl().to_milliseconds()
        self.is_renewed_by_reads = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        visible = StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        self.returns_expired = config.get_state_visibility() is visible


class TableLife:
    """What a table knows of the life of its rows.

    The first function that asks for a state says whether its rows expire, for as long as the operator lives. *Since*,
    which is part of the state, is the time at which they began to, None where they do not. The time of a row counts
    from then on at the earliest: of one that was written before, and of one with a stamp of an earlier time to live.
    """

    __slots__ = ("since", "since_is_unsaved", "time_to_live", "was_declared")

    def __init__(self) -> None:
        self.time_to_live: TimeToLive | None = None
        self.was_declared = False
        self.since: int | None = None
        #: The running epoch has changed it.
        self.since_is_unsaved = False

    def declare(self, time_to_live: TimeToLive | None) -> None:
        """Say whether rows expire; without effect where that was said before."""
        if not self.was_declared:
            self.was_declared, self.time_to_live = True, time_to_live
            self.settle()

    def settle(self) -> None:
        """Begin or end the time to live of a state that came without or with one."""
        if self.was_declared and (self.time_to_live is None) is not (self.since is None):
            self.since = None if self.time_to_live is None else self.time_to_live.clock()
            self.since_is_unsaved = True

    def forget(self) -> None:
        """Return to a state that was never used."""
        self.since, self.since_is_unsaved = None, False

    def over(self) -> Callable[[int | None], bool] | None:
        """Return what tells of a stamp whether its row has expired by now; None where none does."""
        life, since = self.time_to_live, self.since
        if life is None or since is None:
            return None
        limit = life.clock() - life.duration_ms
        if since > limit:
            return _never
        return lambda stamp: stamp is None or stamp <= limit


def _never(stamp: int | None) -> bool:
    return False
