"""What is compared: the workloads, the sizes each system gets, the true results and the bars.

A program prints three integers about the numbers that reach its sink: how many, their sum and the sum of their
squares. `truth` computes them without any of the systems. Sizes keep the larger run of each pair near 30 s on two
cores; they are multiples of what the workload's keys and windows repeat over.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

Truth = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Records of the two runs whose difference gives the rate without start-up, and of a smoke run."""

    small: int
    large: int
    quick: int


@dataclass(frozen=True, slots=True)
class Bar:
    """The ratio Penstock must reach against one system."""

    system: str
    factor: float


@dataclass(frozen=True, slots=True)
class Workload:
    """One job, the same for every system that has a program for it."""

    letter: str
    name: str
    title: str
    bars: tuple[Bar, ...]
    sizes: dict[str, Sizes]
    outputs: Callable[[int], Iterable[int]]

    def truth(self, records: int) -> Truth:
        """Count, sum and sum of squares of the numbers that must reach the sink."""
        return tally(self.outputs(records))


def tally(numbers: Iterable[int]) -> Truth:
    """Return count, sum and sum of squares."""
    count = total = squares = 0
    for x in numbers:
        count += 1
        total += x
        squares += x * x
    return count, total, squares


def _map_filter(records: int) -> Iterable[int]:
    return range(10, records * 3 - 1, 30)  # i * 3 + 1 is a multiple of ten for i = 3, 13, 23, …


def _keyed_reduce(records: int) -> Iterable[int]:
    per_key = records // 1_000
    return (per_key * first + 1_000 * (per_key * (per_key - 1) // 2) for first in range(1_000))


def keyed_state(records: int, keys: int = 1_000_000) -> Iterable[int]:
    """Return the keys that have their last count: each of them once."""
    return (i * 2654435761 % keys for i in range(min(records, keys)))


def _windows(records: int) -> Iterable[int]:
    half = records // 2
    for start in range(0, half, 50_000):  # a window; half is a multiple of the 10,000 keys
        stop = min(start + 50_000, half)
        for first in range(start, start + 10_000):
            each = range(first, stop, 10_000)
            yield (2 * sum(each) + len(each) * half) * 100 + 2 * len(each)


def _sliding_windows(records: int) -> Iterable[int]:
    half = records // 2
    for start in range(-45_000, half, 5_000):  # a window has 50,000 numbers of each half
        begin, stop = max(start, 0), min(start + 50_000, half)
        for first in range(begin, begin + 1_000):
            each = range(first, stop, 1_000)
            if each:
                yield 100 * (2 * _sum(each) + len(each) * half) + 2 * len(each)


def _session_windows(records: int) -> Iterable[int]:
    half = records // 2
    for start in range(0, half, 5_000):  # five numbers of each half in a session
        for first in range(start, start + 1_000):
            yield 100 * (2 * _sum(range(first, start + 5_000, 1_000)) + 5 * half) + 10


def _interval_join(records: int) -> Iterable[int]:
    half = records // 2  # those of one time and key are j of the first half and j of the second one, on both sides
    for j in range(half):
        yield from (4 * j, 4 * j + half, 4 * j + 3 * half, 4 * j + 4 * half)


def _broadcast_join(records: int) -> Iterable[int]:
    for item in range(1_000):
        price = (item + 1) * 10
        if price % 3 == 0:
            yield from (price, price)  # each subtask emits the prices that it was told
        for i in range(item * 679 % 1_000, records, 1_000):  # 679 * 7919 is 1 modulo 1,000
            if i * price % 3 == 0:
                yield i * price


def _map_state(records: int) -> Iterable[int]:
    return keyed_state(records, 100_000)


def _word_count(records: int) -> Iterable[int]:
    return (word * (records // 10_000) for word in range(10_000))


def _sum(numbers: range) -> int:
    return (numbers[0] + numbers[-1]) * len(numbers) // 2


WORKLOADS = (
    Workload(
        "a",
        "map_filter",
        "map + filter",
        (Bar("pyflink", 60), Bar("bytewax", 3)),
        {
            "penstock": Sizes(40_000_000, 500_000_000, 1_000_000),
            "plain": Sizes(40_000_000, 400_000_000, 1_000_000),
            "pyflink-process": Sizes(500_000, 3_000_000, 20_000),
            "pyflink-thread": Sizes(500_000, 4_000_000, 20_000),
            "bytewax": Sizes(20_000_000, 200_000_000, 1_000_000),
            "pyspark": Sizes(20_000_000, 160_000_000, 1_000_000),
        },
        _map_filter,
    ),
    Workload(
        "b",
        "keyed_reduce",
        "map → key_by → reduce, 1,000 keys",
        (Bar("pyflink", 60), Bar("bytewax", 2), Bar("plain", 0.7)),
        {
            "penstock": Sizes(4_000_000, 40_000_000, 500_000),
            "plain": Sizes(4_000_000, 40_000_000, 500_000),
            "pyflink-process": Sizes(100_000, 600_000, 20_000),
            "pyflink-thread": Sizes(100_000, 600_000, 20_000),
            "bytewax": Sizes(2_000_000, 16_000_000, 500_000),
            "pyspark": Sizes(2_000_000, 14_000_000, 100_000),
        },
        _keyed_reduce,
    ),
    Workload(
        "c",
        "keyed_state",
        "ValueState counter, 1,000,000 keys",
        (Bar("pyflink", 20), Bar("bytewax", 5), Bar("plain", 0.4)),
        {
            "penstock": Sizes(2_000_000, 20_000_000, 100_000),
            "plain": Sizes(2_000_000, 30_000_000, 100_000),
            "pyflink-process": Sizes(10_000, 40_000, 5_000),
            "pyflink-thread": Sizes(100_000, 600_000, 20_000),
            "bytewax": Sizes(1_000_000, 3_000_000, 50_000),
        },
        keyed_state,
    ),
    Workload(
        "d",
        "windows",
        "tumbling event-time windows, 10,000 keys",
        (Bar("pyflink", 60), Bar("bytewax", 10), Bar("plain", 0.7)),
        {
            "penstock": Sizes(2_000_000, 30_000_000, 200_000),
            "plain": Sizes(2_000_000, 30_000_000, 200_000),
            "pyflink-process": Sizes(100_000, 200_000, 20_000),
            "pyflink-thread": Sizes(100_000, 400_000, 20_000),
            "bytewax": Sizes(1_000_000, 3_000_000, 100_000),
        },
        _windows,
    ),
    Workload(
        "e",
        "sliding_windows",
        "sliding windows of 10 slides, 1,000 keys",
        (Bar("pyflink", 30), Bar("bytewax", 3)),
        {
            "penstock": Sizes(500_000, 2_500_000, 200_000),
            "pyflink-process": Sizes(10_000, 30_000, 10_000),
            "pyflink-thread": Sizes(10_000, 30_000, 10_000),
            "bytewax": Sizes(100_000, 500_000, 50_000),
        },
        _sliding_windows,
    ),
    Workload(
        "f",
        "session_windows",
        "session windows, 10,000 keys",
        (Bar("pyflink", 30), Bar("bytewax", 3)),
        {
            "penstock": Sizes(500_000, 4_000_000, 200_000),
            "pyflink-process": Sizes(20_000, 60_000, 20_000),
            "pyflink-thread": Sizes(20_000, 60_000, 20_000),
            "bytewax": Sizes(500_000, 2_000_000, 100_000),
        },
        _session_windows,
    ),
    Workload(
        "g",
        "interval_join",
        "interval join, 10,000 keys",
        (Bar("pyflink", 30), Bar("bytewax", 3)),
        {
            "penstock": Sizes(500_000, 4_000_000, 100_000),
            "pyflink-process": Sizes(20_000, 60_000, 20_000),
            "pyflink-thread": Sizes(20_000, 100_000, 20_000),
            "bytewax": Sizes(200_000, 800_000, 100_000),
        },
        _interval_join,
    ),
    Workload(
        "h",
        "broadcast_join",
        "broadcast join, 1,000 broadcast records",
        (Bar("pyflink", 30), Bar("bytewax", 3)),
        {
            "penstock": Sizes(2_000_000, 15_000_000, 200_000),
            "pyflink-process": Sizes(200_000, 800_000, 20_000),
            "pyflink-thread": Sizes(100_000, 500_000, 20_000),
            "bytewax": Sizes(2_000_000, 15_000_000, 200_000),
        },
        _broadcast_join,
    ),
    Workload(
        "i",
        "map_state",
        "MapState counter, 10,000 keys of 10 entries",
        (Bar("pyflink", 30), Bar("bytewax", 3)),
        {
            "penstock": Sizes(1_000_000, 6_000_000, 100_000),
            "pyflink-process": Sizes(10_000, 50_000, 10_000),
            "pyflink-thread": Sizes(50_000, 200_000, 10_000),
            "bytewax": Sizes(1_000_000, 5_000_000, 100_000),
        },
        _map_state,
    ),
    Workload(
        "j",
        "word_count",
        "word count in batch mode, 10,000 words",
        (Bar("pyflink", 60), Bar("pyspark", 1)),
        {
            "penstock": Sizes(2_000_000, 10_000_000, 100_000),
            "pyflink-process": Sizes(100_000, 600_000, 20_000),
            "pyflink-thread": Sizes(50_000, 300_000, 20_000),
            "pyspark": Sizes(2_000_000, 10_000_000, 100_000),
        },
        _word_count,
    ),
)
MEMORY_BAR_MIB = 400
