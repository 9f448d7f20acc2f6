"""Streams of DataFrames: which files a run writes and reads, and when they go. Tables stand for Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.kit.frames import Tables, frame_of
from tests.kit.without_spark import Cluster

from penstock.common import Configuration, Encoder, Row, Types, WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.errors import JobExecutionError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datastream import DataStream

PARTITIONS = [[{"n": 10 * part + n, "word": f"w{n}"} for n in range(10)] for part in range(5)]
ROWS = [row for rows in PARTITIONS for row in rows]
#: Records at which functions of the tests fail, once each.
BAD: set[int] = set()


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """What runs jobs in place of Spark."""
    cluster = Cluster(tmp_path / "cluster")
    cluster.patch(monkeypatch)
    BAD.clear()
    return cluster


def environment(place: Path, mode: str = "STREAMING", **settings: str) -> StreamExecutionEnvironment:
    given = {key.replace("__", "."): value for key, value in settings.items()}
    every = {"execution.checkpointing.dir": str(place / "checkpoints"), "execution.checkpointing.interval": "10 ms"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(every | given))
    return env.set_parallelism(1).set_runtime_mode(RuntimeExecutionMode[mode])


def rows_of(env: StreamExecutionEnvironment, tables: Tables) -> DataStream[Any]:
    source = frame_of(PARTITIONS, tables)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "frame").uid("frame")


def frames(place: Path) -> list[Path]:
    return sorted((place / "checkpoints").glob("*/frames/*"))


def failing_at(record: Row) -> str:
    if record["n"] in BAD:
        BAD.discard(record["n"])
        raise ValueError("bad record")
    return str(record["n"])


def run(env: StreamExecutionEnvironment, tables: Tables, out: Path) -> None:
    sink = FileSink.for_row_format(str(out), Encoder.simple_string_encoder()).build()
    rows_of(env, tables).map(failing_at, Types.STRING()).uid("map").sink_to(sink).uid("sink")
    env.execute("frames")


def lines(out: Path) -> Counter[str]:
    return Counter(line for path in out.rglob("part-*") if path.is_file() for line in path.read_text().split())


ALL = Counter(str(row["n"]) for row in ROWS)


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_rows_have_the_type_of_the_columns_and_the_files_go_with_the_job(tmp_path: Path, mode: str) -> None:
    env = environment(tmp_path, mode)
    tables = Tables(PARTITIONS)
    rows = rows_of(env, tables)
    assert rows.get_type() == Types.ROW_NAMED(["n", "word"], [Types.LONG(), Types.STRING()])
    with rows.execute_and_collect() as records:
        assert sorted(records, key=lambda row: row["n"]) == [Row(**row) for row in ROWS]
    assert tables.count == 1
    assert not frames(tmp_path)


def test_functions_over_batches_get_the_columns(tmp_path: Path) -> None:
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.schema == pa.schema([("n", pa.int64()), ("word", pa.string())])
        return batch.select(["n"])

    with rows_of(environment(tmp_path), Tables(PARTITIONS)).map_batches(doubled).execute_and_collect() as records:
        assert sorted(record["n"] for record in records) == [row["n"] for row in ROWS]


def test_empty_frame_is_an_empty_stream(tmp_path: Path) -> None:
    env = environment(tmp_path)
    source = frame_of(PARTITIONS, Tables([]))
    with env.from_source(source, WatermarkStrategy.no_watermarks(), "frame").execute_and_collect() as records:
        assert list(records) == []


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_frame_is_written_once_though_the_job_restarts(tmp_path: Path, mode: str) -> None:
    delay = {"type": "fixed-delay", "fixed-delay__delay": "1 ms", "fixed-delay__attempts": "3"}
    env = environment(tmp_path, mode, **{f"restart-strategy__{key}": value for key, value in delay.items()})
    BAD.update({3, 47})
    tables = Tables(PARTITIONS)
    run(env, tables, tmp_path / "out")
    assert lines(tmp_path / "out") == ALL
    assert tables.count == 1
    assert not frames(tmp_path)


def test_job_that_goes_on_from_its_checkpoint_reads_the_same_files_and_writes_none(tmp_path: Path) -> None:
    BAD.add(47)
    first = Tables(PARTITIONS)
    settings = {"restart-strategy__type": "none"}
    with pytest.raises(JobExecutionError, match="bad record"):
        run(environment(tmp_path, **settings), first, tmp_path / "out")
    there = frames(tmp_path)
    assert len(there) == len(PARTITIONS)

    other = Tables([[{"n": -1, "word": "of another run"}]])
    settings["execution__state-recovery__path"] = "latest"
    run(environment(tmp_path, **settings), other, tmp_path / "out")
    assert lines(tmp_path / "out") == ALL
    assert other.count == 0
    assert not frames(tmp_path)


@pytest.mark.parametrize("retention", ["RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"])
def test_files_stay_as_long_as_a_checkpoint_that_reads_them(tmp_path: Path, retention: str) -> None:
    BAD.add(47)
    key = "execution__checkpointing__externalized-checkpoint-retention"
    with pytest.raises(JobExecutionError, match="bad record"):
        run(
            environment(tmp_path, **{"restart-strategy__type": "none", key: retention}),
            Tables(PARTITIONS),
            tmp_path / "out",
        )
    assert bool(frames(tmp_path)) is (retention == "RETAIN_ON_CANCELLATION")


def test_frame_that_cannot_be_written_fails_the_job_and_names_the_source(tmp_path: Path) -> None:
    class Broken(Tables):
        def write(self, files: Any) -> list[str]:
            raise OSError("no room")

    env = environment(tmp_path, **{"restart-strategy__type": "none"})
    with (
        pytest.raises(JobExecutionError, match=r"no room \(in the enumerator of 'Source: frame'\)"),
        rows_of(env, Broken(PARTITIONS)).execute_and_collect() as records,
    ):
        list(records)
