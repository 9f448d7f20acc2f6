"""Which receivers' input each subtask of a stage reads, where a vertex runs fewer subtasks than the job graph says.

Each subtask reads that of neighbouring receivers: subtask ``i`` from ``bounds[i]`` up to ``bounds[i + 1]``, and without
it. What a sender has stored for one receiver is a *subpartition* in Flink. It is never divided, because the records of
a key are all in one.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

#: One more than there are subtasks, from 0 to the number of receivers, ascending.
Bounds: TypeAlias = tuple[int, ...]


def one_each(subtasks: int) -> Bounds:
    """Return the bounds of subtasks that read one receiver each."""
    return tuple(range(subtasks + 1))


def balanced_bounds(sizes: Sequence[int], subtasks: int) -> Bounds:
    """Divide receivers among subtasks, so that the bytes of each are near the mean.

    They differ from it by no more than those of the largest receiver, and each subtask reads one receiver at least.

    Args:
        sizes: The bytes for each receiver.
        subtasks: The number of subtasks, at most that of the receivers.

    Example:
        >>> balanced_bounds([10, 10, 10, 10, 10, 10], 3)
        (0, 2, 4, 6)
        >>> balanced_bounds([70, 10, 10, 10, 10, 10], 3)
        (0, 1, 2, 6)
    """
    count, total = len(sizes), sum(sizes)
    before = [0, *accumulate(sizes)] if total else list(range(count + 1))
    bounds = [0]
    for subtask in range(1, subtasks):
        wanted = before[-1] * subtask / subtasks
        place = bisect_left(before, wanted)
        if place and wanted - before[place - 1] < before[place] - wanted:
            place -= 1
        bounds.append(min(max(place, bounds[-1] + 1), count - subtasks + subtask))
    return (*bounds, count)


def subtasks_of(bounds: Bounds) -> int:
    """Return the number of subtasks."""
    return len(bounds) - 1


def receivers_of(bounds: Bounds | None, subtask: int) -> range:
    """Return the receivers whose input a subtask reads; without bounds, its own."""
    return range(subtask, subtask + 1) if bounds is None else range(bounds[subtask], bounds[subtask + 1])
