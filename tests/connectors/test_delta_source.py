"""Delta tables as a source: one version, pinned, in columns."""

from __future__ import annotations

import datetime as dt
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock._connectors.lake.scans import Piece, pack
from penstock._files.job_options import reaching_stores_by
from penstock.datastream.connectors.delta import DeltaSource
from penstock.errors import LakeTableError, SourceFileError, SourceFileGoneError, UnsupportedTableError
from penstock.testing.connector_contexts import RecordingOutput, TestEnumeratorContext, TestReaderContext
from penstock.testing.source_contract import SourceContract, SourceRun

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module", autouse=True)
def threads_of_deltalake(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start them before a test looks at what it leaves: the library keeps them and their sockets."""
    table = str(tmp_path_factory.mktemp("delta"))
    write_deltalake(table, pa.table({"id": [1]}))
    assert DeltaTable(table).to_pyarrow_table().num_rows == 1


def read(source: DeltaSource, parallelism: int = 2) -> list[dict[str, Any]]:
    return sorted(SourceRun(source, parallelism).run_to_end(), key=lambda row: row["id"])


def ids(*numbers: int, **columns: list[Any]) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), **columns})


def test_contract_over_packed_files_and_files_with_several_row_groups(tmp_path: Path) -> None:
    table = str(tmp_path)
    for start in range(0, 30, 10):
        write_deltalake(table, ids(*range(start, start + 10)), mode="append")
    [one] = [path for path in tmp_path.glob("*.parquet") if pq.read_table(path)["id"][0].as_py() == 10]
    size = one.stat().st_size
    pq.write_table(pq.read_table(one), one, row_group_size=3)
    # The log has the length of the file that was there, as a length that a range is cut by.
    log = tmp_path / "_delta_log"
    for entry in log.glob("*.json"):
        entry.write_text(entry.read_text().replace(f'"size":{size}', f'"size":{one.stat().st_size}'))
    SourceContract(lambda: DeltaSource(table), [{"id": number} for number in range(30)]).check_all()


def test_the_version_is_pinned_when_the_job_begins(tmp_path: Path) -> None:
    table = str(tmp_path)
    write_deltalake(table, ids(1, 2))
    run = SourceRun(DeltaSource(table), 1)
    checkpoint = run.epoch(polls=0)
    run.close()
    write_deltalake(table, ids(3), mode="append")
    assert [row["id"] for row in SourceRun(DeltaSource(table), 3, checkpoint).run_to_end()] == [1, 2]
    assert [row["id"] for row in read(DeltaSource(table))] == [1, 2, 3]
    assert [row["id"] for row in read(DeltaSource(table, version=0))] == [1, 2]


def test_a_restored_split_continues_with_the_predicate_and_the_columns_that_it_began_with(tmp_path: Path) -> None:
    table = str(tmp_path)
    write_deltalake(table, ids(*range(20), name=["x"] * 20))
    run = SourceRun(DeltaSource(table, columns=["id"], predicate=pc.field("id") >= 10), 1)
    checkpoint = run.epoch(polls=0)
    run.close()
    rows = SourceRun(DeltaSource(table), 1, checkpoint).run_to_end()
    assert rows == [{"id": number} for number in range(10, 20)]


def test_older_files_have_the_columns_and_types_of_the_version(tmp_path: Path) -> None:
    table = str(tmp_path)
    write_deltalake(table, ids(1))
    write_deltalake(table, ids(2, price=[1.5]), mode="append", schema_mode="merge")
    assert read(DeltaSource(table)) == [{"id": 1, "price": None}, {"id": 2, "price": 1.5}]
    assert read(DeltaSource(table, version=0)) == [{"id": 1}]
    assert read(DeltaSource(table, predicate=pc.field("price").is_null())) == [{"id": 1, "price": None}]


def test_partition_values_are_columns_and_whatever_they_are_their_files_are_found(tmp_path: Path) -> None:
    table = str(tmp_path)
    days = [dt.date(2026, 11, day) for day in (1, 2, 3)]
    rows = ids(1, 2, 3, word=["a b", "ü%/x", None], day=days)
    write_deltalake(table, rows, partition_by=["word", "day"])
    assert read(DeltaSource(table)) == rows.to_pylist()
    assert read(DeltaSource(table, predicate=pc.field("word") == "a b")) == rows.to_pylist()[:1]
    assert read(DeltaSource(table, columns=["id"], predicate=pc.field("word").is_null())) == [{"id": 3}]


def splits_of(source: DeltaSource) -> list[str]:
    """Return the files of the splits."""
    splits = source.create_enumerator(TestEnumeratorContext(1)).snapshot_state(1)
    return [piece.file[0] for split in splits for piece in split.pieces]


def test_files_that_a_predicate_excludes_are_not_opened(tmp_path: Path) -> None:
    table = str(tmp_path)
    for number in range(4):
        when = dt.datetime(
            2026, 11, 1, 0, 0, 0, 123_999, dt.UTC
        )  # statistics of points in time are cut to milliseconds
        write_deltalake(table, ids(number, part=[number % 2], at=[when]), mode="append", partition_by=["part"])
    assert len(splits_of(DeltaSource(table, predicate=pc.field("part") == 1))) == 2
    assert len(splits_of(DeltaSource(table, predicate=pc.field("id") > 2))) == 1
    late = pc.field("at") > pa.scalar(dt.datetime(2026, 11, 1, 0, 0, 0, 123_500, dt.UTC))
    assert len(read(DeltaSource(table, predicate=late))) == 4


def test_large_files_are_cut_and_small_ones_packed() -> None:
    mib = 1 << 20
    cut = pack("v1", b"", [Piece("large", 0, 100 * mib)], 1, divisible=True)
    ranges = [(piece.start, piece.end) for split in cut for piece in split.pieces]
    assert len(cut) == 4
    assert (ranges[0][0], ranges[-1][1]) == (0, 100 * mib)
    assert all(end == begin for (_, end), (begin, _) in pairwise(ranges))
    assert len(pack("v1", b"", [Piece("large", 0, 100 * mib)], 1, divisible=False)) == 1
    tiny = pack("v1", b"", [Piece(str(number), 0, 700) for number in range(10_000)], 4, divisible=True)
    assert len(tiny) == 20
    assert [piece.file for split in tiny for piece in split.pieces] == [str(number) for number in range(10_000)]
    assert len({split.split_id() for split in tiny}) == 20


def test_batches_of_columns_come_where_they_are_wanted(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), ids(*range(50_000)))
    source = DeltaSource(str(tmp_path))
    context = TestEnumeratorContext(1)
    splits = list(source.create_enumerator(context).snapshot_state(1))
    reader = source.create_reader(TestReaderContext())
    reader.add_splits(splits)
    output = RecordingOutput(1000, takes_batches=True)
    reader.poll_next(output)
    assert (output.batches, len(output.records)) == (1, 1000)
    reader.close()


def with_protocol(folder: Path, *features: str) -> None:
    """Add an entry to the log that says what a reader must know."""
    number = len(list((folder / "_delta_log").glob("*.json")))
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    (folder / "_delta_log" / f"{number:020}.json").write_text(json.dumps({"protocol": protocol}))


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "ofTheFuture"])
def test_a_feature_that_readers_need_and_this_one_lacks_is_refused_by_name(tmp_path: Path, feature: str) -> None:
    write_deltalake(str(tmp_path), ids(1))
    with_protocol(tmp_path, feature)
    with pytest.raises((UnsupportedTableError, LakeTableError), match=feature):
        DeltaSource(str(tmp_path)).create_enumerator(TestEnumeratorContext(1))


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LakeTableError, match="there is no table in that folder"):
        DeltaSource(str(tmp_path)).create_enumerator(TestEnumeratorContext(1))
    write_deltalake(str(tmp_path), ids(1))
    with pytest.raises(LakeTableError, match="its version 9 cannot be opened"):
        DeltaSource(str(tmp_path), version=9).create_enumerator(TestEnumeratorContext(1))
    with pytest.raises(LakeTableError, match="no column price; its columns are id"):
        DeltaSource(str(tmp_path), columns=["price"]).create_enumerator(TestEnumeratorContext(1))
    with pytest.raises(LakeTableError, match=r"the predicate .*price"):
        DeltaSource(str(tmp_path), predicate=pc.field("price") > 1).create_enumerator(TestEnumeratorContext(1))


def test_a_file_that_was_vacuumed_or_damaged_is_named(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), ids(1))
    [file] = tmp_path.glob("*.parquet")
    run = SourceRun(DeltaSource(str(tmp_path)), 1)
    checkpoint = run.epoch(polls=0)
    run.close()
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(SourceFileError, match=rf"{file.name} .*damaged"):
        SourceRun(DeltaSource(str(tmp_path)), 1, checkpoint).run_to_end()
    file.unlink()
    with pytest.raises(SourceFileGoneError, match=rf"{file.name} .*VACUUM"):
        SourceRun(DeltaSource(str(tmp_path)), 1, checkpoint).run_to_end()


def test_an_empty_table_has_no_rows(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), pa.schema([("id", pa.int64())]))
    assert read(DeltaSource(str(tmp_path))) == []


def test_the_keys_of_the_job_reach_the_library() -> None:
    from penstock._connectors.lake.delta_table import delta_options

    keys = {"s3.endpoint": "http://minio:9000", "s3.access-key": "a", "s3.secret-key": "b", "s3.region": "eu-west-1"}
    with reaching_stores_by(keys):
        found = delta_options("s3://bucket/table", {})
        assert delta_options("/local", {}) == {}
        assert delta_options("s3://bucket/table", {"aws_region": "x"}) == {"aws_region": "x"}
    assert found == {
        "aws_endpoint": "http://minio:9000",
        "aws_region": "eu-west-1",
        "aws_virtual_hosted_style_request": "false",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "aws_allow_http": "true",
    }


def test_partitions_of_bytes_are_refused_as_the_library_gives_others_than_were_written(tmp_path: Path) -> None:
    rows = ids(1, 2, part=[b"a", b"\xff"])
    write_deltalake(str(tmp_path), rows, partition_by=["part"])
    with pytest.raises(UnsupportedTableError, match="it is partitioned by part, and the library gives bytes"):
        DeltaSource(str(tmp_path)).create_enumerator(TestEnumeratorContext())
