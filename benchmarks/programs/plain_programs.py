"""The four workloads without an engine: ``python plain_programs.py WORKLOAD RECORDS``.

Two processes, each with half of the numbers, run the same functions over blocks, with dicts for state. Blocks of
pickled records cross between them by pipes. Nothing is checkpointed, and a failure loses everything: this is the limit
for an engine whose functions are plain Python.
"""

import fcntl
import multiprocessing
import pickle
import sys
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from typing import Any

BLOCK = 2_048
#: Room for several blocks, so that a process may be ahead of the other.
PIPE_BYTES = 1 << 20
WINDOW_MS, OUT_OF_ORDER_MS = 1_000, 1_000
END = float("inf")

Event = tuple[str, int, int]


class Tally:
    """Count, sum and sum of squares of the numbers that come out."""

    def __init__(self) -> None:
        self.count = self.total = self.squares = 0

    def add(self, numbers: list[int]) -> None:
        self.count += len(numbers)
        self.total += sum(numbers)
        self.squares += sum([x * x for x in numbers])


class MapFilter:
    """(a): nothing crosses between the processes."""

    crosses = False

    def __init__(self, records: int) -> None:
        self.mapper: Callable[[int], int] = lambda i: i * 3 + 1
        self.keep: Callable[[int], bool] = lambda x: x % 10 == 0

    def send(self, numbers: range) -> tuple[list[int], list[int]]:
        mapper = self.mapper
        return [mapper(i) for i in numbers], []

    def receive(self, mapped: list[int], watermark: float) -> list[int]:
        keep = self.keep
        return [x for x in mapped if keep(x)]


class Keyed:
    """What (b) to (d) share: records go to the process of their key."""

    crosses = True
    mapper: Callable[[int], Any]
    key: Callable[[Any], Any]

    def send(self, numbers: range) -> tuple[list[Any], list[Any]]:
        mapper, key = self.mapper, self.key
        parts: tuple[list[Any], list[Any]] = [], []
        put = parts[0].append, parts[1].append
        for i in numbers:
            record = mapper(i)
            put[hash(key(record)) & 1](record)
        return parts


class KeyedReduce(Keyed):
    """(b)."""

    def __init__(self, records: int) -> None:
        keys = [f"key-{k}" for k in range(1_000)]
        last = records // 1_000
        self.mapper = lambda i: (keys[i * 7919 % 1_000], 1, i)
        self.key = lambda r: r[0]
        self.reducer: Callable[[Event, Event], Event] = lambda a, b: (a[0], a[1] + b[1], a[2] + b[2])
        self.keep: Callable[[Event], bool] = lambda r: r[1] == last
        self.digest: Callable[[Event], int] = lambda r: r[2]
        self.state: dict[str, Event] = {}

    def receive(self, records: list[Event], watermark: float) -> list[int]:
        state, key, reducer, keep, digest = self.state, self.key, self.reducer, self.keep, self.digest
        reduced: list[Event] = []
        for record in records:
            of = key(record)
            before = state.get(of)
            state[of] = after = record if before is None else reducer(before, record)
            reduced.append(after)
        return [digest(record) for record in reduced if keep(record)]


class KeyedState(Keyed):
    """(c)."""

    def __init__(self, records: int) -> None:
        last = max(1, records // 1_000_000)
        self.mapper = lambda i: i * 2654435761 % 1_000_000
        self.key = lambda key: key
        self.keep: Callable[[tuple[int, int]], bool] = lambda r: r[1] == last
        self.digest: Callable[[tuple[int, int]], int] = lambda r: r[0]
        self.seen: dict[int, int] = {}

    def count(self, value: int, key: int) -> Iterable[tuple[int, int]]:
        seen = self.seen.get(key, 0) + 1
        self.seen[key] = seen
        yield value, seen

    def receive(self, records: list[int], watermark: float) -> list[int]:
        key, count, keep, digest = self.key, self.count, self.keep, self.digest
        counted = [pair for record in records for pair in count(record, key(record))]
        return [digest(pair) for pair in counted if keep(pair)]


class Windows(Keyed):
    """(d): windows fire when both processes have passed their end."""

    def __init__(self, records: int) -> None:
        keys = [f"key-{k}" for k in range(10_000)]
        half = records // 2
        self.mapper = lambda i: (keys[i % half * 7919 % 10_000], i % half // 50, i)
        self.key = lambda r: r[0]
        self.timestamp: Callable[[Event], int] = lambda r: r[1]
        self.digest: Callable[[tuple[int, int]], int] = lambda r: r[1] * 100 + r[0]
        #: Accumulators by key, by the start of their window.
        self.windows: dict[int, dict[str, tuple[int, int]]] = {}

    def add(self, value: Event, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value[2]

    def receive(self, records: list[Event], watermark: float) -> list[int]:
        windows, key, timestamp, add, digest = self.windows, self.key, self.timestamp, self.add, self.digest
        for record in records:
            time = timestamp(record)
            start = time - time % WINDOW_MS
            try:
                window = windows[start]
            except KeyError:
                window = windows[start] = {}
            of = key(record)
            window[of] = add(record, window.get(of, (0, 0)))
        due = sorted(start for start in windows if start + WINDOW_MS - 1 <= watermark)
        return [digest(value) for start in due for value in windows.pop(start).values()]


JOBS: dict[str, Callable[[int], Any]] = {
    "map_filter": MapFilter,
    "keyed_reduce": KeyedReduce,
    "keyed_state": KeyedState,
    "windows": Windows,
}


def work(workload: str, records: int, place: int, outgoing: Connection, incoming: Connection) -> Tally:
    """Run one of the two processes: its half of the numbers, and what it gets of the other half."""
    job, tally = JOBS[workload](records), Tally()
    half = records // 2
    start, stop = (half, records) if place else (0, half)
    watermarks: list[float] = [-END, -END]
    is_open = job.crosses
    for first in range(start, stop, BLOCK):
        parts = job.send(range(first, min(first + BLOCK, stop)))
        if not job.crosses:
            tally.add(job.receive(parts[0], END))
            continue
        if workload == "windows":
            watermarks[place] = max(r[1] for part in parts for r in part) - OUT_OF_ORDER_MS - 1
        outgoing.send_bytes(pickle.dumps((parts[1 - place], watermarks[place]), pickle.HIGHEST_PROTOCOL))
        tally.add(job.receive(parts[place], min(watermarks)))
        if is_open:
            is_open = take(job, incoming, watermarks, place, tally)
    watermarks[place] = END
    if job.crosses:
        outgoing.send_bytes(pickle.dumps(None))
    while is_open:
        is_open = take(job, incoming, watermarks, place, tally)
    return tally


def take(job: Any, incoming: Connection, watermarks: list[float], place: int, tally: Tally) -> bool:
    """Take a block of the other process; return whether more may come."""
    block = pickle.loads(incoming.recv_bytes())
    records, watermarks[1 - place] = block or ([], END)
    tally.add(job.receive(records, min(watermarks)))
    return block is not None


def second(workload: str, records: int, outgoing: Connection, incoming: Connection, answer: Connection) -> None:
    tally = work(workload, records, 1, outgoing, incoming)
    answer.send((tally.count, tally.total, tally.squares))


def pipe() -> tuple[Connection, Connection]:
    reader, writer = multiprocessing.Pipe(duplex=False)
    fcntl.fcntl(writer.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return reader, writer


def main(workload: str, records: int) -> None:
    fork = multiprocessing.get_context("fork")  # both processes hash texts alike
    (to_first, from_second), (to_second, from_first), (answer, answering) = pipe(), pipe(), pipe()
    other = fork.Process(target=second, args=(workload, records, from_second, to_second, answering))
    other.start()
    tally = work(workload, records, 0, from_first, to_first)
    parts = [(tally.count, tally.total, tally.squares), answer.recv()]
    other.join()
    print("RESULT", *(sum(column) for column in zip(*parts, strict=True)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
