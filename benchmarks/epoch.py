"""What an empty epoch costs beside the bare Spark job of the same shape, and where its time goes.

    python benchmarks/epoch.py                          two levels at parallelism 2, five at parallelism 64
    python benchmarks/epoch.py --epochs 20 --only 2     quicker
    python benchmarks/epoch.py --given-session          in a session that the program made with PySpark's own defaults

Two slots in one process. A job runs epoch after epoch: each source subtask reads one number and drops it, nothing
crosses a level, no state changes, and a checkpoint is written and synced. Right before each epoch the same Spark
session runs the bare job, so that every epoch has its own measure: `range`, `mapInArrow`, `repartitionById`,
`mapInArrow` …, `collect`, with two tasks a level, built anew each time, its functions handing two rows on. The floor is
the same job built once, whose few rows come as text, as those of epochs do. An epoch counts from the moment when these
have ended to the moment when the driver asks for the next one: checkpoint, enumerators and coordinator are all in it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from figures import Figures
from jobs import start
from pyspark.sql import SparkSession

from penstock._engine.runtime.row_buffer import ExchangeRow, record_batch
from penstock._engine.spark.epoch import _SCHEMA, ANSWERS, SparkEpochRunner, answers, collect
from penstock._engine.spark.session import SparkHandle, get_session
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock._engine.plan.epoch_plan import EpochOutcome, EpochPlan
    from penstock.datastream.functions import RuntimeContext

SLOTS = 2
#: The JVM compiles and Spark fills its caches meanwhile.
WARM_UP = 15


@dataclass(frozen=True, slots=True)
class Shape:
    """A job that is measured."""

    levels: int
    parallelism: int

    @property
    def name(self) -> str:
        return f"{self.levels} levels, parallelism {self.parallelism}"


SHAPES = (Shape(2, 2), Shape(5, 64))


class Count(KeyedProcessFunction):
    """Has state, so that the epoch has state to take care of, although none changes."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[int]:
        self.count.update((self.count.value() or 0) + 1)
        yield value


@dataclass(slots=True)
class Timing:
    """One epoch in seconds, and the bare job before it."""

    bare: float
    #: Of the bare job: building its plan.
    bare_build: float
    #: The bare job whose plan is there.
    floor: float
    whole: float = 0.0
    #: Of the epoch: getting the plan, Spark's planning, and all of what the runner does.
    build: float = 0.0
    planning: float = 0.0
    runner: float = 0.0


class BareJob:
    """The Spark job of the same shape without Penstock."""

    def __init__(self, session: SparkSession, levels: int) -> None:
        self._session, self._levels = session, levels
        self._prepared = self._levels_of(answers, ANSWERS)

    def run(self) -> tuple[float, float, float]:
        """Run it both ways; return the seconds of the whole and of its building, and those of the prepared one."""
        start = time.perf_counter()
        frame = self._levels_of(_pass_on, _SCHEMA).select("kind", "payload")
        built = time.perf_counter()
        rows = frame.collect()
        assert len(rows) == 2 * SLOTS
        ended = time.perf_counter()
        assert len(list(collect(self._prepared.alias("bare")))) == 2 * SLOTS
        return ended - start, built - start, time.perf_counter() - ended

    def _levels_of(self, last: Any, schema: Any) -> DataFrame:
        frame = self._session.range(SLOTS, numPartitions=SLOTS).mapInArrow(_two_rows, _SCHEMA)
        for level in range(1, self._levels):
            is_last = level == self._levels - 1
            task, of = (last, schema) if is_last else (_pass_on, _SCHEMA)
            frame = frame.repartitionById(SLOTS, "slot").mapInArrow(task, of)
        return frame


def _two_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield record_batch([ExchangeRow(slot, 0, 0, 0, 0, 0, b"x") for slot in range(SLOTS)])


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


class PairedRunner(SparkEpochRunner):
    """Runs the bare job before each epoch, and takes the time of both."""

    def __init__(self, spark: SparkHandle, levels: int, epochs: int) -> None:
        super().__init__(spark)
        self._bare = BareJob(spark.session, levels)
        self._wanted = WARM_UP + epochs
        self._began = self._build_s = 0.0
        self._last: Any = None
        self._timings: list[Timing] = []
        self.done = threading.Event()

    @property
    def timings(self) -> list[Timing]:
        """The epochs that count."""
        return self._timings[WARM_UP : self._wanted]

    def run(self, plan: EpochPlan) -> EpochOutcome:
        """Run the bare job and then the epoch."""
        if self._timings and not self._timings[-1].whole:
            self._timings[-1].whole = time.perf_counter() - self._began
        if len(self._timings) == self._wanted:
            self.done.set()
            return super().run(plan)
        timing = Timing(*self._bare.run())
        self._began = time.perf_counter()
        outcome = super().run(plan)
        timing.runner = time.perf_counter() - self._began
        timing.build, timing.planning = self._build_s, self._planning_s()
        self._timings.append(timing)
        return outcome

    def _frame(self, plan: EpochPlan) -> DataFrame:
        start = time.perf_counter()
        self._last = super()._frame(plan)
        self._build_s = time.perf_counter() - start
        return self._last

    def _planning_s(self) -> float:
        phases = self._last._jdf.queryExecution().tracker().phases()
        names = ("analysis", "optimization", "planning")
        return sum(phases.apply(name).durationMs() for name in names if phases.contains(name)) / 1000


def job(shape: Shape, directory: Path) -> StreamExecutionEnvironment:
    """Return a job whose epochs are empty: no record gets past the first operator."""
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(shape.parallelism)
    rate = RateLimiterStrategy.per_checkpoint(shape.parallelism)
    source = DataGeneratorSource(lambda index: index, None, rate)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").filter(lambda _: False)
    for _ in range(1, shape.levels):
        stream = stream.key_by(lambda number: number).process(Count())
    stream.print()
    return env


def measure(
    shape: Shape, spark: SparkHandle, epochs: int, hosts: Callable[[], tuple[str, ...]] | None = None
) -> list[Timing]:
    """Run the job of a shape for some epochs; on a cluster, its tasks have hosts."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        directory = Path(scratch)
        env = job(shape, directory)
        runner = PairedRunner(spark, shape.levels, epochs)
        driver = start(env, "empty", runner, slots=SLOTS, state_directory=directory / "state", hosts=hosts)
        while not runner.done.wait(0.5):
            if driver.result.done():
                driver.result.result()
        driver.cancel()
        driver.result.exception(60)
    return runner.timings


def report(figures: Figures, shape: Shape, timings: list[Timing]) -> None:
    """Add the figures of one shape."""
    ratios = [each.whole / each.bare for each in timings]
    differences = [each.whole - each.bare for each in timings]
    low, _, high = quantiles(ratios, n=4)
    whole, bare = median(each.whole for each in timings), median(each.bare for each in timings)
    beside = f"{_ms(whole)} beside {_ms(bare)} ms"
    if shape.levels == 2:
        ratio = median(ratios)
        value = f"{ratio:.2f} × (quartiles {low:.2f} to {high:.2f}): {beside}"  # noqa: RUF001
        figures.add(f"Empty epoch, {shape.name}, to the bare job", value, "≤ 1.15", met=ratio <= 1.15)
    else:
        more = median(differences)
        value = f"{_ms(more)} ms more: {beside}"
        figures.add(f"Empty epoch, {shape.name}, over the bare job", value, "≤ 1 s", met=more <= 1)
    parts = {
        "getting the plan": [each.build for each in timings],
        "Spark's planning": [each.planning for each in timings],
        "running it, tasks and results": [each.runner - each.build - each.planning for each in timings],
        "driver, checkpoint included": [each.whole - each.runner for each in timings],
    }
    figures.add("Where it goes", ", ".join(f"{name} {_ms(median(values))} ms" for name, values in parts.items()))
    over = median(each.whole - each.floor for each in timings)
    floor = f"{_ms(median(each.floor for each in timings))} ms; an epoch takes {_ms(over)} ms more"
    figures.add("The floor, a prepared job that does nothing", floor)
    figures.add("The bare job's plan takes", f"{_ms(median(each.bare_build for each in timings))} ms to build")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60, help="epochs that count, of each shape (60)")
    parser.add_argument("--only", type=int, choices=[shape.levels for shape in SHAPES], help="one shape, by its levels")
    parser.add_argument("--given-session", action="store_true", help="run in a session that the program made")
    arguments = parser.parse_args()
    if arguments.given_session:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        SparkSession.builder.master(f"local[{SLOTS}]").getOrCreate()
    spark = get_session(SLOTS)
    figures = Figures("The price of an epoch" + (" in a given session" if arguments.given_session else ""))
    for shape in SHAPES:
        if arguments.only in (None, shape.levels):
            report(figures, shape, measure(shape, spark, arguments.epochs))
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())
