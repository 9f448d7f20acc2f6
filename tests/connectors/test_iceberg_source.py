"""Iceberg tables as a source: a snapshot, pinned, or what each new snapshot adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType
from tests.connectors.catalogs import NAME, SCHEMA, catalog_of, options, rows, start_threads

from penstock._connectors.lake.iceberg_table import Tables
from penstock.common.time import Duration
from penstock.datastream.connectors.iceberg import IcebergSource
from penstock.errors import ExpiredSnapshotError, LakeTableError, SourceFileGoneError, UnsupportedTableError
from penstock.testing.connector_contexts import TestEnumeratorContext
from penstock.testing.source_contract import SourceCheckpoint, SourceContract, SourceRun

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module", autouse=True)
def threads_of_pyiceberg() -> None:
    start_threads()


def source(folder: Path, **settings: Any) -> IcebergSource:
    return IcebergSource(NAME, options(folder), **settings)


def read(folder: Path, **settings: Any) -> list[int]:
    run = SourceRun(source(folder, **settings), 2)
    try:
        return sorted(row["id"] for row in run.run_to_end())
    finally:
        run.close()


def append(folder: Path, *numbers: int) -> int:
    """Append rows to the table, which is made if need be; return the snapshot's id."""
    with catalog_of(folder) as catalog:
        table = catalog.create_table_if_not_exists(NAME, SCHEMA)
        table.append(rows(*numbers))
        snapshot: int = table.current_snapshot().snapshot_id
        return snapshot


class Following:
    """A run of a source that follows the table, whose looks are called for."""

    def __init__(self, folder: Path, checkpoint: SourceCheckpoint | None = None, **settings: Any) -> None:
        self.run = SourceRun(source(folder, follow=Duration.of_seconds(1), **settings), 2, checkpoint)

    def look(self) -> list[int]:
        """Look once, and return the ids of what is read then."""
        self.run.context.run_async_calls()
        return self.read()

    def read(self) -> list[int]:
        before = len(self.run.records)
        for _ in range(4):
            self.run.epoch()
        return sorted(row["id"] for row in self.run.records[before:])

    def stop(self) -> SourceCheckpoint:
        checkpoint = self.run.epoch(polls=0)
        self.run.close()
        return checkpoint


def test_contract(tmp_path: Path) -> None:
    for first in range(0, 9, 3):
        append(tmp_path, first, first + 1, first + 2)
    SourceContract(lambda: source(tmp_path, columns=["id"]), [{"id": number} for number in range(9)]).check_all()


def test_the_snapshot_is_pinned_when_the_job_begins(tmp_path: Path) -> None:
    first = append(tmp_path, 1, 2)
    run = SourceRun(source(tmp_path), 1)
    checkpoint = run.epoch(polls=0)
    run.close()
    append(tmp_path, 3)
    restored = SourceRun(source(tmp_path), 3, checkpoint)
    assert sorted(row["id"] for row in restored.run_to_end()) == [1, 2]
    restored.close()
    assert read(tmp_path) == [1, 2, 3]
    assert read(tmp_path, snapshot_id=first) == [1, 2]
    assert read(tmp_path, row_filter="id > 1") == [2, 3]


def test_a_snapshot_is_read_with_its_own_schema_and_older_files_with_nulls(tmp_path: Path) -> None:
    first = append(tmp_path, 1)
    with catalog_of(tmp_path) as catalog:
        with catalog.load_table(NAME).update_schema() as update:
            update.add_column("price", LongType())
            update.rename_column("name", "title")
        table = catalog.load_table(NAME)
        table.append(pa.table({"id": pa.array([2], pa.int64()), "title": ["b"], "price": pa.array([5], pa.int64())}))
    run = SourceRun(source(tmp_path), 1)
    assert sorted(run.run_to_end(), key=lambda row: row["id"]) == [
        {"id": 1, "title": "n1", "price": None},
        {"id": 2, "title": "b", "price": 5},
    ]
    run.close()
    before = SourceRun(source(tmp_path, snapshot_id=first), 1)
    assert before.run_to_end() == [{"id": 1, "name": "n1"}]
    before.close()


def test_what_each_snapshot_adds_is_read_once_over_restarts(tmp_path: Path) -> None:
    append(tmp_path, 1)
    job = Following(tmp_path)
    assert job.read() == [1]
    append(tmp_path, 2)
    append(tmp_path, 3, 4)
    assert job.look() == [2, 3, 4]
    assert job.look() == []
    checkpoint = job.stop()
    append(tmp_path, 5)
    again = Following(tmp_path, checkpoint)
    assert again.read() == []
    assert again.look() == [5]
    again.stop()


def test_more_snapshots_than_a_look_takes_and_more_splits_than_may_wait_are_read_by_the_next_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "penstock._connectors.lake"
    for name, limit in (("iceberg_source._SNAPSHOTS_AT_ONCE", 2), ("iceberg_source._MOST_WAITING", 1)):
        monkeypatch.setattr(f"{module}.{name}", limit)
    monkeypatch.setattr(f"{module}.scans._MOST_PIECES", 2)
    append(tmp_path, 0)
    job = Following(tmp_path)
    assert job.read() == [0]
    for number in range(1, 6):
        append(tmp_path, number)
    for _ in range(3):  # the third look finds splits that wait
        job.run.context.run_async_calls()
    assert job.read() == [1, 2, 3, 4]
    assert (job.look(), job.look()) == ([5], [])
    job.stop()
    assert read(tmp_path) == [0, 1, 2, 3, 4, 5]


def test_where_a_following_source_begins(tmp_path: Path) -> None:
    with catalog_of(tmp_path) as catalog:
        catalog.create_table(NAME, SCHEMA)
    empty = Following(tmp_path)
    first = append(tmp_path, 1)
    append(tmp_path, 2)
    assert empty.look() == [1, 2]
    empty.stop()
    for start, wanted in (("table", [1, 2, 3]), ("latest", [3]), ("earliest", [1, 2, 3]), (first, [2, 3])):
        with catalog_of(tmp_path) as catalog:
            table = catalog.load_table(NAME)
            table.manage_snapshots().set_current_snapshot(snapshot_id=table.snapshots()[1].snapshot_id).commit()
        job = Following(tmp_path, start=start)
        begun = job.read()
        append(tmp_path, 3)
        assert begun + job.look() == wanted, start
        job.stop()


def test_rows_are_filtered_and_projected_in_what_is_added(tmp_path: Path) -> None:
    append(tmp_path, 1, 2)
    job = Following(tmp_path, columns=["id"], row_filter="id > 1")
    assert job.read() == [2]
    append(tmp_path, 0, 3)
    assert job.look() == [3]
    assert job.run.records[-1] == {"id": 3}
    job.stop()


def test_snapshots_that_delete_or_overwrite_are_an_error_or_are_passed_over(tmp_path: Path) -> None:
    append(tmp_path, 1, 2)
    strict, lenient = Following(tmp_path), Following(tmp_path, skip_changes=True)
    assert (strict.read(), lenient.read()) == ([1, 2], [1, 2])
    with catalog_of(tmp_path) as catalog:
        catalog.load_table(NAME).delete("id == 1")
    append(tmp_path, 3)
    with pytest.raises(UnsupportedTableError, match=r"of the kind (overwrite|delete).*skip_changes=True"):
        strict.look()
    assert lenient.look() == [3]
    assert lenient.run.context.metric_group.counter("skippedSnapshots").get_count() == 1
    strict.run.close()
    lenient.stop()


def test_snapshots_that_expired_before_they_were_read_are_an_error(tmp_path: Path) -> None:
    append(tmp_path, 1)
    job = Following(tmp_path)
    assert job.read() == [1]
    checkpoint = job.stop()
    missed = append(tmp_path, 2)
    append(tmp_path, 3)
    with catalog_of(tmp_path) as catalog:
        table = catalog.load_table(NAME)
        for snapshot in (table.snapshots()[0].snapshot_id, missed):
            catalog.load_table(NAME).maintenance.expire_snapshots().by_id(snapshot).commit()
    again = Following(tmp_path, checkpoint)
    with pytest.raises(ExpiredSnapshotError, match=r"have expired, so what they added is not known"):
        again.look()
    again.run.close()


def test_a_position_whose_own_snapshot_has_expired_is_good(tmp_path: Path) -> None:
    position = append(tmp_path, 1)
    job = Following(tmp_path)
    assert job.read() == [1]
    append(tmp_path, 2)
    with catalog_of(tmp_path) as catalog:
        catalog.load_table(NAME).maintenance.expire_snapshots().by_id(position).commit()
    assert job.look() == [2]
    job.stop()


def test_a_table_that_was_rolled_back_is_an_error(tmp_path: Path) -> None:
    first = append(tmp_path, 1)
    append(tmp_path, 2)
    job = Following(tmp_path)
    assert job.read() == [1, 2]
    with catalog_of(tmp_path) as catalog:
        catalog.load_table(NAME).manage_snapshots().set_current_snapshot(snapshot_id=first).commit()
    append(tmp_path, 3)
    with pytest.raises(UnsupportedTableError, match="does not descend from snapshot"):
        job.look()
    job.run.close()


def test_a_catalog_that_is_away_is_asked_again_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, 1)
    job = Following(tmp_path)
    assert job.read() == [1]
    with monkeypatch.context() as patched:
        patched.setattr(Tables, "load", _away)
        for _ in range(4):
            assert job.look() == []
    append(tmp_path, 2)
    assert job.look() == [2]
    monkeypatch.setattr(Tables, "load", _away)
    for _ in range(4):
        job.look()
    with pytest.raises(LakeTableError, match="the server is away"):
        job.look()
    job.run.close()


def _away(tables: Tables, what: str) -> Any:
    raise LakeTableError(f"{what} the Iceberg table {tables.identifier}", "the server is away")


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    context = TestEnumeratorContext(1)
    with pytest.raises(LakeTableError, match="no such table"):
        source(tmp_path).create_enumerator(context)
    append(tmp_path, 1)
    with pytest.raises(LakeTableError, match="no snapshot 7, or it has expired"):
        source(tmp_path, snapshot_id=7).create_enumerator(context)
    with pytest.raises(LakeTableError, match="no column price; its columns are id, name"):
        source(tmp_path, columns=["price"]).create_enumerator(context)
    with pytest.raises(LakeTableError, match="the filter price > 1 cannot be used"):
        source(tmp_path, row_filter="price > 1").create_enumerator(context)
    with pytest.raises(ValueError, match="start=snapshot_id"):
        source(tmp_path, snapshot_id=7, follow=Duration.of_seconds(1))
    with pytest.raises(ValueError, match="follow=Duration"):
        source(tmp_path, start="latest")
    with pytest.raises(ValueError, match="start is one of table, latest, earliest"):
        source(tmp_path, start="newest", follow=Duration.of_seconds(1))


def test_a_file_that_went_with_its_snapshot_is_named_and_so_is_a_table_that_was_made_anew(tmp_path: Path) -> None:
    append(tmp_path, 1)
    run = SourceRun(source(tmp_path), 1)
    checkpoint = run.epoch(polls=0)
    run.close()
    for file in tmp_path.glob("tables/shop/items/data/*.parquet"):
        file.unlink()
    restored = SourceRun(source(tmp_path), 1, checkpoint)
    with pytest.raises(SourceFileGoneError, match="expired snapshots take their files"):
        restored.run_to_end()
    restored.close()
    with catalog_of(tmp_path) as catalog:
        catalog.drop_table(NAME)
    append(tmp_path, 2)
    restored = SourceRun(source(tmp_path), 1, checkpoint)
    with pytest.raises(UnsupportedTableError, match="dropped and made anew"):
        restored.run_to_end()
    restored.close()
