"""A table changes while a sink appends to it: each change, at each moment, continues right or is named by an error."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType
from tests.connectors.catalogs import NAME, catalog_of, options, start_threads
from tests.kit.cells import cells

from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.errors import PenstockError, UnsupportedTableError
from penstock.testing.connector_contexts import TestCommitterContext, TestWriterContext, requests_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.int32())])


@pytest.fixture(scope="module", autouse=True)
def threads_of_the_libraries(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start them before a test looks at what it leaves: the libraries keep them and their sockets."""
    start_threads()
    table = str(tmp_path_factory.mktemp("delta"))
    write_deltalake(table, pa.table({"id": [1]}))
    assert DeltaTable(table).to_pyarrow_table().num_rows == 1


_tokens = itertools.count(1)

Rows = list[dict[str, Any]]
#: What a change does; the rows once a checkpoint was staged before it, or the error of its commit; and what becomes of
#: the next record, in the same run and in the next one.
Case = tuple["Callable[[Path], None]", Rows | str, Rows | str, Rows | str]


class Life:
    """A sink with one writer and one committer, as they are in a run."""

    def __init__(self, sink: Any, restored: int | None = None) -> None:
        self._sink, self._checkpoint = sink, restored or 0
        self._context = TestWriterContext(restored_checkpoint_id=restored, run_id=str(restored))
        self._committer = sink.create_global_committer(TestCommitterContext(restored_checkpoint_id=restored))
        self._writer = sink.create_writer(self._context)

    def stage(self, record: dict[str, Any]) -> list[Any]:
        self._checkpoint += 1
        self._context.checkpoint_id, self._context.attempt_token = self._checkpoint, f"token{next(_tokens)}"
        self._writer.write_all([record])
        self._writer.flush(end_of_input=False)
        return requests_for(list(self._writer.prepare_commit()), self._checkpoint)

    def commit(self, requests: list[Any]) -> None:
        self._committer.commit(requests)

    def again(self) -> Life:
        self.close()
        return Life(self._sink, self._checkpoint)

    def close(self) -> None:
        self._writer.close()
        self._committer.close()


def ending(work: Callable[[], Any]) -> str | None:
    try:
        work()
    except PenstockError as error:
        return f"{type(error).__name__}: {error}"
    return None


def check(case: Case, folder: Path, sink: Any, rows: Callable[[], Rows]) -> None:
    change, at_commit, next_epoch, next_run = case
    for moment, wanted in (("at a commit", at_commit), ("in a run", next_epoch), ("between runs", next_run)):
        shutil.rmtree(folder, ignore_errors=True)
        life = Life(sink)
        life.commit(life.stage({"id": 1, "price": 10}))
        staged = life.stage({"id": 2, "price": 20}) if moment == "at a commit" else []
        change(folder)
        before = ending(rows) or rows()
        if moment == "at a commit":
            error = ending(lambda: life.commit(staged))  # noqa: B023 - it is called at once
        else:
            error = None
            if moment == "between runs":
                lives: list[Life] = []
                error = ending(lambda: lives.append(life.again()))  # noqa: B023
                life = lives[0] if lives else life
            error = error or ending(lambda: life.commit(life.stage({"id": 2, "price": 20})))  # noqa: B023
        if isinstance(wanted, str):
            assert re.match(wanted, str(error)), f"{moment}: {error}"
            assert (ending(rows) or rows()) == before, moment
        else:
            assert error is None, f"{moment}: {error}"
            assert rows() == wanted, moment
        life.close()


# ------------------------------------------------------------------------------------------------------------ Iceberg


def evolve(*steps: Callable[[Any], Any]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with catalog_of(folder) as catalog:
            for step in steps:
                with catalog.load_table(NAME).update_schema(allow_incompatible_changes=True) as update:
                    step(update)

    return change


def partitioned(folder: Path) -> None:
    with catalog_of(folder) as catalog, catalog.load_table(NAME).update_spec() as update:
        update.add_field("id", IdentityTransform(), "id_part")


def dropped(folder: Path) -> None:
    with catalog_of(folder) as catalog:
        catalog.drop_table(NAME)


def anew(folder: Path) -> None:
    with catalog_of(folder) as catalog:
        catalog.drop_table(NAME)
        catalog.create_table(NAME, SCHEMA)


def swapped(folder: Path) -> None:
    with catalog_of(folder) as catalog:
        catalog.rename_table(NAME, f"{NAME}_old")
        catalog.create_table(NAME, SCHEMA)


BOTH: Rows = [{"id": 1, "price": 10}, {"id": 2, "price": 20}]
GONE = "UnsupportedTableError: .*'price' was dropped since"
ANEW = "UnsupportedTableError: .*dropped and made anew"
NO_TABLE = "LakeTableError: .*no such table"
ICEBERG: dict[str, Any] = {
    "added": (
        evolve(lambda update: update.add_column("more", StringType())),
        *[[{**row, "more": None} for row in BOTH]] * 3,
    ),
    "a needed one added": (
        evolve(lambda update: update.add_column("more", StringType(), required=True)),
        "UnsupportedTableError: .*a column 'more' was added that must not be null",
        *["RecordValueError|UnsupportedTableError: .*more"] * 2,
    ),
    "dropped": (evolve(lambda update: update.delete_column("price")), GONE, *["RecordFieldError: .*'price'"] * 2),
    "dropped and added again": (
        evolve(lambda update: update.delete_column("price"), lambda update: update.add_column("price", LongType())),
        "UnsupportedTableError: .*'price' was dropped, and another of that name was added",
        *[[{"id": 1, "price": None}, {"id": 2, "price": 20}]] * 2,
    ),
    "renamed": (
        evolve(lambda update: update.rename_column("price", "cost")),
        [{"id": 1, "cost": 10}, {"id": 2, "cost": 20}],
        *["RecordFieldError: .*'price'"] * 2,
    ),
    "widened": (evolve(lambda update: update.update_column("price", LongType())), BOTH, BOTH, BOTH),
    "made required": (
        evolve(lambda update: update.update_column("price", required=True)),
        *[BOTH] * 3,
    ),
    "partitioned": (partitioned, "UnsupportedTableError: .*partitions were changed", BOTH, BOTH),
    "table dropped": (dropped, NO_TABLE, NO_TABLE, NO_TABLE),
    "table made anew": (anew, "LostCommittableError: .*made anew", ANEW, BOTH[1:]),
    "table swapped": (swapped, "LostCommittableError: .*made anew", ANEW, BOTH[1:]),
}


@cells("case", ICEBERG)
def test_change_of_an_iceberg_table_continues_right_or_is_named(tmp_path: Path, case: Case) -> None:
    folder = tmp_path / "lake"

    def rows() -> Rows:
        with catalog_of(folder) as catalog:
            found: Any = catalog.load_table(NAME).scan().to_arrow().to_pylist()
        return sorted(found, key=lambda row: row["id"])

    with catalog_of(folder) as catalog:
        catalog.create_table(NAME, SCHEMA)

    class Made(IcebergSink):
        """A sink without a schema, of a table that is made before its first run."""

        def create_global_committer(self, context: Any) -> Any:
            if context.restored_checkpoint_id is None:
                with catalog_of(folder) as catalog:
                    catalog.create_table_if_not_exists(NAME, SCHEMA)
            return super().create_global_committer(context)

    def safe() -> Rows:
        try:
            return rows()
        except Exception:  # noqa: BLE001 - there is no table
            return []

    check(case, folder, Made(NAME, options(folder)), safe)


# -------------------------------------------------------------------------------------------------------------- Delta


def rewritten(schema: pa.Schema, **more: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        empty: Any = pa.table({name: pa.array([], schema.field(name).type) for name in schema.names})
        write_deltalake(str(folder), empty, mode="overwrite", schema_mode="overwrite", **more)

    return change


def deleted(folder: Path) -> None:
    shutil.rmtree(folder)


def deleted_and_made(folder: Path) -> None:
    shutil.rmtree(folder)
    DeltaTable.create(str(folder), SCHEMA)


def with_rule(folder: Path) -> None:
    DeltaTable(str(folder)).alter.add_constraint({"positive": "id > 0"})


def with_mapping(folder: Path) -> None:
    entry = folder / "_delta_log" / f"{DeltaTable(str(folder)).version():020}.json"
    first = [json.loads(line) for line in (folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()]
    metadata = next(line for line in first if "metaData" in line)
    metadata["metaData"]["configuration"] = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    schema = json.loads(metadata["metaData"]["schemaString"])
    for number, field in enumerate(schema["fields"], 1):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    number = int(entry.stem) + 1
    (folder / "_delta_log" / f"{number:020}.json").write_text(f"{json.dumps(protocol)}\n{json.dumps(metadata)}\n")


def added(folder: Path) -> None:
    DeltaTable(str(folder)).alter.add_columns([pa_field("more", "string")])


def pa_field(name: str, kind: str) -> Any:
    from deltalake import Field

    return Field(name, kind)


NO_DELTA = "LakeTableError: .*there is no table in that folder, .*if it was deleted, restore it"
ANEW_DELTA = "UnsupportedTableError: .*deleted and made anew"
DELTA: dict[str, Any] = {
    "added": (added, *[[{**row, "more": None} for row in BOTH]] * 3),
    "dropped": (
        rewritten(pa.schema([("id", pa.int64())])),
        *["UnsupportedTableError: .*'price' is int32, and the table has no such column"] * 3,
    ),
    "another type": (
        rewritten(pa.schema([("id", pa.int64()), ("price", pa.string())])),
        *["UnsupportedTableError: .*'price' is int32, and the table has it as string"] * 3,
    ),
    "partitioned": (
        rewritten(SCHEMA, partition_by=["price"]),
        *["UnsupportedTableError: .*partitioned by price"] * 3,
    ),
    "a rule": (with_rule, *["UnsupportedTableError: .*the constraint positive"] * 3),
    "column mapping": (with_mapping, *["UnsupportedTableError: .*features columnMapping"] * 3),
    "table deleted": (deleted, NO_DELTA, NO_DELTA, NO_DELTA),
    "table made anew": (
        deleted_and_made,
        "LostCommittableError: .*made anew",
        "UnsupportedTableError: .*made anew",
        BOTH[1:],
    ),
}


@cells("case", DELTA)
def test_change_of_a_delta_table_continues_right_or_is_named(tmp_path: Path, case: Case) -> None:
    folder = tmp_path / "table"

    def rows() -> Rows:
        if not (folder / "_delta_log").exists():
            return []
        try:
            found: Any = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
        except Exception:  # noqa: BLE001 - of a table that the library does not read
            return []
        return sorted(found, key=lambda row: row["id"])

    check(case, folder, DeltaSink(str(folder), SCHEMA), rows)


#: For each type of Arrow that a table of that kind does not have.
REFUSED = {
    "delta": [
        *(
            pa.uint8(),
            pa.uint16(),
            pa.uint32(),
            pa.uint64(),
            pa.timestamp("ns"),
            pa.timestamp("ns", "UTC"),
            pa.float16(),
        ),
        *(
            pa.timestamp("us", "Europe/Berlin"),
            pa.timestamp("s"),
            pa.time64("us"),
            pa.duration("us"),
            pa.null(),
            pa.float16(),
        ),
        *(pa.decimal256(50, 2), pa.list_(pa.uint8()), pa.struct([("a", pa.timestamp("ns"))])),
        *(pa.map_(pa.string(), pa.uint64()), pa.dictionary(pa.int8(), pa.uint32())),
    ],
    "iceberg": [
        *(pa.uint32(), pa.uint64(), pa.timestamp("ns"), pa.timestamp("us", "Europe/Berlin"), pa.duration("us")),
        *(pa.list_(pa.uint64()), pa.struct([("a", pa.uint32())]), pa.decimal256(50, 2)),
    ],
}


@cells("kind", REFUSED)
def test_type_that_a_table_does_not_have_is_refused_when_the_sink_is_made(tmp_path: Path, kind: list[Any]) -> None:
    is_delta = kind is REFUSED["delta"]
    for arrow_type in kind:
        schema = pa.schema([("good", pa.int64()), ("bad", arrow_type)])
        with pytest.raises(UnsupportedTableError, match="the sink's column 'bad' is"):
            DeltaSink(str(tmp_path), schema) if is_delta else IcebergSink(NAME, options(tmp_path), schema)


def test_files_that_cannot_be_committed_can_be_read(tmp_path: Path) -> None:
    record = {"id": 1, "price": 10}
    for sink in (DeltaSink(str(tmp_path / "delta"), SCHEMA), IcebergSink(NAME, options(tmp_path / "lake"), SCHEMA)):
        life = Life(sink)
        (request,) = life.stage(record)
        committer: Any = sink.create_global_committer(TestCommitterContext(restored_checkpoint_id=1))
        assert committer.describe(request.get_committable()).startswith("1 rows in ")
        assert list(committer.read_records(request.get_committable())) == [record]
        for file in tmp_path.rglob("*.parquet"):
            file.unlink()
        assert committer.read_records(request.get_committable()) is None
        committer.close()
        life.close()
