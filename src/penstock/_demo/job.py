"""Three questions to the stream of all flights that left New York in 2013.

How late do flights leave, by hour and airport? A window. Which aircraft fall further behind from flight to flight?
State and timers. What was cancelled? A side output.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from penstock._demo.lines import AlertLine, CancelledLine, HourlyLine
from penstock._demo.records import FLIGHT, Alert, Departure, Hour
from penstock.common import Encoder, Row, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    AggregateFunction,
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.datastream.formats.parquet import ParquetColumnarRowInputFormat
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

DAY_MS = 24 * 60 * 60 * 1000
CANCELLED = OutputTag("cancelled", FLIGHT)


def build(env: StreamExecutionEnvironment, events: Path, out: Path) -> None:
    """Declare the job: read what prepare.py wrote to `events`, write `hourly`, `alerts` and `cancelled` below `out`."""
    files = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(FLIGHT), str(events / "flights")).build()
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ScheduledDeparture())
    flights = env.from_source(files, in_order, "flights").uid("flights").process(SetCancelledAside(), FLIGHT)

    hourly = (
        flights.key_by(lambda flight: flight.origin)
        .window(TumblingEventTimeWindows.of(Time.hours(1)))
        .aggregate(AddUpDelay(), HourOfOrigin())
        .uid("delay")
    )
    alerts = flights.key_by(lambda flight: flight.tailnum).process(GrowingDelay()).uid("rotations")
    cancelled = flights.get_side_output(CANCELLED)

    reference = events / "reference"
    write(hourly.map(HourlyLine(reference), Types.STRING()), out / "hourly", ".csv")
    write(alerts.map(AlertLine(reference), Types.STRING()), out / "alerts", ".csv")
    write(cancelled.map(CancelledLine(reference), Types.STRING()), out / "cancelled", ".jsonl")


class ScheduledDeparture(TimestampAssigner):
    def extract_timestamp(self, value: Row, record_timestamp: int) -> int:
        return value.scheduled_ms


class SetCancelledAside(ProcessFunction):
    """Passes on the flights that left; the others go to the side output."""

    def process_element(self, value: Row, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value.dep_time is None:
            yield CANCELLED, value
        else:
            yield value


class AddUpDelay(AggregateFunction):
    """Counts departures and adds up their delay one by one: a window keeps these two numbers and not its flights."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Row, accumulator: tuple[int, int]) -> tuple[int, int]:
        departures, delay = accumulator
        return departures + 1, delay + value.dep_delay

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class HourOfOrigin(ProcessWindowFunction):
    """Is called once for each window, with the one result; adds what only the window knows."""

    def process(self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterator[Hour]:
        for departures, delay in elements:
            yield Hour(context.window().start, key, departures, delay)


class GrowingDelay(KeyedProcessFunction):
    """Flags an aircraft that leaves late three times in a row within a day, each time later than before.

    Parts of the year are read side by side, so an aircraft's flights come in any order. Each one waits in the state
    for the timer at its own departure: when that fires, nothing earlier can come any more. Another timer ends the
    aircraft's rotation and frees its state after a day without a flight.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting", Types.PICKLED_BYTE_ARRAY()))
        self.rotation = runtime_context.get_state(ValueStateDescriptor("rotation", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> None:
        departure = Departure(value.scheduled_ms, value.carrier, value.flight, value.dep_delay)
        self.waiting.update([*(self.waiting.value() or []), departure])
        ctx.timer_service().register_event_time_timer(departure.scheduled_ms)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Alert]:
        waiting = sorted(self.waiting.value() or [])
        flown, last_three, day_off_at = self.rotation.value() or (0, [], None)
        if timestamp == day_off_at:
            flown, last_three = 0, []
            self.rotation.clear()
            if not waiting:
                self.waiting.clear()
        due = [departure for departure in waiting if departure.scheduled_ms <= timestamp]
        for departure in due:
            flown, last_three = flown + 1, [*last_three, departure][-3:]
            if grows_within_a_day(last_three):
                yield Alert(ctx.get_current_key(), flown, last_three)
        if due:
            self.waiting.update(waiting[len(due) :])
            self.rotation.update((flown, last_three, timestamp + DAY_MS))
            ctx.timer_service().register_event_time_timer(timestamp + DAY_MS)


def grows_within_a_day(departures: list[Departure]) -> bool:
    if len(departures) < 3 or departures[2].scheduled_ms - departures[0].scheduled_ms >= DAY_MS:
        return False
    return 0 < departures[0].delay < departures[1].delay < departures[2].delay


def write(lines: DataStream, folder: Path, suffix: str) -> None:
    """Write lines of text, exactly once: each checkpoint publishes the files with what it covers."""
    files = (
        FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(suffix).build())
        .build()
    )
    lines.sink_to(files).uid(folder.name)
