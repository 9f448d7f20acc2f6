"""Random graphs in random epochs on a bad day: what comes out equals a plain evaluation, record for record.

Tasks move between workers and hosts, run twice, have their output read in two versions; epochs are lost or void and run
again, jobs start fresh from their last checkpoint. None of it may show.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.kit.epochs import Job, in_order
from tests.kit.program import Program

from penstock._engine.plan import levels
from penstock.datastream.functions import ProcessFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import EpochInfrastructureError
from penstock.testing.in_process import Chaos, InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.datastream import DataStream

#: Records are (number, timestamp).
Record = tuple[int, int]

ODD = OutputTag("odd")
WINDOW_MS = 10


class SplitOdd(ProcessFunction):
    def process_element(self, value: Record, ctx: Any) -> Iterable[Any]:
        yield (ODD, value) if value[0] % 2 else value


@dataclass(frozen=True)
class Node:
    """One step of a program: what it does, to the outputs of which steps, in how many subtasks."""

    kind: str
    inputs: tuple[int, ...]
    parallelism: int


def add_counts(a: tuple[int, int, int], b: tuple[int, int, int]) -> tuple[int, int, int]:
    return a[0], a[1] + b[1], max(a[2], b[2])


def count_by(stream: DataStream, node: Node) -> DataStream:
    """Number the records of each key: which record gets which number is open, which numbers there are is not."""
    counted = (
        stream.map(lambda record: (record[0] % 5, 1, 0))
        .key_by(lambda record: record[0])
        .reduce(add_counts)
        .set_parallelism(node.parallelism)
    )
    return counted.map(lambda record: (record[0] * 1000 + record[1], 0))


def windowed(stream: DataStream, node: Node) -> DataStream:
    """Count the records of each key and window."""
    counted = (
        stream.map(lambda record: (record[0] % 3, 1, record[1]))
        .key_by(lambda record: record[0])
        .window(TumblingEventTimeWindows(WINDOW_MS, 0))
        .reduce(add_counts)
        .set_parallelism(node.parallelism)
    )
    return counted.map(lambda record: (record[0] * 1000 + record[1], last_ms(record[2])))


def last_ms(timestamp: int) -> int:
    """Return the end of the timestamp's window."""
    return timestamp // WINDOW_MS * WINDOW_MS + WINDOW_MS - 1


def exact(records: list[Record]) -> list[Record]:
    """Evaluate `windowed`."""
    windows = Counter((number % 3, time // WINDOW_MS) for number, time in records)
    return [(key * 1000 + count, last_ms(start * WINDOW_MS)) for (key, start), count in windows.items()]


def numbered(records: list[Record]) -> list[Record]:
    """Evaluate `count_by`."""
    keys = Counter(number % 5 for number, _ in records)
    return [(key * 1000 + place, 0) for key, count in keys.items() for place in range(1, count + 1)]


def doubled(record: Record) -> list[Record]:
    return [record] * (record[0] % 3)


#: How a step is built, and how it is evaluated; steps of one input.
STEPS: dict[str, tuple[Callable[[DataStream, Node], DataStream], Callable[[list[Record], Node], list[Record]]]] = {
    "map": (
        lambda stream, node: stream.map(lambda record: (record[0] + 1, record[1])).set_parallelism(node.parallelism),
        lambda records, node: [(number + 1, time) for number, time in records],
    ),
    "filter": (
        lambda stream, node: stream.filter(lambda record: record[0] % 4 != 0).set_parallelism(node.parallelism),
        lambda records, node: [record for record in records if record[0] % 4 != 0],
    ),
    "flat_map": (
        lambda stream, node: stream.flat_map(doubled).set_parallelism(node.parallelism),
        lambda records, node: [copy for record in records for copy in doubled(record)],
    ),
    "rebalance": (
        lambda stream, node: stream.rebalance().map(lambda record: record).set_parallelism(node.parallelism),
        lambda records, node: records,
    ),
    "rescale": (
        lambda stream, node: stream.rescale().map(lambda record: record).set_parallelism(node.parallelism),
        lambda records, node: records,
    ),
    "shuffle": (
        lambda stream, node: stream.shuffle().map(lambda record: record).set_parallelism(node.parallelism),
        lambda records, node: records,
    ),
    "broadcast": (
        lambda stream, node: stream.broadcast().map(lambda record: record).set_parallelism(node.parallelism),
        lambda records, node: records * node.parallelism,
    ),
    "count": (count_by, lambda records, node: numbered(records)),
    "window": (windowed, lambda records, node: exact(records)),
}


def rising(items: list[Record]) -> list[Record]:
    """Turn steps of time into times."""
    times = accumulate(step for _, step in items)
    return [(number, time) for (number, _), time in zip(items, times, strict=True)]


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[list[list[Record]]], list[Node]]:
    """Return the lists of each source, with rising timestamps, and the steps behind them."""
    pairs = st.tuples(st.integers(0, 30), st.integers(0, 12))
    numbers = st.one_of(st.lists(pairs, min_size=8, max_size=20), st.lists(pairs, max_size=2))
    sources: list[list[list[Record]]] = []
    for _ in range(draw(st.integers(1, 3))):
        lists = draw(st.lists(numbers, min_size=1, max_size=3))
        sources.append([rising(items) for items in lists])
    # A subtask for each list: of two lists that one subtask reads in turn, the second would be late.
    nodes = [Node("source", (), len(lists)) for lists in sources]
    #: Outputs that can be read, and whether their timestamps are what the evaluation says.
    timed = [True] * len(nodes)
    for _ in range(draw(st.integers(2, 8))):
        kind = draw(st.sampled_from(sorted([*STEPS, "union", "split"])))
        size = draw(st.integers(2, 3)) if kind == "union" else 1
        inputs = tuple(len(nodes) - 1 - draw(st.integers(0, min(4, len(nodes) - 1))) for _ in range(size))
        if kind == "window" and not timed[inputs[0]]:
            kind = "map"
        nodes.append(Node(kind, inputs, draw(st.integers(1, 4))))
        timed.append(kind != "count" and all(timed[place] for place in inputs))
        if kind == "split":
            nodes.append(Node("odd", (len(nodes) - 1,), 0))
            timed.append(timed[-1])
    return sources, nodes


def build(program: Program, sources: list[list[list[Record]]], nodes: list[Node]) -> None:
    """Build a program that collects the output of every step."""
    streams: list[DataStream] = []
    for place, node in enumerate(nodes):
        match node.kind:
            case "source":
                stream = program.source(*sources[place], name=f"source-{place}", timestamps=in_order())
                stream = stream.set_parallelism(node.parallelism)
            case "union":
                first, *others = [streams[source] for source in node.inputs]
                stream = first.union(*others)
            case "split":
                stream = streams[node.inputs[0]].process(SplitOdd()).set_parallelism(node.parallelism)
            case "odd":
                stream = streams[node.inputs[0]].get_side_output(ODD)
            case kind:
                stream = STEPS[kind][0](streams[node.inputs[0]], node)
        streams.append(stream)
        program.collect(stream, f"out-{place}")


def evaluate(sources: list[list[list[Record]]], nodes: list[Node]) -> dict[str, Counter[Record]]:
    """Return what each step gives."""
    outputs: list[list[Record]] = []
    for place, node in enumerate(nodes):
        read = [outputs[source] for source in node.inputs]
        match node.kind:
            case "source":
                records = [record for items in sources[place] for record in items]
            case "union":
                records = [record for items in read for record in items]
            case "split":
                records = read[0]
            case "odd":
                whole = read[0]
                outputs[-1] = [record for record in whole if record[0] % 2 == 0]
                records = [record for record in whole if record[0] % 2]
            case kind:
                records = STEPS[kind][1](read[0], node)
        outputs.append(records)
    return {f"out-{place}": Counter(records) for place, records in enumerate(outputs)}


@settings(max_examples=settings().max_examples * 4 // 5, suppress_health_check=[HealthCheck.too_slow])
@given(
    program=programs(),
    runner=st.builds(
        InProcessEpochRunner,
        workers=st.integers(1, 3),
        hosts=st.integers(1, 2),
        chaos=st.sampled_from([Chaos(), Chaos(retries=0.2, mixtures=0.05, losses=0.02)]),
        seed=st.integers(0, 1 << 16),
    ),
    slots=st.integers(1, 4),
    sizes=st.lists(st.integers(1, 8), min_size=1),
    restarts=st.sets(st.integers(1, 10), max_size=2),
    most_rows=st.sampled_from([0, 3, levels.MAX_CLOSING_ROWS]),
)
def test_outputs_equal_a_plain_evaluation(
    program: tuple[list[list[list[Record]]], list[Node]],
    runner: InProcessEpochRunner,
    slots: int,
    sizes: list[int],
    restarts: set[int],
    *,
    most_rows: int,
) -> None:
    sources, nodes = program
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        # Edges with more channels are wide: senders end and become idle through the driver. With 3 some edges are.
        patch.setattr(levels, "MAX_CLOSING_ROWS", most_rows)
        place = Path(directory)
        made = Program(place)
        build(made, sources, nodes)
        job = Job(made.graph(), place, runner, slots)
        for turn in range(1000):
            if job.finished:
                break
            if turn in restarts:
                job = job.restarted()
            try:
                job.epoch(sizes[turn % len(sizes)])
            except EpochInfrastructureError:
                note(f"epoch {job.checkpoint_id + 1} was lost")
        assert job.finished
        runner.close()
        found = {name: Counter(records) for name, records in job.outputs.items()}
        expected = {name: records for name, records in evaluate(sources, nodes).items() if records}
        assert found == expected
