"""Batch jobs on real Spark whose Python workers are killed at random records: the files hold the truth."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine import launch
from penstock.common import Configuration, Encoder, Order, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import ListStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from penstock._engine.spark.session import SparkHandle

#: The campaign asks for more.
LIVES = int(os.environ.get("PENSTOCK_BATCH_KILLS", "1"))
FIRST = int(os.environ.get("PENSTOCK_TEST_SEED", "0"))
TOTAL, KEYS = 2_000, 37
#: Where a worker may die: in a stage's source, in what selects keys, over the sorted input, in the sort of a partition,
#: before the sink.
STEPS = ("source", "key", "sorted", "partition", "sink")


class Fate:
    """Kills the process at some records of a step, each of them once; notes say which have been killed for."""

    def __init__(self, notes: Path, step: str, deadly: set[int]) -> None:
        self._notes, self._step, self._deadly = notes, step, deadly

    def meet(self, number: int) -> None:
        """Die, if this is the record."""
        if number in self._deadly:
            try:
                (self._notes / f"{self._step}-{number}").touch(exist_ok=False)
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)


class Gathered(KeyedProcessFunction):
    """Gives the numbers of a key when its records are over."""

    def __init__(self, fate: Fate) -> None:
        self._fate = fate

    def open(self, runtime_context: Any) -> None:
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers"))

    def process_element(self, value: int, ctx: Any) -> None:
        self._fate.meet(value)
        self.numbers.add(value)
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        numbers = sorted(self.numbers.get())
        yield ctx.get_current_key(), len(numbers), sum(numbers)


def program(env: StreamExecutionEnvironment, directory: Path, deadly: dict[str, set[int]]) -> None:
    """Add the job: numbers as they are read, and those of each key together."""
    fates = {step: Fate(directory / "notes", step, numbers) for step, numbers in deadly.items()}

    def through(step: str) -> Any:
        fate = fates[step]

        def passed(number: int) -> int:
            fate.meet(number)
            return number

        return passed

    def key_of(number: int) -> int:
        fates["key"].meet(number)
        return number % KEYS

    numbers = env.from_source(NumberSequenceSource(0, TOTAL - 1), WatermarkStrategy.no_watermarks(), "numbers")
    read = numbers.map(through("source"))
    gathered = read.rebalance().key_by(key_of).process(Gathered(fates["sorted"]))
    ordered = read.rebalance().full_window_partition().sort_partition(through("partition"), Order.DESCENDING)
    for name, stream in (
        ("all", read.rebalance().map(through("sink"))),
        ("gathered", gathered.rebalance()),
        ("ordered", ordered),
    ):
        sink = FileSink.for_row_format(str(directory / name), Encoder.simple_string_encoder()).build()
        stream.map(str).sink_to(sink)


def published(directory: Path) -> Counter[str]:
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Counter(line for path in files for line in path.read_text().splitlines())


@pytest.mark.fault
@pytest.mark.spark
@pytest.mark.parametrize("seed", range(FIRST, FIRST + LIVES))
def test_batch_jobs_whose_workers_are_killed_publish_everything_once(
    seed: int, spark: SparkHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_started", [])  # each life stands for a program of its own
    choose = random.Random(seed)
    deadly: dict[str, set[int]] = {step: set() for step in STEPS}
    for _ in range(choose.randint(1, 3)):
        deadly[choose.choice(STEPS)].add(choose.randrange(TOTAL))
    (tmp_path / "notes").mkdir()
    configuration = Configuration.from_dict(
        {
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.sorted-inputs.memory": choose.choice(["1 kb", "64 mb"]),
            "execution.sort-partition.memory": choose.choice(["1 kb", "64 mb"]),
            "execution.batch.job-recovery.enabled": choose.choice(["true", "false"]),
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(spark.slots)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    program(env, tmp_path, deadly)
    env.execute("batch")
    assert len(list((tmp_path / "notes").iterdir())) == sum(map(len, deadly.values())), deadly
    for name in ("all", "ordered"):
        assert published(tmp_path / name) == Counter(map(str, range(TOTAL)))
    keys = {key: range(key, TOTAL, KEYS) for key in range(KEYS)}
    assert published(tmp_path / "gathered") == Counter(str((key, len(of), sum(of))) for key, of in keys.items())
