"""Jobs whose sinks find a full disk for a while: it is named, no record is lost or twice, no half a file is left."""

from __future__ import annotations

import os
import resource
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.connectors import catalogs
from tests.kit.driving import Driven, Epochs
from tests.kit.program import Program

from penstock._connectors.lake.delta_sink import _DeltaCommitter
from penstock._connectors.lake.iceberg_sink import _IcebergCommitter
from penstock._engine.coordinator import instructions as do
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.datastream.formats.parquet import ParquetBulkWriters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Records have more bytes than a file may have that is staged on the full disk.
ROOM = 64 * 1024
ROWS = [{"id": number, "name": f"n{number}"} for number in range(24)]


@pytest.fixture(scope="module", autouse=True)
def threads_of_libraries(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start them before a test looks at what it leaves."""
    write_deltalake(str(tmp_path_factory.mktemp("delta")), pa.table({"id": [1]}))
    catalogs.start_threads()


class Disk:
    """The process's files may have so many bytes: the system refuses each write beyond, as that of a full disk."""

    def __init__(self) -> None:
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, room: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, self._hard))

    def clear(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._soft, self._hard))


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.clear()


def sink_of(kind: str, place: Path) -> Any:
    if kind == "delta":
        return DeltaSink(str(place / "t"), catalogs.SCHEMA)
    if kind == "iceberg":
        return IcebergSink(catalogs.NAME, catalogs.options(place / "t"), catalogs.SCHEMA)
    return FileSink.for_bulk_format(str(place / "t"), ParquetBulkWriters.for_schema(catalogs.SCHEMA)).build()


def rows_of(kind: str, place: Path) -> list[int]:
    if kind == "delta":
        table: Any = DeltaTable(str(place / "t")).to_pyarrow_table()
    elif kind == "iceberg":
        return [row["id"] for row in catalogs.rows_of(place / "t")]
    else:
        files = [path for path in (place / "t").rglob("part-*") if path.is_file()]
        table = pa.concat_tables([pq.read_table(path) for path in files])
    return sorted(table["id"].to_pylist())


def job(place: Path, kind: str) -> Driven:
    program = Program(place, 2, interval="1 s", restart="fixed-delay", attempts="5", delay="1 ms")
    rows = program.source(ROWS[:12], ROWS[12:]).map(large)
    rows.sink_to(sink_of(kind, place)).name("orders").uid("orders-out")
    return Driven(program.env, place / "state", Epochs(3))


def large(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "name": os.urandom(ROOM // 2).hex()}


@pytest.mark.parametrize("kind", ["files", "delta", "iceberg"])
def test_a_disk_that_is_full_while_records_are_staged(tmp_path: Path, disk: Disk, kind: str) -> None:
    driven = job(tmp_path, kind)

    def watch(step: do.Instruction) -> None:
        if isinstance(step, do.RunEpoch):
            disk.clear()
            if len(driven.of(do.RunEpoch)) in {2, 3}:
                disk.fill(ROOM)

    driven.watchers.append(watch)
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
    assert rows_of(kind, tmp_path) == list(range(24))
    errors = [failure.reason for failure in driven.driver.failures]
    assert len(errors) == 2
    assert all("File too large" in error and str(tmp_path / "t") in error for error in errors)
    for path in (tmp_path / "t").rglob("*.parquet"):
        assert pq.read_metadata(path).num_rows
    places = [failure.place for failure in driven.driver.failures]
    assert all(place is not None and place.operator_name == "orders" for place in places)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_disk_that_is_full_at_a_commit(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    committer: Any = {"delta": _DeltaCommitter, "iceberg": _IcebergCommitter}[kind]
    commit, tries = committer.commit, count(1)

    def full_twice(self: Any, requests: Any) -> None:
        if next(tries) in {2, 3}:
            disk.fill(100)
        try:
            commit(self, requests)
        finally:
            disk.clear()

    monkeypatch.setattr(committer, "commit", full_twice)
    driven = job(tmp_path, kind)
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
    assert rows_of(kind, tmp_path) == list(range(24))
    errors = [failure.reason for failure in driven.driver.failures]
    assert len(errors) == 2
    name = str(tmp_path / "t") if kind == "delta" else catalogs.NAME
    assert all(f"Committing to the {kind.title()} table {name} failed" in error for error in errors), errors
