"""Jobs with real operators and a real driver in this process, to make savepoints with and to start from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.kit.driving import Driven, Epochs
from tests.kit.settings import configured

from penstock._engine.protocol.control import StopMode
from penstock.common import Types, WatermarkStrategy
from penstock.common.time import Time
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import CheckpointedFunction, MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import KeyedBroadcastProcessFunction, KeyedProcessFunction
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver

#: What each source subtask reads in each epoch of a job that is to stop or to be cancelled.
EPOCH_RECORDS = 1_000

LIMITS = MapStateDescriptor("limits")
#: What functions saw; they are found by name, so this is the one list of this process.
SEEN: list[Any] = []


class Total(KeyedProcessFunction):
    """Adds up, under keys that are tuples, and sets a timer for each key far in the future."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.added = runtime_context.get_int_counter("added")

    def process_element(self, value: int, ctx: Any) -> None:
        self.added.add(value)
        self.total.update((self.total.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(10**12 + value % 7)
        SEEN.append((ctx.get_current_key(), self.total.value()))

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        SEEN.append(("timer", ctx.get_current_key(), timestamp))


class Waiting(MapFunction, CheckpointedFunction):
    """Keeps its records in a list, and all in a union list."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.own = store.get_list_state(ListStateDescriptor("own"))
        self.shared = store.get_union_list_state(ListStateDescriptor("shared"))
        SEEN.append(("lists", sorted(self.own), sorted(self.shared)))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: int) -> int:
        if value < 5:
            self.own.add(value)
            self.shared.add(-value)
        return value


class Limits(KeyedBroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> None:
        SEEN.append(("limits", dict(ctx.get_broadcast_state(LIMITS).items())))

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        ctx.get_broadcast_state(LIMITS).put(value, value * 10)


class OwnValue(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value


def parity(value: int) -> tuple[str, int]:
    return ("even", 0) if value % 2 == 0 else ("odd", 1)


def totals(env: StreamExecutionEnvironment, numbers: int) -> Any:
    """Add the job that most tests look at: numbers, lists, totals by a tuple, windows of the sum."""
    stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnValue())
    source = env.from_source(NumberSequenceSource(0, numbers - 1), stamps, "numbers").uid("numbers")
    waiting = source.map(Waiting()).uid("waiting")
    waiting.key_by(parity).process(Total()).uid("totals").print()
    windowed = waiting.key_by(lambda value: value % 3).window(TumblingEventTimeWindows.of(Time.milliseconds(10**9)))
    windowed.reduce(lambda left, right: left + right).uid("windows").print()
    return waiting


def environment(parallelism: int = 2, **settings: str) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(configured(**settings))
    return env.set_parallelism(parallelism)


def run(
    env: StreamExecutionEnvironment,
    place: Path,
    *,
    stop_in: int | None = None,
    stop: StopMode = StopMode.SUSPEND,
    cancel_in: int | None = None,
) -> tuple[JobDriver, str | None]:
    """Run a job to its end, or until it has stopped with a savepoint; return the driver and the savepoint.

    How far a job is when it stops does not depend on the machine: until then each epoch reads `EPOCH_RECORDS`.

    Args:
        env: Has the job.
        place: Where everything lies.
        stop_in: The number of the epoch in which a savepoint is asked for.
        stop: How the job is to stop then.
        cancel_in: The number of the epoch in which it is cancelled.
    """
    SEEN.clear()
    stops = stop_in is not None or cancel_in is not None  # after so many records, on any machine
    runner = Epochs(EPOCH_RECORDS if stops else None, seed=1, clock=None)
    driven = Driven(env, place / "state", runner, name="totals")
    driver, answers = driven.driver, list[Any]()
    if stop_in is not None:
        driven.at_epoch(stop_in, lambda: answers.append(driver.savepoint(str(place / "savepoints"), stop)))
    if cancel_in is not None:
        driven.at_epoch(cancel_in, driver.cancel)
    driven.run()
    error = driver.result.exception()
    if error is not None and cancel_in is None:
        raise error
    return driver, answers[0].result(0) if answers else None


def savepoint_of(place: Path, *, numbers: int = 3_000, parallelism: int = 2, **settings: str) -> str:
    """Run the job of `totals` into a savepoint."""
    settings = {"checkpoints": str(place / "checkpoints"), **settings}
    env = environment(parallelism, **settings)
    totals(env, numbers)
    path = run(env, place, stop_in=1)[1]
    assert path is not None
    return path


def cancelled_job(place: Path, *, epochs: int = 1, **settings: str) -> Path:
    """Run the job of `totals` for some epochs, cancel it, and return its directory with the checkpoint it keeps."""
    kept = {"checkpoints": str(place / "checkpoints"), "retention": "RETAIN_ON_CANCELLATION"}
    env = environment(**kept, **settings)
    totals(env, 2 * EPOCH_RECORDS * (epochs + 2))  # more than its two readers read until then
    run(env, place, cancel_in=epochs + 1)
    [job] = (place / "checkpoints").glob("?" * 32)
    return job
