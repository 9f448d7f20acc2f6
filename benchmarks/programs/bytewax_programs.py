"""The workloads for Bytewax 0.21: ``python bytewax_programs.py WORKLOAD RECORDS BATCH LAYOUT``.

LAYOUT is ``1``, ``2-threads`` or ``2-processes``. The source has two partitions, as the sequence source of Flink has
two splits at parallelism 2; one worker reads both.
"""

import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow, Stream
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main, run_main

Event = tuple[str, int, int]
Pane = tuple[int, int]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Range(StatefulSourcePartition[int, int]):
    def __init__(self, start: int, stop: int, batch: int) -> None:
        self.position, self.stop, self.batch = start, stop, batch

    def next_batch(self) -> range:
        start = self.position
        if start >= self.stop:
            raise StopIteration
        self.position = min(start + self.batch, self.stop)
        return range(start, self.position)

    def snapshot(self) -> int:
        return self.position


class Numbers(FixedPartitionedSource[int, int]):
    def __init__(self, records: int, batch: int) -> None:
        self.bounds = {"0": (0, records // 2), "1": (records // 2, records)}
        self.batch = batch

    def list_parts(self) -> list[str]:
        return list(self.bounds)

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Range:
        return Range(*self.bounds[for_part], self.batch)


class Tally(DynamicSink[int]):
    """The cheapest sink that can be checked: count, sum and sum of squares of the numbers that come out."""

    def __init__(self) -> None:
        self.parts: list[TallyPart] = []

    def build(self, step_id: str, worker_index: int, worker_count: int) -> "TallyPart":
        part = TallyPart()
        self.parts.append(part)
        return part

    def results(self) -> list[tuple[int, int, int]]:
        return [(part.count, part.total, part.squares) for part in self.parts]


class TallyPart(StatelessSinkPartition[int]):
    def __init__(self) -> None:
        self.count = self.total = self.squares = 0

    def write_batch(self, items: list[int]) -> None:
        self.count += len(items)
        self.total += sum(items)
        self.squares += sum([x * x for x in items])


def map_filter(numbers: Stream[int], records: int) -> Stream[int]:
    mapped = op.map("map", numbers, lambda i: i * 3 + 1)
    return op.filter("filter", mapped, lambda x: x % 10 == 0)


def keyed_reduce(numbers: Stream[int], records: int) -> Stream[int]:
    keys = [f"key-{k}" for k in range(1_000)]
    last = records // 1_000

    def reduce(a: Event | None, b: Event) -> tuple[Event, Event]:
        total = b if a is None else (a[0], a[1] + b[1], a[2] + b[2])
        return total, total

    mapped = op.map("map", numbers, lambda i: (keys[i * 7919 % 1_000], 1, i))
    keyed = op.key_on("key", mapped, lambda r: r[0])
    reduced = op.stateful_map("reduce", keyed, reduce)
    kept = op.filter("filter", reduced, lambda kr: kr[1][1] == last)
    return op.map("digest", kept, lambda kr: kr[1][2])


def keyed_state(numbers: Stream[int], records: int) -> Stream[int]:
    last = max(1, records // 1_000_000)

    def count(state: int | None, key: int) -> tuple[int, tuple[int, int]]:
        seen = (state or 0) + 1
        return seen, (key, seen)

    mapped = op.map("map", numbers, lambda i: i * 2654435761 % 1_000_000)
    keyed = op.key_on("key", mapped, str)  # Bytewax takes strings only
    counted = op.stateful_map("count", keyed, count)
    kept = op.filter("filter", counted, lambda kr: kr[1][1] == last)
    return op.map("digest", kept, lambda kr: kr[1][0])


def of_events(numbers: Stream[int], mapper: Callable[[int], Event], windower: win.Windower) -> Stream[int]:
    """Count and sum of the numbers of each key and window."""
    mapped = op.map("map", numbers, mapper)
    keyed = op.key_on("key", mapped, lambda r: r[0])
    clock = win.EventClock(
        lambda r: EPOCH + timedelta(milliseconds=r[1]),
        timedelta(seconds=10),  # each key has its own watermark: the two partitions may drift apart by this
        now_getter=lambda: EPOCH,  # only event time moves the watermark
        to_system_utc=lambda _: None,
    )
    panes = win.fold_window(
        "window",
        keyed,
        clock,
        windower,
        lambda: (0, 0),
        lambda a, r: (a[0] + 1, a[1] + r[2]),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        ordered=False,
    )
    return op.map("digest", panes.down, lambda kp: kp[1][1][1] * 100 + kp[1][1][0])


def windows(numbers: Stream[int], records: int) -> Stream[int]:
    keys = [f"key-{k}" for k in range(10_000)]
    half = records // 2
    mapper = lambda i: (keys[i % half * 7919 % 10_000], i % half // 50, i)  # noqa: E731
    return of_events(numbers, mapper, win.TumblingWindower(timedelta(seconds=1), EPOCH))


def sliding_windows(numbers: Stream[int], records: int) -> Stream[int]:
    keys = [f"key-{k}" for k in range(1_000)]
    half = records // 2
    mapper = lambda i: (keys[i % half * 7919 % 1_000], i % half // 5, i)  # noqa: E731
    return of_events(numbers, mapper, win.SlidingWindower(timedelta(seconds=10), timedelta(seconds=1), EPOCH))


def session_windows(numbers: Stream[int], records: int) -> Stream[int]:
    keys = [f"key-{k}" for k in range(10_000)]
    half = records // 2
    mapper = lambda i: (  # noqa: E731
        keys[i % half // 5_000 % 10 * 1_000 + i % half * 7919 % 1_000],
        i % half // 20,
        i,
    )
    return of_events(numbers, mapper, win.SessionWindower(timedelta(seconds=1)))


class Sides:
    """What a key keeps of both sides of a join: records by the tenth of a second, for 10 s of its own event time."""

    def __init__(self) -> None:
        self.sides: tuple[dict[int, list[Event]], dict[int, list[Event]]] = {}, {}
        self.newest = 0

    def add(self, side: int, record: Event) -> list[Event]:
        """Keep a record; return those of the other side within 100 ms of it."""
        at = record[1]
        tenth = at // 100
        self.sides[side].setdefault(tenth, []).append(record)
        if tenth > self.newest:
            self.newest = tenth
            for kept in self.sides:
                for old in [each for each in kept if each < tenth - 100]:
                    del kept[old]
        others = self.sides[1 - side]
        near = (other for each in (tenth - 1, tenth, tenth + 1) for other in others.get(each, ()))
        return [other for other in near if abs(other[1] - at) <= 100]


def interval_join(numbers: Stream[int], records: int) -> Stream[int]:
    keys = [f"key-{k}" for k in range(10_000)]
    half = records // 2

    def join(state: Sides | None, item: tuple[int, Event]) -> tuple[Sides, list[int]]:
        sides, (side, record) = state or Sides(), item
        pairs = [(other, record) if side else (record, other) for other in sides.add(side, record)]
        return sides, [left[2] * 3 + right[2] for left, right in pairs]

    mapped = op.map("map", numbers, lambda i: (keys[i % half * 7919 % 10_000], i % half // 50, i))
    left = op.map("left", mapped, lambda r: (0, r))
    right = op.map("right", mapped, lambda r: (1, r))
    keyed = op.key_on("key", op.merge("both", left, right), lambda item: item[1][0])
    joined = op.stateful_flat_map("join", keyed, join)
    return op.map("digest", joined, lambda kv: kv[1])


class Price(NamedTuple):
    item: int
    price: int


class Everywhere(FixedPartitionedSource[Any, int]):
    """The same few items in each of two partitions."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def list_parts(self) -> list[str]:
        return ["0", "1"]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> "Items":
        return Items(self.items)


class Items(StatefulSourcePartition[Any, int]):
    def __init__(self, items: list[Any]) -> None:
        self.left = items

    def next_batch(self) -> list[Any]:
        if not self.left:
            raise StopIteration
        items, self.left = self.left, []
        return items

    def snapshot(self) -> int:
        return 0


def broadcast_join(numbers: Stream[int], records: int) -> Stream[int]:
    list_prices = {item: (item + 1) * 10 for item in range(1_000)}
    prices: dict[int, int] = {}

    def amount(value: tuple[int, int] | Price) -> tuple[int, ...]:
        if type(value) is Price:
            prices[value.item] = value.price
            return (value.price,)
        price = prices.get(value[0])
        return (value[1] * (list_prices[value[0]] if price is None else price),)

    mapped = op.map("map", numbers, lambda i: (i * 7919 % 1_000, i))
    everywhere = op.input("prices", numbers.flow(), Everywhere([Price(*each) for each in list_prices.items()]))
    joined = op.flat_map("join", op.merge("both", everywhere, mapped), amount)
    return op.filter("filter", joined, lambda x: x % 3 == 0)


def map_state(numbers: Stream[int], records: int) -> Stream[int]:
    last = max(1, records // 100_000)

    def count(state: dict[int, int] | None, x: int) -> tuple[dict[int, int], tuple[int, int]]:
        seen = {} if state is None else state
        item = x % 10
        seen[item] = seen.get(item, 0) + 1
        return seen, (x, seen[item])

    mapped = op.map("map", numbers, lambda i: i * 2654435761 % 100_000)
    keyed = op.key_on("key", mapped, lambda x: str(x // 10))  # Bytewax takes strings only
    counted = op.stateful_map("count", keyed, count)
    kept = op.filter("filter", counted, lambda kr: kr[1][1] == last)
    return op.map("digest", kept, lambda kr: kr[1][0])


JOBS: dict[str, Callable[[Stream[int], int], Stream[int]]] = {
    each.__name__: each
    for each in (
        map_filter,
        keyed_reduce,
        keyed_state,
        windows,
        sliding_windows,
        session_windows,
        interval_join,
        broadcast_join,
        map_state,
    )
}


def start(workload: str, records: int, batch: int) -> tuple[Dataflow, Tally]:
    tally = Tally()
    flow = Dataflow(workload)
    numbers = op.input("numbers", flow, Numbers(records, batch))
    op.output("tally", JOBS[workload](numbers, records), tally)
    return flow, tally


def main(workload: str, records: int, batch: int, layout: str) -> None:
    flow, tally = start(workload, records, batch)
    other: list[str] = []
    if layout == "2-processes":
        addresses = free_addresses(2)
        command = [sys.executable, __file__, workload, str(records), str(batch), addresses]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second:
            cluster_main(flow, addresses.split(";"), 0)
            other = second.communicate()[0].split()
    elif layout == "2-threads":
        cluster_main(flow, [], 0, worker_count_per_proc=2)
    else:
        run_main(flow)
    parts = [*tally.results(), *([tuple(map(int, other))] if other else [])]
    print("RESULT", *(sum(column) for column in zip(*parts, strict=True)))


def second_process(workload: str, records: int, batch: int, addresses: str) -> None:
    flow, tally = start(workload, records, batch)
    cluster_main(flow, addresses.split(";"), 1)
    print(*(sum(column) for column in zip(*tally.results(), strict=True)))


def free_addresses(count: int) -> str:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return ";".join(addresses)


if __name__ == "__main__":
    run = second_process if ":" in sys.argv[4] else main
    run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
