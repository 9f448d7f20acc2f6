"""A batch job on Spark whose sorted input is eight times as large as the memory that it may take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.spark.session import SparkHandle

#: The input of the one subtask, and what of it may be in memory.
RECORDS, RECORD_BYTES, KEYS = 1 << 16, 2_000, 1_009
MEMORY_BYTES = RECORDS * RECORD_BYTES // 8


def memory(field: str) -> int:
    """Return the memory of this process in bytes: VmRSS, what it has now, or VmHWM, the most that it has had."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) * 1024


class Sized(KeyedProcessFunction):
    """Tells of each key how many records it has had, in order, and by how much the process has grown at most."""

    def open(self, runtime_context: Any) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts fresh
        self.before = memory("VmRSS")
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> None:
        assert self.last.value() is None or self.last.value() < value[0]
        assert len(value[1]) == RECORD_BYTES
        self.last.update(value[0])
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(0)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield ctx.get_current_key(), self.count.value(), memory("VmHWM") - self.before


def grown(number: int) -> tuple[int, bytes]:
    """Return a record that has a payload of its own."""
    return number, number.to_bytes(8, "big") * (RECORD_BYTES // 8)


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux to measure memory")
def test_an_input_of_eight_times_the_memory_of_its_sort_is_read_key_by_key(spark: SparkHandle) -> None:
    del spark  # that there is one is enough
    settings = {"execution.sorted-inputs.memory": f"{MEMORY_BYTES} b"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(1).set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_source(NumberSequenceSource(0, RECORDS - 1), WatermarkStrategy.no_watermarks(), "numbers")
    sized = numbers.rebalance().map(grown).key_by(lambda record: record[0] % KEYS).process(Sized())
    with sized.execute_and_collect() as results:
        found = list(results)
    assert sorted((key, count) for key, count, _ in found) == [
        (key, len(range(key, RECORDS, KEYS))) for key in range(KEYS)
    ]
    # Without a bound it grows by more than the input; what a worker loads as it begins is a third of it.
    assert max(grown_by for *_, grown_by in found) < RECORDS * RECORD_BYTES * 3 // 4
