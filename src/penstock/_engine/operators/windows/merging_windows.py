"""The merging windows of a key, each with the window in whose namespace its contents are stored.

A growing window keeps the namespace of its first contents, so that the contents are not moved with each record.

Source of the rules: Flink's MergingWindowSet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from penstock._api.windows.session_windows import SessionWindows
from penstock._api.windows.window import MergingWindowAssigner, TimeWindow, Window
from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._api.windows.window import WindowAssigner
    from penstock._engine.operators.windows.window_namespaces import WindowNamespaces
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.keyed_state import KeyedState
    from penstock._engine.state.rows import Namespace

#: The table of the merging windows of each key.
MERGING: Final = "merging-windows"
#: How many numbers the namespace of a TimeWindow has.
_BOUNDS: Final = 2

#: The namespace of a session: its start and its end.
Times: TypeAlias = "tuple[int, int]"
#: The namespaces of the windows of a key, each with that of its contents.
Pairs: TypeAlias = "tuple[tuple[Any, Any], ...]"

#: Called with the merged window, the old windows, the window whose namespace it keeps, and the windows whose contents
#: are added to it.
Merge: TypeAlias = "Callable[[Window, list[Window], Window, list[Window]], None]"


class MergingWindows:
    """The windows of one key.

    Args:
        assigner: Decides which windows merge.
        mapping: Maps each window to the window in whose namespace its contents are stored.
    """

    def __init__(self, assigner: MergingWindowAssigner[Any, Any], mapping: dict[Window, Window]) -> None:
        self._assigner = assigner
        self._is_of_sessions = isinstance(assigner, SessionWindows)
        self.mapping: dict[Any, Any] = mapping

    def add(self, window: Any, merge: Merge) -> Any:
        """Add a window, and return the window that contains it after merging.

        Args:
            window: The window of a record.
            merge: Called for merged windows.
        """
        if self._is_of_sessions:
            touched = [held for held in self.mapping if held.start <= window.end and window.start <= held.end]
            if not touched:
                self.mapping[window] = window
                return window
            if len(touched) == 1:
                return self._grown(touched[0], window, merge)
        merges = _Merges()
        self._assigner.merge_windows([*self.mapping, window], merges)
        result = window
        for made, parts in merges.found:
            others = [part for part in parts if part != window]
            if len(others) < len(parts):
                result = made
            stands = [self.mapping.pop(part) for part in others if part in self.mapping]
            if not stands:
                continue
            self.mapping[made] = stands[0]
            if others != [made]:  # else the window has only received one more record
                merge(made, others, stands[0], stands[1:])
        self.mapping.setdefault(result, result)
        return result

    def _grown(self, held: TimeWindow, window: TimeWindow, merge: Merge) -> TimeWindow:
        """Return a session with a record's window that touches no other session: the usual case."""
        if held.start <= window.start and window.end <= held.end:
            return held
        made = held.cover(window)
        stands = self.mapping[made] = self.mapping.pop(held)
        merge(made, [held], stands, [])
        return made


class _Merges(MergingWindowAssigner.MergeCallback[Window]):
    """Notes the windows to merge."""

    def __init__(self) -> None:
        self.found: list[tuple[Window, list[Window]]] = []

    def merge(self, to_be_merged: Iterable[Window], merge_result: Window) -> None:
        self.found.append((merge_result, list(dict.fromkeys(to_be_merged))))


class MergingRows:
    """The merging windows of all keys, a row for each key; none where the assigner's windows do not merge.

    Args:
        store: The operator's store.
        assigner: The assigner.
        namespaces: The namespaces of its windows.
    """

    def __init__(self, store: KeyedState, assigner: WindowAssigner[Any, Any], namespaces: WindowNamespaces) -> None:
        self._assigner = assigner
        self._namespaces = namespaces
        self.pane = store.table(MERGING, kind=MERGING).pane()

    def of(self, normal: NormalKey) -> MergingWindows:
        """Return the windows of a key, where they merge."""
        window_of = self._namespaces.window
        mapping = {window_of(window): window_of(stands) for window, stands in self.pairs_of(normal)}
        return MergingWindows(cast("MergingWindowAssigner[Any, Any]", self._assigner), mapping)

    def keep(self, normal: NormalKey, windows: MergingWindows) -> None:
        """Set the windows of a key, which may have changed."""
        namespace_of = self._namespaces.of
        pairs = tuple((namespace_of(window), namespace_of(stands)) for window, stands in windows.mapping.items())
        if self.pane.hot.get(normal) != pairs:
            self.set_pairs(normal, pairs)

    def pairs_of(self, normal: NormalKey) -> Pairs:
        """Return the namespaces of the windows of a key."""
        pairs = self.pane.hot.get(normal, MISSING)
        if pairs is MISSING:
            pairs = self.pane.load(normal)
        return () if pairs is ABSENT else pairs

    def set_pairs(self, normal: NormalKey, pairs: Pairs) -> None:
        """Set the windows of a key."""
        self.pane.hot[normal] = pairs or ABSENT
        self.pane.dirty.add(normal)

    def session_with(self, window: Namespace, normal: NormalKey) -> Times | None:
        """Return the session that a window was merged into; None where it is gone, and for windows of other classes."""
        for grown, _ in self.pairs_of(normal):
            if len(grown) == len(window) == _BOUNDS and grown[0] <= window[0] and window[1] <= grown[1]:
                return grown
        return None
