"""The backend on the local disk: the committed version of a subtask's keyed state in an LMDB environment.

The version only ever has committed state: a failed epoch leaves nothing to undo, and a killed process has broken
nothing. What is spilled goes into an overlay of this process above the version. The subtask's next epoch may run in
another process of the host. Two processes may have one version open: the write transaction checks which of them lags.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock._engine.state.local.local_version import NOWHERE, LocalVersion, VersionMovedError
from penstock._engine.state.local.overlay import Overlay
from penstock._engine.state.local.versions import find_versions, new_version
from penstock._engine.storage.local_state import private_directory
from penstock.errors import StaleAttemptError

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Generator, Mapping, Sequence
    from pathlib import Path

    from penstock._engine.state.local.lineage import LineageStep, Position
    from penstock._engine.state.local.moves import PaneMeta, PaneName
    from penstock._engine.state.local.readings import Layer, Reading
    from penstock._engine.state.table import Pane
    from penstock._engine.state.timers import Timers

#: Deltas that may wait in memory for the version: a process that starts from that version has to load them all.
_MAX_PENDING_DELTAS: Final = 8


class LocalBackend:
    """Keyed state in a local directory: `Backend` says what its methods do.

    Args:
        directory: The subtask's own directory on a local disk; created when missing.
        key_groups: The key groups of the subtask.
        max_parallelism: The number of all key groups.
        memory_bytes: The estimated memory that entries and timers may take. Above it, entries that are stored are
            evicted between batches, and timers but for the earliest. Where the changes of the running epoch take more
            than half of it, they are spilled. What a batch reads and changes stays in memory until the batch ends: the
            states of some thousand keys.
        owner: The uid of the operator and the index of the subtask, for errors.
        run_id: The run of the job. A later run may go back to an older checkpoint, or begin without state.

    Raises:
        LocalStateError: The directory does not belong to this user alone, or is not on a local disk.
    """

    def __init__(
        self,
        directory: Path,
        key_groups: range,
        max_parallelism: int,
        memory_bytes: int,
        *,
        owner: tuple[str, int] = ("", 0),
        run_id: str = "",
    ) -> None:
        self.key_groups = key_groups
        self.max_parallelism = max_parallelism
        self.memory_bytes = memory_bytes
        self._directory = private_directory(directory)
        self._owner = owner
        self._run_id = run_id
        self._version: LocalVersion | None = None
        #: What was spilled.
        self._overlay: Overlay | None = None
        #: Positions from the version to the state in memory: the version may move to any of them.
        self._passed: list[Position] = []

    @property
    def panes(self) -> Mapping[PaneName, PaneMeta]:
        return {} if self._version is None else self._version.panes

    def read(self) -> Reading:
        layer: Layer | None = self._overlay or self._version
        assert layer is not None
        with self._stale_where_moved():
            return layer.read(self._passed)

    # ------------------------------------------------------------------------------------------------------- positions

    def start(self, way: Sequence[LineageStep], places: Mapping[Position, int]) -> int:
        self._drop_overlay()
        self._version, self._passed = None, []
        best = -1
        for version in self._versions():
            place = places.get(version.position, -1)
            if place > best:
                best, self._version = place, version
            elif place < 0 and version.meta.run_id == self._run_id and way[-1].position in version.meta.history:
                raise self._stale(version.position, way[-1].position)
        return best

    def reach(self, position: Position) -> None:
        if position in self._passed:  # the version gets the name that lineages will have
            self._passed.remove(position)
        self._passed.append(position)

    def is_usable(self) -> bool:
        return self._version is None or not self._version.is_lost()

    def is_behind(self, places: Container[Position]) -> bool:
        if self._overlay is not None or len(self._passed) > _MAX_PENDING_DELTAS + 1:
            return True
        # The lineage was compacted: only this store can still use the version, until the version moves.
        return self._version is not None and self._version.position not in places

    # --------------------------------------------------------------------------------------------------------- changes

    def store(self, panes: Sequence[Pane], timers: Sequence[Timers], later: Collection[Position] = ()) -> bool:
        if self._is_at(later):
            return False
        version = self._version = self._furthest()
        try:
            with self._stale_where_moved():
                run_id, memory_bytes = self._run_id, self.memory_bytes
                version.move(self._passed, panes, timers, self._overlay, run_id=run_id, memory_bytes=memory_bytes)
        except StaleAttemptError:
            if self._is_at(later):
                return False
            raise
        del self._passed[:-1]
        self._drop_overlay()
        return True

    def spill(self, panes: Sequence[Pane], timers: Sequence[Timers]) -> None:
        if self._overlay is None:
            self._version = self._version or self._furthest()
            self._overlay = Overlay(self._directory, self._version, self.max_parallelism)
        self._overlay.take(panes, timers)

    def _is_at(self, positions: Collection[Position]) -> bool:
        """Return whether a process has moved the version to one of some positions."""
        return bool(positions) and any(version.position in positions for version in self._versions())

    def _furthest(self) -> LocalVersion:
        """Return the version to move: the furthest one at a position that memory has passed, or a new one."""
        if self._passed:
            places = {position: place for place, position in enumerate(self._passed)}
            usable = [version for version in self._versions() if version.position in places]
            if usable:
                return max(usable, key=lambda version: places[version.position])
        # The directory is created again where it was deleted under a live job.
        return self._version or new_version(private_directory(self._directory), self.key_groups, self.max_parallelism)

    def _versions(self) -> list[LocalVersion]:
        return find_versions(self._directory, self.key_groups, self.max_parallelism)

    def _drop_overlay(self) -> None:
        if self._overlay is not None:
            self._overlay.close()
        self._overlay = None

    @contextmanager
    def _stale_where_moved(self) -> Generator[None]:
        """Raise the error for a version that another process has moved on."""
        try:
            yield
        except VersionMovedError as moved:
            raise self._stale(moved.position) from moved

    def _stale(self, found: Position, wanted: Position | None = None) -> StaleAttemptError:
        uid, subtask_index = self._owner
        checkpoint_id = (wanted or self._passed[-1])[0]
        where = "no checkpoint (it was removed)" if found == NOWHERE else f"checkpoint {found[0]}, attempt {found[1]:x}"
        return StaleAttemptError(uid, subtask_index, checkpoint_id, where)
