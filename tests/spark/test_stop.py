"""Stops of a job on Spark, as a program asks for them; what is left goes on to the truth."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration, JobStatus, WatermarkStrategy
from penstock.common.accumulators import Accumulator
from penstock.common.serialization import Encoder
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.spark.session import SparkHandle
    from penstock.common.job_client import JobClient

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

RECORDS = 1_500
KEYS = 7
PATIENCE_S = 120


class Keys(Accumulator[int, list[int]]):
    """A user's own, of a module that tasks import by name."""

    def __init__(self) -> None:
        self.keys: set[int] = set()

    def add(self, value: int) -> None:
        self.keys.add(value)

    def get_local_value(self) -> list[int]:
        return sorted(self.keys)

    def reset_local(self) -> None:
        self.keys = set()

    def merge(self, other: Keys) -> None:
        self.keys |= other.keys


class Line(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.lines, self.keys = runtime_context.get_int_counter("lines"), Keys()
        runtime_context.add_accumulator("keys", self.keys)

    def map(self, value: tuple[int, int]) -> str:
        self.lines.add(1)
        self.keys.add(value[0])
        return f"{value[0]} {value[1]}"


def start(place: Path, slots: int, restore: str | None = None) -> JobClient:
    """Start a job that counts records by key, so many a checkpoint, however slow the machine is."""
    configuration = {
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": str(place / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(place / "savepoints"),
    }
    if restore is not None:
        configuration["execution.state-recovery.path"] = restore
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration))
    env.set_parallelism(slots)
    source = DataGeneratorSource(lambda index: (index % KEYS, 1), RECORDS, RateLimiterStrategy.per_checkpoint(150))
    counted = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        .key_by(lambda record: record[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .map(Line())
    )
    counted.sink_to(FileSink.for_row_format(str(place / "out"), Encoder.simple_string_encoder()).build())
    return env.execute_async("counting")


def wait_for_checkpoints(place: Path, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(list(place.glob("checkpoints/*/chk-*/_metadata"))) < count:
        assert time.monotonic() < deadline, "the job made no checkpoints"
        time.sleep(0.05)


def truth() -> Counter[str]:
    counts = Counter(index % KEYS for index in range(RECORDS))
    return Counter(f"{key} {seen}" for key, total in counts.items() for seen in range(1, total + 1))


def lines(place: Path) -> Counter[str]:
    files = [path for path in place.glob("out/**/*") if path.is_file() and not path.name.startswith(".")]
    return Counter(line for path in files for line in path.read_text().splitlines())


@pytest.mark.both_exchanges
@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.behaviour(48, 50)
def test_stopped_job_goes_on_from_its_savepoint_at_another_parallelism(
    spark: SparkHandle, tmp_path: Path, *, drain: bool
) -> None:
    client = start(tmp_path, spark.slots)
    wait_for_checkpoints(tmp_path, 2)
    path = client.stop_with_savepoint(drain).result(PATIENCE_S)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert 0 < sum(lines(tmp_path).values()) < RECORDS or not drain  # a suspend leaves part files open

    again = start(tmp_path, spark.slots + 1, restore=path)
    result = again.get_job_execution_result().result(PATIENCE_S)
    assert lines(tmp_path) == truth()
    assert result.get_all_accumulator_results() == {"lines": RECORDS, "keys": list(range(KEYS))}
