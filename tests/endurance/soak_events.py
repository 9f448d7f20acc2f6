"""The events of the soak, and what its job makes of them, in plain Python.

Event ``number`` comes at millisecond ``number``. Its key decides the partition, so events of a key stay in order.
"""

from __future__ import annotations

from collections import defaultdict, deque
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PARTITIONS: Final = 2
KEYS: Final = 2_000
#: A tumbling window, and what the function with timers puts together.
WINDOW_MS: Final = 60_000
BUCKET_MS: Final = 90_000
#: A key has an event every two seconds on average: one pause in fifty is longer.
GAP_MS: Final = 8_000
#: How far apart two events are that the join brings together.
APART_MS: Final = 100
#: A last event so long after all others ends whatever is open; its key is no key of the others.
END_KEY: Final = -1
END_MS: Final = 3_600_000


class Event(NamedTuple):
    """One event."""

    #: In the order of all events, and its time.
    number: int
    key: int
    #: 0 on the left of the join, 1 on its right.
    side: int

    def line(self) -> str:
        return f"{self.number},{self.key},{self.side}"

    @staticmethod
    def of(line: str) -> Event:
        return Event(*map(int, line.split(",")))


def events(seed: int) -> Iterator[Event]:
    """Make events without end."""
    draw, number = Random(seed).random, 0
    while True:
        yield Event(number, int(draw() * KEYS), int(draw() * 2))
        number += 1


# ------------------------------------------------------------------------------ lines of results, for job and truth


def window_line(key: int, start: int, count: int, total: int) -> str:
    return f"window,{key},{start},{count},{total}"


def session_line(key: int, start: int, end: int, count: int, total: int) -> str:
    return f"session,{key},{start},{end},{count},{total}"


def bucket_line(key: int, start: int, count: int, total: int, longest: int) -> str:
    return f"bucket,{key},{start},{count},{total},{longest}"


def pair_line(left: int, right: int) -> str:
    return f"pair,{left},{right}"


def truth(made: Iterable[Event]) -> Iterator[str]:
    """Yield the lines that the job writes, in some order."""
    numbers: dict[int, list[int]] = defaultdict(list)
    recent: tuple[deque[Event], deque[Event]] = (deque(), deque())
    for event in made:
        numbers[event.key].append(event.number)
        for side in recent:
            while side and side[0].number < event.number - APART_MS:
                side.popleft()
        for other in recent[1 - event.side]:
            if other.key == event.key:
                yield pair_line(*((event.number, other.number) if event.side == 0 else (other.number, event.number)))
        recent[event.side].append(event)
    for key, of in numbers.items():
        yield from _of_key(key, of)


def _of_key(key: int, numbers: list[int]) -> Iterator[str]:
    windows: dict[int, list[int]] = defaultdict(list)
    buckets: dict[int, list[tuple[int, int]]] = defaultdict(list)
    sessions: list[list[int]] = []
    before: int | None = None
    for number in numbers:
        windows[number // WINDOW_MS * WINDOW_MS].append(number)
        buckets[number // BUCKET_MS * BUCKET_MS].append((number, 0 if before is None else number - before))
        if before is None or number - before > GAP_MS:
            sessions.append([])
        sessions[-1].append(number)
        before = number
    for start, of in windows.items():
        yield window_line(key, start, len(of), sum(of))
    for of in sessions:
        yield session_line(key, of[0], of[-1] + GAP_MS, len(of), sum(of))
    for start, pairs in buckets.items():
        yield bucket_line(key, start, len(pairs), sum(number for number, _ in pairs), max(gap for _, gap in pairs))
