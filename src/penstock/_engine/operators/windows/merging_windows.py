"""The merging windows of one key, each with the window in whose namespace its contents are stored.

A growing window keeps the namespace of its first contents, so that the contents are not moved with each record.

Source of the rules: Flink's MergingWindowSet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from penstock._api.windows.session_windows import SessionWindows
from penstock._api.windows.window import MergingWindowAssigner, TimeWindow, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
