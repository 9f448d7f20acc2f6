"""The job of the fault tests: small, deterministic, and it uses all that a checkpoint is made of.

Numbers are counted by key and each count is written once; another branch keeps the largest number of each parity and
prints it. So there is keyed state of two operators (one too large for the metadata), a sink whose files go on over
several checkpoints, and output for the program.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.fault.counting_job import KEYS, Count
from tests.kit.driving import Epochs
from tests.kit.driving import assembled as assembled_on
from tests.kit.settings import configured

from penstock._engine.driver.mailbox import SystemClock
from penstock._engine.graph.chaining import build_job_graph
from penstock.common import Configuration, Encoder, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.driver.loop import JobLoop
    from penstock._engine.graph.job_graph import JobGraph
    from penstock.datastream import DataStream
    from penstock.testing.in_process import InProcessEpochRunner

NUMBERS = 500
#: What a reader reads in one epoch: there are four.
PER_EPOCH = 80
#: Bytes after which a part ends: some parts are of one epoch, some of several.
PART_BYTES = 700
#: Deltas of more bytes are files; of the two keyed operators one has larger ones, the other smaller.
INLINE = "120 bytes"
NAME = "counting"
MOST_EPOCHS = 60


class SteadyRunner(Epochs):
    """Gives sources the same share in each epoch, so that one run is like the other; ends jobs that do not end."""

    def __init__(self, **options: Any) -> None:
        super().__init__(PER_EPOCH, MOST_EPOCHS, **{"clock": None, **options})


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    """Return the numbers, half of them from each of two readers, some in each poll."""
    halves = range(NUMBERS // 2), range(NUMBERS // 2, NUMBERS)
    source = ListSource(*halves, happened_in="", records_per_poll=PER_EPOCH // 4)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


def count(stream: DataStream, directory: Path) -> None:
    """Have the counts of a stream of numbers written below a directory."""
    policy = RollingPolicy.default_rolling_policy(part_size=PART_BYTES)
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder())
    counts = stream.key_by(lambda number: number % KEYS).process(Count(), Types.STRING())
    counts.sink_to(sink.with_rolling_policy(policy).build())


def counting_graph(directory: Path, parallelism: int = 2) -> JobGraph:
    """Return the job, which writes below a directory."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    stream = numbers(env)
    count(stream, directory)
    stream.key_by(lambda number: number % 2).reduce(max).filter(lambda number: number % 50 == 0).print()
    return build_job_graph(env._stream_graph(NAME))


def settings(directory: Path, /, **others: str) -> Configuration:
    """Return the settings of a job that goes on from its last checkpoint, with others by their short names or keys."""
    defaults = {"checkpoints": str(directory / "checkpoints"), "interval": "10 ms", "inline": INLINE}
    return configured(**{**defaults, "recover": "latest", **others})


def assembled(
    graph: JobGraph,
    directory: Path,
    runner: InProcessEpochRunner | None = None,
    clock: SystemClock | None = None,
    /,
    **others: str,
) -> tuple[JobDriver, JobLoop]:
    """Return a driver with real threads and real storage, whose epochs run in this process."""
    threads = clock or SystemClock()
    return assembled_on(graph, settings(directory, **others), directory / "state", runner or SteadyRunner(), threads)


def published(directory: Path) -> list[str]:
    """Return the lines that a reader of the sink's folder sees."""
    folder = directory / "out"
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return [line for path in files for line in path.read_text().splitlines()]


def rows(lines: list[str]) -> Counter[tuple[int, ...]]:
    return Counter(tuple(map(int, line.split(","))) for line in lines)


def is_truth(directory: Path, total: int = NUMBERS) -> bool:
    """Tell whether the files hold each number once, and every key's counts from one on."""
    return are_truth(published(directory), total)


def are_truth(lines: list[str], total: int) -> bool:
    """Tell whether lines hold each number once, and every key's counts from one on."""
    found = rows(lines)
    numbers_once = sorted(number for _, number, _ in found.elements()) == list(range(total))
    counted = Counter((key, count) for key, _, count in found.elements())
    totals = Counter(number % KEYS for number in range(total))
    wanted = Counter((key, count) for key, total in totals.items() for count in range(1, total + 1))
    return numbers_once and counted == wanted
