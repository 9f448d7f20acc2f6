"""Delta tables: each checkpoint is one version, and is there once."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType
from tests.connectors.staged import elsewhere
from tests.kit.driving import Driven, Epochs
from tests.kit.program import Program

from penstock.common import Row, RowKind
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.delta import DeltaSink
from penstock.errors import (
    LakeTableError,
    RecordFieldError,
    RecordValueError,
    UnsupportedTableError,
)
from penstock.testing.connector_contexts import TestCommitterContext, TestWriterContext
from penstock.testing.in_process import Chaos
from penstock.testing.sink_contract import SinkContract, SinkUnderTest
from penstock.testing.sink_run import SinkRun

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = [{"id": number, "name": f"n{number}"} for number in range(40)]


@pytest.fixture(scope="module", autouse=True)
def threads_of_deltalake(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start them before a test looks at what it leaves: the library keeps them and their sockets."""
    table = str(tmp_path_factory.mktemp("delta"))
    write_deltalake(table, pa.table({"id": [1]}))
    assert DeltaTable(table).to_pyarrow_table().num_rows == 1


def rows_of(folder: Path) -> list[dict[str, Any]]:
    if not (folder / "_delta_log").exists():
        return []
    rows: Any = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def test_contract(tmp_path: Path) -> None:
    names = count()

    def make() -> SinkUnderTest:
        folder = tmp_path / str(next(names))

        def lose_staged() -> None:
            for path in folder.glob("part-*"):
                path.unlink()

        return SinkUnderTest(
            DeltaSink(str(folder), SCHEMA), lambda: rows_of(folder), lose_staged, unshared=lambda: elsewhere(folder)
        )

    SinkContract(make, ROWS[:12]).check_all()


@pytest.mark.behaviour(124)
def test_a_job_appends_each_record_once_and_one_version_for_each_checkpoint(tmp_path: Path) -> None:
    settings = {"checkpoints": str(tmp_path / "checkpoints"), "inline": "0 b", "interval": "1 s"}
    program = Program(tmp_path, 2, **settings)
    program.source(ROWS[:20], ROWS[20:]).sink_to(DeltaSink(str(tmp_path / "table"), SCHEMA)).uid("out")
    driven = Driven(program.env, tmp_path / "state", Epochs(8, chaos=Chaos(0.2, 0.1, 0.1), seed=5))
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
    assert rows_of(tmp_path / "table") == ROWS
    table = DeltaTable(str(tmp_path / "table"))
    added = [entry["operation"] for entry in table.history()]
    assert added.count("WRITE") == table.version()
    assert table.version() >= 3


def test_a_checkpoint_that_is_committed_again_adds_no_version(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path), SCHEMA))
    first, second = run.epoch(ROWS[:2]), run.epoch(ROWS[2:4])
    run.commit(first)
    run.commit(second)
    version = DeltaTable(str(tmp_path)).version()
    for checkpoint in (first, second):
        assert all(request.already_committed for request in run.commit(checkpoint, may_be_committed=True))
    assert DeltaTable(str(tmp_path)).version() == version  # readers of changes would read its rows again
    assert rows_of(tmp_path) == ROWS[:4]
    run.close()


def test_a_folder_that_cannot_be_made_is_named_with_what_to_look_at(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LakeTableError, match=f"Making the folder of the Delta table {place} failed: .*is a folder"):
            DeltaSink(str(place), SCHEMA).create_writer(TestWriterContext())


def test_records_that_do_not_fit_are_told_what_a_table_allows(tmp_path: Path) -> None:
    writer = DeltaSink(str(tmp_path / "table"), SCHEMA).create_writer(TestWriterContext())
    with pytest.raises(RecordFieldError, match="Add the column to the table and to the sink's schema, or change"):
        writer.write_all([{"id": 1, "colour": "red"}] * 9000)
    with pytest.raises(RecordValueError, match=r"give the column another type\.$"):
        writer.write_all([{"id": "one", "name": "n1"}] * 9000)
    writer.close()


def test_a_table_that_the_files_would_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "parts"), pa.table({"id": [1], "name": ["a"]}), partition_by=["name"])
    with pytest.raises(UnsupportedTableError, match="partitioned by name"):
        DeltaSink(str(tmp_path / "parts"), SCHEMA).create_global_committer(TestCommitterContext())
    write_deltalake(str(tmp_path / "other"), pa.table({"id": ["one"], "name": ["a"]}))
    with pytest.raises(UnsupportedTableError, match="'id' is int64, and the table has it as string"):
        DeltaSink(str(tmp_path / "other"), SCHEMA).create_global_committer(TestCommitterContext())
    write_deltalake(str(tmp_path / "less"), pa.table({"id": [1]}))
    with pytest.raises(UnsupportedTableError, match="'name' is string, and the table has no such column"):
        DeltaSink(str(tmp_path / "less"), SCHEMA).create_global_committer(TestCommitterContext())
    write_deltalake(str(tmp_path / "more"), pa.table({"id": [1], "name": ["a"], "price": [1.5]}))
    DeltaSink(str(tmp_path / "more"), SCHEMA).create_global_committer(TestCommitterContext())


NOT_NULL = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])


def test_a_table_whose_rules_nobody_would_check_is_refused_at_the_start_and_at_a_commit(tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    write_deltalake(place, pa.Table.from_pylist([{"id": 1, "name": "a"}], schema=NOT_NULL))
    sink = DeltaSink(place, NOT_NULL)
    run = SinkRun(sink)
    run.commit(run.epoch([{"id": 2, "name": "b"}]))
    with pytest.raises(UnsupportedTableError, match="'id' must not be null, and the sink's may be; declare"):
        DeltaSink(place, SCHEMA).create_global_committer(TestCommitterContext())
    DeltaTable(place).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(UnsupportedTableError, match="it has the constraint positive, which are not checked"):
        sink.create_global_committer(TestCommitterContext())
    with pytest.raises(UnsupportedTableError, match="positive"):
        run.commit(run.epoch([{"id": -1, "name": "c"}]))
    assert [row["id"] for row in rows_of(tmp_path / "table")] == [1, 2]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("delta.invariants", "the rule of the column id"),
        ("delta.generationExpression", "the generated value of the column id"),
        ("delta.identity.start", "the identity of the column id"),
    ],
)
def test_a_column_whose_values_the_writer_of_a_table_would_compute_or_check_is_refused(
    tmp_path: Path, key: str, told: str
) -> None:
    column = Field("id", PrimitiveType("long"), nullable=True, metadata={key: "1"})
    DeltaTable.create(str(tmp_path), Schema([column, Field("name", PrimitiveType("string"))]))
    with pytest.raises(UnsupportedTableError, match=told):
        DeltaSink(str(tmp_path), SCHEMA).create_global_committer(TestCommitterContext())


@pytest.mark.parametrize("kind", [kind for kind in RowKind if kind is not RowKind.INSERT])
def test_rows_that_change_others_are_refused_as_a_table_is_only_appended_to(tmp_path: Path, kind: RowKind) -> None:
    sink = DeltaSink(str(tmp_path / "table"), SCHEMA)
    run = SinkRun(sink)
    run.commit(run.epoch([Row(id=0, name="a"), {"id": 1, "name": "b"}]))
    change = Row(id=1, name="c")
    change.set_row_kind(kind)
    with pytest.raises(RecordValueError, match=f"it is of kind {kind.name}, and its target is only appended to"):
        run.epoch([Row(id=2, name="d"), change])
    run.close()
    assert [row["id"] for row in rows_of(tmp_path / "table")] == [0, 1]
