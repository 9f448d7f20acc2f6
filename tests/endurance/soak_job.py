"""The job of the soak: windows, sessions, a join and timers, from Kafka into Kafka and files, each result once.

Usage: soak_job.py DIRECTORY BOOTSTRAP EVENTS RESULTS PORT; it goes on from its newest checkpoint, and does not end.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.endurance.soak_events import (
    APART_MS,
    BUCKET_MS,
    END_KEY,
    GAP_MS,
    WINDOW_MS,
    Event,
    bucket_line,
    pair_line,
    session_line,
    window_line,
)
from tests.kafka.job import sink_into

from penstock.common import Configuration, Encoder, SimpleStringSchema, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from penstock.datastream.functions import AggregateFunction, ProcessJoinFunction, ProcessWindowFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.datastream import DataStream
    from penstock.datastream.functions import RuntimeContext

INTERVAL = "3 s"


class Number(TimestampAssigner):
    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        return Event.of(value).number


class CountAndSum(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Event, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value.number

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


class OfWindow(ProcessWindowFunction):
    def process(
        self, key: int, context: ProcessWindowFunction.Context, elements: Iterable[tuple[int, int]]
    ) -> Iterator[str]:
        for count, total in elements:
            yield window_line(key, context.window().start, count, total)


class OfSession(ProcessWindowFunction):
    def process(
        self, key: int, context: ProcessWindowFunction.Context, elements: Iterable[tuple[int, int]]
    ) -> Iterator[str]:
        for count, total in elements:
            yield session_line(key, context.window().start, context.window().end, count, total)


class Pair(ProcessJoinFunction):
    def process_element(self, left: Event, right: Event, ctx: ProcessJoinFunction.Context) -> Iterator[str]:
        yield pair_line(left.number, right.number)


class Buckets(KeyedProcessFunction):
    """Puts the events of a key together by stretches of time, each of which ends with a timer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.buckets = runtime_context.get_map_state(MapStateDescriptor("buckets"))
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> None:
        before = self.last.value()
        pause = 0 if before is None else value.number - before
        self.last.update(value.number)
        start = value.number // BUCKET_MS * BUCKET_MS
        count, total, longest = self.buckets.get(start) or (0, 0, 0)
        if count == 0:
            ctx.timer_service().register_event_time_timer(start + BUCKET_MS)
        self.buckets.put(start, (count + 1, total + value.number, max(longest, pause)))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        start = timestamp - BUCKET_MS
        yield bucket_line(ctx.get_current_key(), start, *self.buckets.get(start))
        self.buckets.remove(start)


def environment(directory: Path, port: str) -> StreamExecutionEnvironment:
    settings = {
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.interval": INTERVAL,
        "execution.state-recovery.path": "latest",
        "restart-strategy.type": "none",  # a failure that a restart mends is a failure here
        "rest.port": port,
        "penstock.rest.token": "none",
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(2)


def results(env: StreamExecutionEnvironment, bootstrap: str, topic: str) -> DataStream:
    """Return what the job makes of a topic's events, as lines."""
    source = KafkaSource.builder().set_bootstrap_servers(bootstrap).set_topics(topic).set_group_id("soak")
    source = source.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    source = source.set_value_only_deserializer(SimpleStringSchema()).build()
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Number())
    lines = env.from_source(source, in_order, "events").uid("events")
    all_events = lines.map(Event.of).filter(lambda event: event.key != END_KEY)
    keyed = all_events.key_by(_key, Types.LONG())
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS)))
    left, right = (
        all_events.filter(lambda event, side=side: event.side == side).key_by(_key, Types.LONG()) for side in (0, 1)
    )
    join = left.interval_join(right).between(Time.milliseconds(-APART_MS), Time.milliseconds(APART_MS))
    found = (
        windows.aggregate(CountAndSum(), OfWindow(), output_type=Types.STRING()).uid("windows"),
        sessions.aggregate(CountAndSum(), OfSession(), output_type=Types.STRING()).uid("sessions"),
        join.process(Pair(), Types.STRING()).uid("pairs"),
        keyed.process(Buckets(), Types.STRING()).uid("buckets"),
    )
    return found[0].union(*found[1:])


def _key(event: Event) -> int:
    return event.key


def main(directory: Path, bootstrap: str, topic: str, into: str, port: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    env = environment(directory, port)
    lines: Any = results(env, bootstrap, topic)
    files = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder())
    policy = RollingPolicy.on_checkpoint_rolling_policy()
    lines.sink_to(sink_into(bootstrap, into)).uid("into Kafka")
    lines.sink_to(files.with_rolling_policy(policy).build()).uid("into files")
    env.execute("soak")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
