"""What keyed state needs of a backend: the place of the rows and timers that memory does not have.

A backend keeps pairs of bytes in order. `stored_rows` reads rows and timers from them, and time to live is a part
of rows, so a backend knows neither values nor clocks. It is at a *position*: the state as of one checkpoint, to which
memory has added what it has read and committed since.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from penstock.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping, Sequence

    from penstock._engine.state.local.lineage import LineageStep, Position
    from penstock._engine.state.local.moves import PaneMeta, PaneName
    from penstock._engine.state.local.readings import Reading
    from penstock._engine.state.table import Pane
    from penstock._engine.state.timers import Timers

#: More than any memory.
_UNLIMITED: Final = sys.maxsize


class Backend(Protocol):
    """Stored rows and timers of one subtask."""

    #: The key groups of the subtask, and the number of all key groups.
    key_groups: range
    max_parallelism: int
    #: The estimated memory that entries and timers may take.
    memory_bytes: int

    @property
    def panes(self) -> Mapping[PaneName, PaneMeta]:
        """What is stored, where memory has what the running epoch has changed."""
        ...

    def read(self) -> Reading:
        """Begin to read what is stored.

        Raises:
            StaleAttemptError: Another process has moved the backend beyond this subtask's epoch.
        """
        ...

    # ------------------------------------------------------------------------------------------------------- positions

    def start(self, way: Sequence[LineageStep], places: Mapping[Position, int]) -> int:
        """Begin at the furthest position on a lineage that is stored; return its index, -1 for none.

        Args:
            way: The lineage.
            places: The index of each position on it.

        Raises:
            StaleAttemptError: What is stored is newer than the lineage.
        """
        ...

    def reach(self, position: Position) -> None:
        """Note the position of the state in memory."""
        ...

    def is_usable(self) -> bool:
        """Return whether what memory lacks is still there."""
        ...

    def is_behind(self, places: Container[Position]) -> bool:
        """Return whether it should store what is committed before the next epoch.

        Args:
            places: The positions on the lineage.
        """
        ...

    # --------------------------------------------------------------------------------------------------------- changes

    def store(self, panes: Sequence[Pane], timers: Sequence[Timers], later: Collection[Position] = ()) -> bool:
        """Store all committed changes, those that were spilled first: it is then where memory is.

        Args:
            panes: All panes in memory.
            timers: All timers in memory.
            later: Positions beyond that of the memory. If another process has stored one of them, nothing happens.

        Returns:
            Whether the changes are stored.

        Raises:
            StaleAttemptError: Another process has moved the backend elsewhere.
        """
        ...

    def spill(self, panes: Sequence[Pane], timers: Sequence[Timers]) -> None:
        """Put all changes aside, also those that are not committed: only this subtask reads them.

        Args:
            panes: All panes in memory.
            timers: All timers in memory.
        """
        ...


class MemoryBackend:
    """The backend of a state that is kept in memory and in checkpoints only: nothing is stored, nothing leaves memory.

    Args:
        key_groups: The key groups of the subtask.
        max_parallelism: The number of all key groups.
    """

    memory_bytes = _UNLIMITED

    def __init__(self, key_groups: range, max_parallelism: int) -> None:
        self.key_groups = key_groups
        self.max_parallelism = max_parallelism
        self.panes: Mapping[PaneName, PaneMeta] = {}

    def read(self) -> NoReturn:
        """Nothing is stored, so no pane reads."""
        raise InternalError(_NOTHING)

    def start(self, way: Sequence[LineageStep], places: Mapping[Position, int]) -> int:
        """Begin without state."""
        del way, places
        return -1

    def reach(self, position: Position) -> None:
        """There is nothing to note."""

    def is_usable(self) -> bool:
        """Memory lacks nothing."""
        return True

    def is_behind(self, places: Container[Position]) -> bool:
        """Nothing is ever stored."""
        del places
        return False

    def store(self, panes: Sequence[Pane], timers: Sequence[Timers], later: Collection[Position] = ()) -> bool:
        """Changes stay in memory."""
        del panes, timers, later
        return False

    def spill(self, panes: Sequence[Pane], timers: Sequence[Timers]) -> NoReturn:
        """Memory has no limit, so nothing leaves it."""
        raise InternalError(_NOTHING)


_NOTHING: Final = "keyed state that is kept in memory was looked for below it"
