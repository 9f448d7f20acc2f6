"""The job of the savepoints `*-rows`: keys that are or hold rows with names, and windows that have fired.

python -m tests.upgrade.rows                 makes the savepoint of the present format, once
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.unit.savepoints.jobs import SEEN, OwnValue, environment, run
from tests.upgrade.make import DATA

from penstock._engine.protocol.metadata import FORMAT_VERSION
from penstock.common import Row, Types, WatermarkStrategy
from penstock.common.time import Time
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import KeyedProcessFunction, ProcessWindowFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from penstock.datastream import StreamExecutionEnvironment

#: The numbers that the job goes through; it has stopped within them.
NUMBERS = 20_000
SIZE = 1_000


class Totals(KeyedProcessFunction):
    """Adds up and counts in tens; a timer behind all numbers tells what came of it."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.tens = runtime_context.get_list_state(ListStateDescriptor("tens", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> None:
        self.total.update((self.total.value() or 0) + value)
        if value % 10 == 0:
            self.tens.add(value)
        ctx.timer_service().register_event_time_timer(10**9)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        SEEN.append(("total", ctx.get_current_key(), self.total.value(), sum(self.tens.get())))


class Windowed(ProcessWindowFunction):
    """Tells of each firing, and how often the key has seen one."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        fired = context.global_state().get_state(ValueStateDescriptor("fired"))
        fired.update((fired.value() or 0) + 1)
        SEEN.append(("window", key, context.window().start, sum(elements), fired.value()))
        yield len(SEEN)


def rest(value: int) -> Row:
    return Row(rest=value % 3, by="three")


def seen(pair: tuple[int, int]) -> None:
    SEEN.append(("reduced", *pair))


def program(env: StreamExecutionEnvironment, numbers: int = NUMBERS) -> None:
    """Add the job."""
    stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnValue())
    source = env.from_source(NumberSequenceSource(0, numbers - 1), stamps, "numbers").uid("numbers")
    source.key_by(rest).process(Totals()).uid("totals").print()
    pairs = source.map(lambda value: (value % 3, value)).uid("pairs")
    pairs.key_by(lambda pair: (Row(rest=pair[0]), "nested")).reduce(
        lambda left, right: (left[0], left[1] + right[1])
    ).uid("reduced").map(seen).uid("seen").print()
    windows = source.key_by(rest).window(TumblingEventTimeWindows.of(Time.milliseconds(SIZE)))
    windows.allowed_lateness(10**12).process(Windowed()).uid("windows").print()


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        env = environment(2, checkpoints=f"{place}/checkpoints", inline="200 b")
        program(env)
        path = run(env, Path(place), stop_in=2)[1]
        assert path is not None
        shutil.copytree(path.removeprefix("file:"), DATA / f"format-{FORMAT_VERSION}-rows")


if __name__ == "__main__":
    main()
