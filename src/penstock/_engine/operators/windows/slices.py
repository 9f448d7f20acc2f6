"""Slices of time that sliding windows share: each lies between two neighbouring starts or ends of windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from penstock._engine.protocol.rows import MIN_WATERMARK

if TYPE_CHECKING:
    from penstock._api.windows.time_windows import AlignedWindows

#: The start and the end of a slice or of a window, the namespace of its pane; no start is before the first time.
Span: TypeAlias = "tuple[int, int]"


class Slices:
    """The slices of aligned windows; a slide has one of them, or two where windows end within a slide.

    Args:
        windows: The windows.

    Example:
        >>> from penstock._api.windows.time_windows import SlidingEventTimeWindows
        >>> slices = Slices(SlidingEventTimeWindows(5, 2, 0))
        >>> slices.of(2), slices.of(3)
        ((2, 3), (3, 4))
        >>> slices.windows_of((3, 4))
        [(0, 5), (2, 7)]
        >>> slices.within((0, 5))
        [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    """

    def __init__(self, windows: AlignedWindows) -> None:
        self._size = windows.size_ms
        self._slide = windows.slide_ms
        self._offset = windows.offset_ms
        #: The offset of the windows' ends within a slide.
        self._rest = windows.size_ms % windows.slide_ms

    def of(self, stamp: int) -> Span:
        """Return the slice of a timestamp."""
        start = stamp - (stamp - self._offset) % self._slide
        cut = start + self._rest
        if stamp >= cut:
            return max(cut, MIN_WATERMARK), start + self._slide
        return max(start, MIN_WATERMARK), cut

    def windows_of(self, piece: Span) -> list[Span]:
        """Return the windows that hold a slice, the earliest one first; none for a slice in a gap."""
        last = piece[0] - (piece[0] - self._offset) % self._slide
        starts = range(last, piece[0] - self._size, -self._slide)
        return [(max(start, MIN_WATERMARK), start + self._size) for start in reversed(starts)]

    def within(self, window: Span) -> list[Span]:
        """Return the slices of a window in order."""
        found: list[Span] = []
        at = window[0]
        while at < window[1]:
            found.append(self.of(at))
            at = found[-1][1]
        return found
