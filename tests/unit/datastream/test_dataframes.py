"""DataFrames that are handed in or made, without Spark: what the driver does about their files."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.kit.without_spark import Cluster

from penstock._builders.dataframes import FrameSource
from penstock._connectors.files.discovery import FileSet
from penstock._engine.caches import place as kept_places
from penstock._engine.caches.frames import parquet_bytes
from penstock.common import Configuration, JobClient, JobListener, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import JobExecutionError, JobStoppedError
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.storage.run_files import RunFiles

FILES = 3


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """What runs jobs in place of Spark; what was kept goes at the end, as with the program."""
    cluster = Cluster(tmp_path / "cluster")
    cluster.patch(monkeypatch)
    yield cluster
    kept_places.remove_places()


def environment(place: Path, **settings: str) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"execution.checkpointing.dir": str(place / "checkpoints")} | settings)
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)


class Written:
    """In place of Spark: writes a file for each number, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, files: RunFiles) -> Written:
        self.files = files
        return self

    def run(self) -> list[str]:
        self.times += 1
        storage = self.files.open()
        for number in range(FILES):
            table: Any = pa.table({"n": [number]})
            storage.put(f"{self.files.prefix}-{number}.parquet", parquet_bytes(table))
        return [storage.full_path(f"{self.files.prefix}-{number}.parquet") for number in range(FILES)]

    def cancel(self) -> None:
        raise AssertionError("it is written by then")


def numbers(env: StreamExecutionEnvironment, written: Written) -> Any:
    source = FrameSource(Types.ROW_NAMED(["n"], [Types.LONG()]), written)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "frame")


#: What the next record fails with; jobs run in this process.
FAILURES: list[str] = []


def fail_once(row: Any) -> int:
    if FAILURES:
        raise ValueError(FAILURES.pop())
    return int(row["n"])


def test_start_without_a_checkpoint_within_a_run_reads_the_files_again(tmp_path: Path) -> None:
    """Each run writes its own; what one has written is known no longer than it lasts."""
    FAILURES.append("once")
    settings = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 ms"}
    env, written = environment(tmp_path, **settings), Written()
    stream = numbers(env, written).map(fail_once)
    for times in (1, 2):
        with stream.execute_and_collect() as records:
            assert sorted(records) == list(range(FILES))
        assert written.times == times
    assert not list(tmp_path.glob("*/*/frames/*"))


def test_file_of_a_frame_that_is_gone_fails_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other sources pass over a file that vanishes after it was listed; here it would be lost rows."""
    find = FileSet.find

    def vanishing(files: FileSet) -> Any:
        listing = find(files)
        Path(listing.files[1].path).unlink()
        return listing

    monkeypatch.setattr(FileSet, "find", vanishing)
    stream = numbers(environment(tmp_path), Written())
    with pytest.raises(JobExecutionError, match="it has rows of a DataFrame"), stream.execute_and_collect() as records:
        list(records)


STOPPED = threading.Event()


def waiting(number: int) -> int:
    STOPPED.wait()
    return number


@pytest.mark.parametrize("drain", [False, True])
def test_stream_whose_job_was_stopped_is_no_frame(tmp_path: Path, drain: bool) -> None:
    STOPPED.clear()

    class Stopping(JobListener):
        def on_job_submitted(self, job_client: JobClient | None, throwable: Exception | None) -> None:
            assert job_client is not None
            job_client.stop_with_savepoint(drain, str(tmp_path / "savepoints"))
            STOPPED.set()

        def on_job_executed(self, job_execution_result: Any, throwable: Exception | None) -> None: ...

    env = environment(tmp_path)
    env.register_job_listener(Stopping())
    source = ListSource(*([number] for number in range(100)))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(waiting, Types.LONG())
    with pytest.raises(JobStoppedError, match="before it had read all of its input"):
        stream.to_dataframe()
    assert not list(tmp_path.glob("*/.caches/*/*/*"))
