"""A job that is stopped at any moment, and goes on at any parallelism, gives what it gives without a stop."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.kit.stories import EndlessSource, Sheet, Story

from penstock._engine.protocol.control import StopMode
from penstock.common.job_status import JobStatus
from penstock.common.time import Duration, Time
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.spark.session import SparkHandle
    from penstock.datastream import DataStream

#: The campaign asks for more.
EXAMPLES = int(os.environ.get("PENSTOCK_RESTORE_EXAMPLES", "15"))


class ByValue(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value * 10


#: No record is late, however the splits are read, so nothing fires before the end. What comes of a count has the time
#: of whichever record was counted then, so times are given anew where they matter.
TIMES = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_days(9)).with_timestamp_assigner(ByValue())


class Count(KeyedProcessFunction):
    """The number of each record among those of its key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key() + 10 * self.count.value()


class Alarm(KeyedProcessFunction):
    """A timer for each key and timestamp."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(ctx.timestamp())
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp // 10 + ctx.get_current_key()


def timed(stream: Any) -> Any:
    return stream.assign_timestamps_and_watermarks(TIMES)


STAGES: dict[str, Callable[[Any], Any]] = {
    "map": lambda stream: stream.map(lambda n: n + 1),
    "filter": lambda stream: stream.filter(lambda n: n % 5 != 0),
    "double": lambda stream: stream.flat_map(lambda n: (n, n + 50)),
    "count": lambda stream: stream.key_by(lambda n: n % 3).process(Count()),
    "alarm": lambda stream: timed(stream).key_by(lambda n: n % 2).process(Alarm()),
    "window": lambda stream: (
        timed(stream).key_by(lambda n: n % 2).window(TumblingEventTimeWindows.of(Time.milliseconds(70))).reduce(max)
    ),
}
KEYED = {"count", "alarm", "window"}


@dataclass(frozen=True)
class Step:
    """An operator, and the edge before it; keyed ones have their own."""

    stage: str
    edge: str


@dataclass(frozen=True)
class Plan:
    """A job: branches, each a source with steps behind it, and the steps behind all of them."""

    branches: tuple[tuple[tuple[tuple[int, ...], ...], tuple[Step, ...]], ...]
    trunk: tuple[Step, ...]

    @property
    def operators(self) -> int:
        return sum(1 + len(steps) for _, steps in self.branches) + len(self.trunk)

    def write(self, sizes: list[int]) -> Callable[[Sheet], None]:
        """Return the program with a parallelism for each operator."""

        def program(sheet: Sheet) -> None:
            left = iter(enumerate(sizes))
            streams: list[DataStream] = []
            for number, (lists, steps) in enumerate(self.branches):
                place, size = next(left)
                stream = sheet.source(f"source-{place}", *lists, timestamps=TIMES, kind=_kind(number))
                stream.set_parallelism(size)
                for step in steps:
                    stream = _add(stream, step, *next(left))
                streams.append(stream)
            stream = streams[0].union(*streams[1:]) if streams[1:] else streams[0]
            for step in self.trunk:
                stream = _add(stream, step, *next(left))
            sheet.collect(stream)

        return program


def _kind(number: int) -> type[ListSource]:
    """Let the first source run on, so that no job ends before it is drained."""
    return EndlessSource if number == 0 else ListSource


def _add(stream: DataStream, step: Step, place: int, size: int) -> DataStream:
    if step.stage not in KEYED:
        stream = stream.rescale() if step.edge == "rescale" else stream.rebalance()
    return STAGES[step.stage](stream).uid(f"{step.stage}-{place}").set_parallelism(size)


MOST_SPLITS = 4
steps = st.builds(Step, st.sampled_from(sorted(STAGES)), st.sampled_from(["rescale", "rebalance"]))
splits = st.lists(st.integers(0, 40), max_size=9).map(tuple)
branches = st.tuples(
    st.lists(splits, min_size=1, max_size=MOST_SPLITS).map(tuple), st.lists(steps, max_size=2).map(tuple)
)
plans = st.builds(Plan, st.lists(branches, min_size=1, max_size=3).map(tuple), st.lists(steps, max_size=2).map(tuple))


class DrainedWhenDry:
    """Drains the job after more epochs without a record than a source has splits: each of these may be empty."""

    def __init__(self) -> None:
        self._dry = 0

    def get(self, epoch: int) -> Callable[[JobDriver], None]:
        def ask(driver: JobDriver) -> None:
            self._dry = 0 if epoch <= 2 or driver.progress.epoch_records else self._dry + 1
            if self._dry == MOST_SPLITS + 1:
                driver.savepoint(None, StopMode.DRAIN)

        return ask


def cancel(driver: JobDriver) -> None:
    driver.cancel()


def output(story: Story) -> bytes:
    return "\n".join(sorted(map(repr, story.output()))).encode()


@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data(), plan=plans)
def test_stopped_and_rescaled_jobs_give_what_they_give_without_a_stop(data: st.DataObject, plan: Plan) -> None:
    check_stops_of(plan, data)


def check_stops_of(plan: Plan, data: st.DataObject, spark: SparkHandle | None = None) -> None:
    """Run a job without a stop, and with some at drawn moments and drawn parallelism: both give the same."""

    def sizes() -> list[int]:
        return data.draw(st.lists(st.integers(1, 4), min_size=plan.operators, max_size=plan.operators))

    def story(place: Path) -> Story:
        return Story(
            place,
            data.draw(st.integers(1, 6)),
            data.draw(st.integers(1, 3)),
            slots=2 if spark else data.draw(st.integers(1, 3)),
            spark=spark,
        )

    place = Path(tempfile.mkdtemp(prefix="penstock-restore-"))
    try:
        undisturbed = story(place / "undisturbed")
        undisturbed.run(plan.write(sizes()), asks=DrainedWhenDry())
        assert undisturbed.chapters[0].status is JobStatus.FINISHED

        stopped, origin = story(place / "stopped"), {}
        for _ in range(data.draw(st.integers(1, 3))):
            how = data.draw(st.sampled_from([StopMode.SUSPEND, StopMode.CANCEL, cancel]))
            chapter = stopped.run(plan.write(sizes()), asks={data.draw(st.integers(1, 5)): how}, **origin)
            assert chapter.status in {JobStatus.FINISHED, JobStatus.CANCELED}, chapter.error
            path = chapter.savepoint if chapter.answers else chapter.driver.checkpoint
            note(f"{how}: {path}")
            claim = data.draw(st.sampled_from(["CLAIM", "NO_CLAIM"]))
            origin = {"recover": path, "claim": claim} if path is not None else origin
        last = stopped.run(plan.write(sizes()), asks=DrainedWhenDry(), **origin)
        assert last.status is JobStatus.FINISHED, last.error
        assert output(stopped) == output(undisturbed)
    finally:
        shutil.rmtree(place)
