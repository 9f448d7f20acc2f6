"""Much in one piece, and very many pieces: through Spark and back to the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.spark.session import SparkHandle

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

MILLION = 1_000_000
LARGE = 100 << 20


def numbers(env: StreamExecutionEnvironment, count: int) -> DataStream:
    return env.from_source(NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers")


@pytest.fixture
def env(spark: SparkHandle) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_parallelism(spark.slots)
    return env


def test_record_of_a_hundred_megabytes_passes_an_exchange_and_keyed_state(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    env.configure(Configuration.from_dict({"execution.checkpointing.dir": str(tmp_path)}))
    grown = numbers(env, 1).map(lambda n: (n, b"x" * LARGE)).key_by(lambda record: record[0])
    kept = grown.reduce(lambda a, b: a).map(lambda record: (record[0], len(record[1])))
    with kept.execute_and_collect() as results:
        assert list(results) == [(0, LARGE)]


def test_million_records_can_be_collected(env: StreamExecutionEnvironment) -> None:
    with numbers(env, MILLION).map(lambda n: n * 2).execute_and_collect() as results:
        assert sorted(results) == list(range(0, 2 * MILLION, 2))


def test_million_records_can_be_printed(env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    numbers(env, MILLION).print()
    env.execute("printing")
    lines = capsys.readouterr().out.splitlines()
    assert sorted(int(line.partition("> ")[2]) for line in lines) == list(range(MILLION))
