"""Time to live: rows carry the time of their last write or read, and are deleted when they expire.

State objects stamp rows and check stamps as functions use them (`row_lives`). Expired rows that no function reads are
found by a sweep over the table, a part of it in each epoch, all of it before a snapshot (`sweep`). Both delete rows as
a function would, so that the deletion reaches every copy of the state, and an expired row never comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._api.state.ttl import StateTtlConfig
from penstock.common.time import millis_of_time

if TYPE_CHECKING:
    from collections.abc import Callable


class TimeToLive:
    """The time to live of the rows of a state, and the accesses that renew it.

    Args:
        config: The configuration in the state's descriptor.
        clock: The time of day in milliseconds.
        count: Called with the number of removed rows.
    """

    __slots__ = ("clock", "count", "duration_ms", "is_renewed_by_reads", "returns_expired")

    def __init__(self, config: StateTtlConfig, clock: Callable[[], int], count: Callable[[int], object]) -> None:
        self.clock = clock
        self.count = count
        self.duration_ms = millis_of_time("ttl", config.get_ttl())
        self.is_renewed_by_reads = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        visible = StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        self.returns_expired = config.get_state_visibility() is visible


class TableLife:
    """Whether the rows of a table expire, and from when on.

    The first function that uses a state declares whether its rows expire, for the life of the operator. ``since``,
    which is part of the state, is the time at which expiry began; None where rows do not expire. The time of a row
    counts from ``since`` at the earliest, also for rows that were written before or have an older stamp.
    """

    __slots__ = ("_read", "since", "since_is_unsaved", "time_to_live", "was_declared")

    def __init__(self) -> None:
        self.time_to_live: TimeToLive | None = None
        self.was_declared = False
        self.since: int | None = None
        #: What files say of ``since``, by the first and last key group that each speaks for.
        self._read: dict[tuple[int, int], int | None] = {}
        #: Whether the running epoch has changed ``since``.
        self.since_is_unsaved = False

    def declare(self, time_to_live: TimeToLive | None) -> None:
        """Declare whether rows expire; only the first call has an effect."""
        if not self.was_declared:
            self.was_declared, self.time_to_live = True, time_to_live
            self.apply_declaration()

    def apply_declaration(self) -> None:
        """Begin or end expiry, where the restored state differs from the declaration."""
        if self.was_declared and (self.time_to_live is None) is not (self.since is None):
            self.since = None if self.time_to_live is None else self.time_to_live.clock()
            self.since_is_unsaved = True

    def read(self, since: int | None, key_groups: tuple[int, int]) -> None:
        """Take up what a file says of ``since``.

        Files of several subtasks, before a rescaling, may differ: a subtask without rows has no file, so it starts
        fresh at each start. The earliest one counts, or rows would live longer for it.

        Args:
            since: What it says.
            key_groups: The first and last key group of which it speaks; it replaces what earlier files said of them.
        """
        first, last = key_groups
        self._read = {place: told for place, told in self._read.items() if place[0] < first or place[1] > last}
        self._read[key_groups] = since
        told = self._read.values()
        self.since = None if None in told else min(one for one in told if one is not None)

    @property
    def was_read(self) -> bool:
        """Whether a file has said anything of ``since``."""
        return bool(self._read)

    def forget(self) -> None:
        """Return to a state without rows."""
        self.since, self.since_is_unsaved, self._read = None, False, {}

    def over(self) -> Callable[[int | None], bool] | None:
        """Return a function from a stamp to whether its row has expired by now; None where rows do not expire."""
        life, since = self.time_to_live, self.since
        if life is None or since is None:
            return None
        limit = life.clock() - life.duration_ms
        if since > limit:
            return _never
        return lambda stamp: stamp is None or stamp <= limit


def _never(stamp: int | None) -> bool:
    return False
