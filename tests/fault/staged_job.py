"""A batch job of six vertices whose drivers are to die: two sources, a join, an aggregate, a sort, and its sink.

Usage: python -m tests.fault.staged_job DIRECTORY [--checkpoints DIRECTORY]

Each attempt at a subtask notes its records, a byte each, in a file of its own below ``calls``, and its end with another
one. So it is known what ran, how far, and what ran again.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.graph.combining import with_combiners
from penstock.common import Configuration, Encoder, Order, WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import KeyedCoProcessFunction, MapFunction, MapPartitionFunction, ReduceFunction
from penstock.datastream.state import ListStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.graph.job_graph import JobGraph

NAME = "staged"
#: Records of the sources; each left one meets one right one, and each sum is of two pairs.
LEFT, RIGHT = 60, 30
SUMS = LEFT // 2
#: What each vertex notes when the job runs once. A sum of two pairs is one call.
WHOLE = Counter(
    {"left": LEFT, "right": RIGHT, "join": LEFT + RIGHT, "aggregate": LEFT - SUMS, "sort": SUMS, "sink": SUMS}
)
TRUTH = Counter(f"{key},{sum(left + left % RIGHT for left in range(key, LEFT, SUMS))}" for key in range(SUMS))
#: Events are stored after this time.
FLUSH_S = 1.0
#: Milliseconds that a record takes.
PACE = "STAGED_JOB_PACE_MS"


class Notes:
    """The notes of one attempt at a subtask."""

    def __init__(self, place: str, vertex: str) -> None:
        self._place, self.vertex = place, vertex

    def begin(self, subtask: int) -> None:
        self._path = Path(self._place) / "calls" / f"{self.vertex}-{subtask}-{os.getpid()}-{token_hex(4)}"
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._pause_s = float(os.environ.get(PACE, "1")) / 1000

    def note(self) -> None:
        os.write(self._file, b".")
        time.sleep(self._pause_s)

    def end(self) -> None:
        self._path.with_name(f"{self._path.name}-ended").touch()
        os.close(self._file)


class Noted(MapFunction):
    """Passes records on."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def open(self, runtime_context: Any) -> None:
        self._notes.begin(runtime_context.get_index_of_this_subtask())

    def map(self, value: Any) -> Any:
        self._notes.note()
        return value

    def close(self) -> None:
        self._notes.end()


class Join(KeyedCoProcessFunction):
    """Pairs the records of two inputs that have a key in common."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def open(self, runtime_context: Any) -> None:
        self._notes.begin(runtime_context.get_index_of_this_subtask())
        self._left = runtime_context.get_list_state(ListStateDescriptor("left"))
        self._right = runtime_context.get_list_state(ListStateDescriptor("right"))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self._notes.note()
        self._left.add(value)
        yield from ((value % SUMS, value + other) for other in self._right.get())

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        self._notes.note()
        self._right.add(value)
        yield from ((other % SUMS, other + value) for other in self._left.get())

    def close(self) -> None:
        self._notes.end()


class Sum(ReduceFunction):
    """Adds up the pairs of a key."""

    combinable = False

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def open(self, runtime_context: Any) -> None:
        self._notes.begin(runtime_context.get_index_of_this_subtask())

    def reduce(self, value1: Any, value2: Any) -> Any:
        self._notes.note()
        return value1[0], value1[1] + value2[1]

    def close(self) -> None:
        self._notes.end()


class Lines(MapPartitionFunction):
    """Makes a line of each record of a partition."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def open(self, runtime_context: Any) -> None:
        self._notes.begin(runtime_context.get_index_of_this_subtask())

    def map_partition(self, values: Iterator[Any]) -> Iterator[str]:
        for key, total in values:
            self._notes.note()
            yield f"{key},{total}"

    def close(self) -> None:
        self._notes.end()


def settings(directory: Path, checkpoints: str | None = None) -> dict[str, str]:
    """Return the settings of the job, which takes a snapshot of its enumerators before each reading."""
    recovery = "execution.batch.job-recovery"
    return {
        "execution.checkpointing.dir": checkpoints or str(directory / "checkpoints"),
        "execution.runtime-mode": "BATCH",
        "execution.batch.adaptive.auto-parallelism.enabled": "false",
        f"{recovery}.enabled": "true",
        f"{recovery}.snapshot.min-pause": "0 ms",
        f"{recovery}.previous-worker.recovery.timeout": "2 s",
        "job-event.store.write-buffer.flush-interval": f"{FLUSH_S * 1000:.0f} ms",
    }


def environment(directory: Path, checkpoints: str | None = None, /, **others: str) -> StreamExecutionEnvironment:
    """Return an environment with the job in it, which writes below a directory."""
    configuration = Configuration.from_dict({**settings(directory, checkpoints), **others})
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)

    def noted(vertex: str) -> Notes:
        return Notes(str(directory), vertex)

    def source(name: str, total: int) -> Any:
        numbers = env.from_source(NumberSequenceSource(0, total - 1), WatermarkStrategy.no_watermarks(), name)
        return numbers.uid(name).map(Noted(noted(name))).uid(f"{name} noted")

    left, right = source("left", LEFT), source("right", RIGHT)
    both = left.key_by(lambda number: number % RIGHT).connect(right.key_by(lambda number: number))
    pairs = both.process(Join(noted("join"))).uid("join")
    sums = pairs.key_by(lambda pair: pair[0]).reduce(Sum(noted("aggregate"))).uid("aggregate")
    ordered = sums.rebalance().full_window_partition().sort_partition(lambda pair: pair[1], Order.ASCENDING).uid("sort")
    lines = (
        ordered.map(Noted(noted("sort"))).uid("sort noted").full_window_partition().map_partition(Lines(noted("sink")))
    )
    files = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build()
    lines.uid("sink").sink_to(files).uid("files")
    return env


def graph_of(env: StreamExecutionEnvironment) -> JobGraph:
    """Return the graph of the job as it runs."""
    return with_combiners(build_job_graph(env._stream_graph(NAME)))


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a subtask."""

    name: str
    vertex: str
    subtask: int
    pid: int
    records: int
    #: When it came to its end, by the clock of its machine; None if it did not.
    ended_s: float | None


def attempts(directory: Path) -> list[Attempt]:
    """Return all attempts at subtasks so far."""
    found: list[Attempt] = []
    for path in sorted((directory / "calls").glob("*")):
        if path.name.endswith("-ended"):
            continue
        vertex, subtask, pid, _ = path.name.split("-")
        ended = path.with_name(f"{path.name}-ended")
        ended_s = ended.stat().st_mtime if ended.exists() else None
        found.append(Attempt(path.name, vertex, int(subtask), int(pid), path.stat().st_size, ended_s))
    return found


def published(directory: Path) -> Counter[str]:
    """Return the lines that a reader of the sink's folder sees."""
    files = [path for path in (directory / "out").rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Counter(line for path in files for line in path.read_text().splitlines())


def main() -> None:
    """Run the job on Spark, to its end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--checkpoints", help="where checkpoints are kept; below the directory by default")
    options = parser.parse_args()
    (options.directory / "calls").mkdir(exist_ok=True)
    environment(options.directory, options.checkpoints).execute(NAME)
    (options.directory / "ended").touch()


if __name__ == "__main__":
    from tests.fault import staged_job  # functions of the job are found there by tasks

    staged_job.main()
