"""The queues of pending calls of an async function: they decide the order in which results are emitted.

In both orders a watermark is emitted after the results of all records before it. Source: Flink's StreamElementQueue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.operators.async_functions.async_calls import Call


class CallQueue(ABC):
    """The calls that were made, and whose results are not emitted yet."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of calls."""

    @abstractmethod
    def __iter__(self) -> Iterator[Call]:
        """Iterate them in the order of their records."""

    @abstractmethod
    def add(self, call: Call) -> None:
        """Add a call at the end; it may have ended already."""

    @abstractmethod
    def answered(self, call: Call) -> None:
        """Note the end of a call, which may not have been added yet."""

    @abstractmethod
    def take(self) -> Iterator[Call]:
        """Remove and return the calls whose results can be emitted, in the order of emission."""


class OrderedQueue(CallQueue):
    """Emits results in the order of their records."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls)

    def add(self, call: Call) -> None:
        self._calls.append(call)

    def answered(self, call: Call) -> None:
        pass

    def take(self) -> Iterator[Call]:
        calls = self._calls
        while calls and calls[0].is_answered:
            yield calls.popleft()


@dataclass(slots=True)
class _CallSegment:
    """The calls between two watermarks."""

    watermark: int
    #: Used as an ordered set.
    calls: dict[Call, None] = field(default_factory=dict["Call", None])
    answered: list[Call] = field(default_factory=list["Call"])


class UnorderedQueue(CallQueue):
    """Emits results in the order in which calls end, except that no result passes a watermark."""

    def __init__(self) -> None:
        self._segments: deque[_CallSegment] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Call]:
        return (call for segment in self._segments for call in segment.calls)

    def add(self, call: Call) -> None:
        if not self._segments or self._segments[-1].watermark != call.watermark:
            self._segments.append(_CallSegment(call.watermark))
        self._segments[-1].calls[call] = None
        self._size += 1
        if call.is_answered:
            self._segments[-1].answered.append(call)

    def answered(self, call: Call) -> None:
        for segment in self._segments:
            if call in segment.calls:
                segment.answered.append(call)
                return

    def take(self) -> Iterator[Call]:
        while self._segments:
            first = self._segments[0]
            answered, first.answered = first.answered, []
            for call in answered:
                del first.calls[call]
                self._size -= 1
                yield call
            if first.calls:
                return
            self._segments.popleft()
