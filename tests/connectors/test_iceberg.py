"""Iceberg tables as a sink: each checkpoint is one snapshot, and is there once."""

from __future__ import annotations

import json
import sys
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, IsNull
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from tests.connectors.catalogs import NAME, SCHEMA, catalog_of, options, rows, rows_of, start_threads
from tests.connectors.staged import elsewhere
from tests.kit.driving import Driven, Epochs
from tests.kit.program import Program

from penstock._files.job_options import reaching_stores_by
from penstock.common import Row, RowKind
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.errors import (
    LakeTableError,
    LostCommittableError,
    RecordFieldError,
    RecordValueError,
    UnsupportedTableError,
)
from penstock.testing.connector_contexts import TestCommitterContext, TestWriterContext, requests_for
from penstock.testing.in_process import Chaos
from penstock.testing.sink_contract import SinkContract, SinkUnderTest

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [{"id": number, "name": f"n{number}"} for number in range(40)]
PARTS = PartitionSpec(PartitionField(2, 1001, IdentityTransform(), "name"))
BUCKETS = PartitionSpec(PartitionField(1, 1000, BucketTransform(2), "id_bucket"))
FIELDS = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))


@pytest.fixture(scope="module", autouse=True)
def threads_of_pyiceberg() -> None:
    start_threads()


def staged(folder: Path, records: list[dict[str, Any]], checkpoint: int = 1, **context: Any) -> list[Any]:
    """Write one epoch, and return what a checkpoint has of it, as requests."""
    writer = IcebergSink(NAME, options(folder), SCHEMA).create_writer(TestWriterContext(**context))
    writer.write_all(records)
    writer.flush(end_of_input=False)
    requests = requests_for(list(writer.prepare_commit()), checkpoint)
    writer.close()
    return requests


def commit(folder: Path, requests: list[Any]) -> None:
    """Commit as a new driver does."""
    committer = IcebergSink(NAME, options(folder), SCHEMA).create_global_committer(TestCommitterContext())
    try:
        committer.commit(requests)
    finally:
        committer.close()


def test_contract(tmp_path: Path) -> None:
    names = count()

    def make() -> SinkUnderTest:
        folder = tmp_path / str(next(names))

        def lose_staged() -> None:
            for path in folder.glob("tables/*/*/data/*.parquet"):
                path.unlink()

        sink = IcebergSink(NAME, options(folder), SCHEMA)
        return SinkUnderTest(sink, lambda: rows_of(folder), lose_staged, unshared=lambda: elsewhere(folder / "tables"))

    SinkContract(make, ROWS[:6]).check_all()


def test_a_job_appends_each_record_once_and_one_snapshot_for_each_checkpoint(tmp_path: Path) -> None:
    settings = {"checkpoints": str(tmp_path / "checkpoints"), "inline": "0 b", "interval": "1 s"}
    program = Program(tmp_path, 2, **settings)
    sink = IcebergSink(NAME, options(tmp_path / "lake"), SCHEMA)
    program.source(ROWS[:20], ROWS[20:]).sink_to(sink).uid("out")
    driven = Driven(program.env, tmp_path / "state", Epochs(8, chaos=Chaos(0.2, 0.1, 0.1), seed=5))
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
    assert rows_of(tmp_path / "lake") == ROWS
    with catalog_of(tmp_path / "lake") as catalog:
        summaries = [one.summary.additional_properties for one in catalog.load_table(NAME).snapshots()]
    checkpoints = [int(summary["penstock.checkpoint-id"]) for summary in summaries]
    assert checkpoints == sorted(set(checkpoints))
    assert len(checkpoints) >= 3
    assert {summary["penstock.operator-uid"] for summary in summaries} == {"out"}


def test_rows_go_to_the_partitions_of_the_table(tmp_path: Path) -> None:
    with catalog_of(tmp_path) as catalog:
        catalog.create_table(NAME, FIELDS, partition_spec=PARTS)
    commit(tmp_path, staged(tmp_path, ROWS[:6]))
    assert rows_of(tmp_path) == ROWS[:6]
    with catalog_of(tmp_path) as catalog:
        table = catalog.load_table(NAME)
        assert len(list(table.scan(row_filter="name == 'n3'").plan_files())) == 1


def test_each_value_of_a_partition_is_found_by_it(tmp_path: Path) -> None:
    with catalog_of(tmp_path) as catalog:
        catalog.create_table(NAME, FIELDS, partition_spec=PARTS)
    names = ["a/b", "a=b", " ", "", None, "..", "a%2Fb", "ü\n", "x" * 200, "'q'", "null", "None", "a\\b", "\0"]
    names += ["__HIVE_DEFAULT_PARTITION__", "\U0001f600"]
    rows = [{"id": number, "name": name} for number, name in enumerate(names)]
    commit(tmp_path, staged(tmp_path, rows))
    assert rows_of(tmp_path) == rows
    with catalog_of(tmp_path) as catalog:
        table = catalog.load_table(NAME)
        for row in rows:
            wanted = IsNull("name") if row["name"] is None else EqualTo("name", row["name"])
            assert table.scan(row_filter=wanted).to_arrow().to_pylist() == [row], row


def test_partitions_that_cannot_be_computed_here_are_an_error_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg_core", None)
    with catalog_of(tmp_path) as catalog:
        catalog.create_table(NAME, FIELDS, partition_spec=BUCKETS)
    with pytest.raises(UnsupportedTableError, match=r"partitions are by bucket\[2\].*pyiceberg-core"):
        IcebergSink(NAME, options(tmp_path)).create_global_committer(TestCommitterContext())


def test_partitions_that_change_under_a_checkpoint_are_an_error_by_name(tmp_path: Path) -> None:
    requests = staged(tmp_path, ROWS[:2])
    with catalog_of(tmp_path) as catalog, catalog.load_table(NAME).update_spec() as update:
        update.add_identity("name")
    with pytest.raises(UnsupportedTableError, match=r"partitions were changed from spec 0 to 1.*set the former ones"):
        commit(tmp_path, requests)
    with catalog_of(tmp_path) as catalog, catalog.load_table(NAME).update_spec() as update:
        update.remove_field("name")
    commit(tmp_path, requests)
    assert rows_of(tmp_path) == ROWS[:2]


def test_another_writers_commit_between_look_and_commit_is_a_conflict_that_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = staged(tmp_path, ROWS[:2])
    _meanwhile(tmp_path, monkeypatch, lambda: _append(tmp_path, 90))
    commit(tmp_path, requests)
    assert [row["id"] for row in rows_of(tmp_path)] == [0, 1, 90]


def test_another_driver_that_commits_the_checkpoint_meanwhile_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = staged(tmp_path, ROWS[:2])
    _meanwhile(tmp_path, monkeypatch, lambda: commit(tmp_path, requests_for([one.committable for one in requests])))
    commit(tmp_path, requests)
    assert all(request.already_committed for request in requests)
    assert rows_of(tmp_path) == ROWS[:2]


def test_a_table_that_changes_at_each_try_is_left_for_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = staged(tmp_path, ROWS[:2])
    _meanwhile(tmp_path, monkeypatch, lambda: _append(tmp_path, 90), times=9)
    commit(tmp_path, requests)
    assert all(request.retry for request in requests)
    monkeypatch.undo()
    commit(tmp_path, requests)
    assert {row["id"] for row in rows_of(tmp_path)} == {0, 1, 90}


def _append(folder: Path, number: int) -> None:
    with catalog_of(folder) as catalog:
        catalog.load_table(NAME).append(rows(number))


def _meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch, act: Any, times: int = 1) -> None:
    """Let somebody else act after the committer has looked at the table, and before it commits."""
    from pyiceberg.catalog.sql import SqlCatalog

    del folder
    real, left = SqlCatalog.commit_table, [times]

    def commit_table(catalog: Any, table: Any, requirements: Any, updates: Any) -> Any:
        if left[0]:
            left[0] -= 1
            now, left[0] = left[0], 0
            act()
            left[0] = now
        return real(catalog, table, requirements, updates)

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)


def test_a_checkpoint_is_known_after_its_snapshot_has_expired_or_was_rolled_back(tmp_path: Path) -> None:
    requests = staged(tmp_path, ROWS[:2])
    commit(tmp_path, requests)
    _append(tmp_path, 90)
    with catalog_of(tmp_path) as catalog:
        table = catalog.load_table(NAME)
        table.maintenance.expire_snapshots().by_id(table.snapshots()[0].snapshot_id).commit()
        assert len(catalog.load_table(NAME).snapshots()) == 1
    commit(tmp_path, requests)
    assert [row["id"] for row in rows_of(tmp_path)] == [0, 1, 90]


def test_each_run_of_a_job_has_a_mark_of_its_own(tmp_path: Path) -> None:
    commit(tmp_path, staged(tmp_path, ROWS[:1], 7, run_id="a" * 32))
    commit(tmp_path, staged(tmp_path, ROWS[1:2], 3, run_id="b" * 32))  # went back to an older checkpoint
    commit(tmp_path, staged(tmp_path, ROWS[2:3], 7, operator_uid="other sink"))
    assert rows_of(tmp_path) == ROWS[:3]


def test_a_table_that_has_seen_many_runs_of_a_job_knows_the_newest_of_them(tmp_path: Path) -> None:
    commit(tmp_path, staged(tmp_path, ROWS[:1], run_id="first"))
    with catalog_of(tmp_path) as catalog:
        table = catalog.load_table(NAME)
        [name] = [name for name in table.properties if name.startswith("penstock.commits.")]
        runs = {"first": 1, **{f"run {number}": 1 for number in range(60)}}
        with table.transaction() as transaction:
            transaction.set_properties({name: json.dumps(runs)})
    newest = staged(tmp_path, ROWS[1:2], run_id="newest")
    commit(tmp_path, newest)
    commit(tmp_path, newest)
    assert rows_of(tmp_path) == ROWS[:2]
    with catalog_of(tmp_path) as catalog:
        assert len(json.loads(catalog.load_table(NAME).properties[name])) < len(runs)


def test_staged_files_that_are_gone_or_short_are_lost(tmp_path: Path) -> None:
    requests = staged(tmp_path, ROWS[:2])
    [file] = tmp_path.glob("tables/shop/items/data/*.parquet")
    file.write_bytes(b"x")
    with pytest.raises(LostCommittableError, match="it has 1 of its"):
        commit(tmp_path, requests)
    file.unlink()
    with pytest.raises(LostCommittableError, match="it is gone"):
        commit(tmp_path, requests)
    assert rows_of(tmp_path) == []


def test_a_table_that_was_made_anew_does_not_get_the_files_of_the_former_one(tmp_path: Path) -> None:
    requests = staged(tmp_path, ROWS[:2])
    with catalog_of(tmp_path) as catalog:
        catalog.drop_table(NAME)
    with pytest.raises(LostCommittableError, match="dropped and made anew"):
        commit(tmp_path, requests)


def test_columns_that_were_added_to_the_table_are_null_and_a_new_writer_knows_them(tmp_path: Path) -> None:
    requests = staged(tmp_path, ROWS[:1])
    with catalog_of(tmp_path) as catalog, catalog.load_table(NAME).update_schema() as update:
        update.add_column("price", LongType())
    commit(tmp_path, requests)
    sink = IcebergSink(NAME, options(tmp_path))
    writer = sink.create_writer(TestWriterContext())
    writer.write_all([{"id": 1, "name": "n1", "price": 5}])
    writer.flush(end_of_input=False)
    commit(tmp_path, requests_for(list(writer.prepare_commit()), 2))
    assert rows_of(tmp_path) == [{"id": 0, "name": "n0", "price": None}, {"id": 1, "name": "n1", "price": 5}]
    writer.write_all([{"id": 1, "colour": "red"}])
    with pytest.raises(RecordFieldError, match=r"'colour'.*Add the column to the table and to the sink's schema"):
        writer.flush(end_of_input=False)
    writer.close()


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    def made(schema: pa.Schema | None) -> None:
        IcebergSink(NAME, options(tmp_path), schema).create_global_committer(TestCommitterContext())

    with pytest.raises(LakeTableError, match="no such table"):
        made(None)
    with catalog_of(tmp_path) as catalog:
        needed = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
        catalog.create_table(NAME, needed)
    with pytest.raises(UnsupportedTableError, match=r"columns price are not in the table, which has id, name"):
        made(pa.schema([("id", pa.int64()), ("price", pa.int64())]))
    with pytest.raises(UnsupportedTableError, match=r"lacks id, which must not be null"):
        made(pa.schema([("name", pa.string())]))
    with pytest.raises(UnsupportedTableError, match=r"types are not the table's"):
        made(pa.schema([pa.field("id", pa.string(), nullable=False)]))


def test_many_records_of_an_epoch_are_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock._connectors.lake.iceberg_sink._WRITTEN_BYTES", 1)
    writer = IcebergSink(NAME, options(tmp_path), SCHEMA).create_writer(TestWriterContext())
    batch = pa.RecordBatch.from_pylist(ROWS[:4], SCHEMA)
    from penstock.testing.connector_contexts import TestBatchContext

    writer.write_batch(batch, TestBatchContext(batch))
    assert len(list(tmp_path.glob("tables/shop/items/data/*.parquet"))) == 1
    writer.write_batch(batch, TestBatchContext(batch))
    writer.flush(end_of_input=True)
    assert len(writer.prepare_commit()) == 2
    writer.close()


def test_the_keys_of_the_job_reach_the_library_below_those_of_the_catalog() -> None:
    from penstock._connectors.lake.iceberg_table import catalog_options

    keys = {
        "s3.endpoint": "http://minio:9000",
        "s3.access-key": "a",
        "s3.secret-key": "b",
        "s3.path.style.access": "true",
    }
    with reaching_stores_by(keys):
        found = catalog_options({"type": "sql", "s3.endpoint": "http://other"})
    assert found == {
        "type": "sql",
        "s3.endpoint": "http://other",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.force-virtual-addressing": "false",
    }


def test_rows_that_change_others_are_refused_as_a_table_is_only_appended_to(tmp_path: Path) -> None:
    change = Row(id=1, name="c")
    change.set_row_kind(RowKind.DELETE)
    with pytest.raises(RecordValueError, match="it is of kind DELETE, and its target is only appended to"):
        staged(tmp_path, [Row(id=0, name="a"), change])


def test_a_table_that_the_catalog_does_not_make_is_named_with_the_reason(tmp_path: Path) -> None:
    options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/tables"}
    with pytest.raises(
        LakeTableError, match=r"Making the Iceberg table orders failed: .*a namespace, as in shop\.orders"
    ):
        IcebergSink("orders", options, pa.schema([("id", pa.int64())])).create_writer(TestWriterContext())
    nowhere = {"type": "rest", "uri": "http://127.0.0.1:1", "token": "hunter2hunter2"}
    with pytest.raises(LakeTableError, match=r"Making the Iceberg table a\.b failed: .*refused") as raised:
        IcebergSink("a.b", nowhere, pa.schema([("id", pa.int64())])).create_writer(TestWriterContext())
    assert "hunter2" not in str(raised.value)
