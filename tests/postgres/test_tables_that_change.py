"""A table changes while a sink writes it: each change, at each moment, continues right or is an error that names it."""

from __future__ import annotations

import datetime
import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells
from tests.postgres.test_sink import rows, sink_of, staged, table

from penstock.datastream.connectors import DeliveryGuarantee
from penstock.errors import DatabaseError, RecordFieldError, RecordValueError, TableError
from penstock.testing.connector_contexts import TestCommitterContext, TestWriterContext, requests_for
from penstock.testing.sink_contract import SinkRun

if TYPE_CHECKING:
    from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.postgres

_numbers = itertools.count(1)


class Life:
    """A sink with one committer, whose writers come and go.

    Args:
        server: The server.
        sink: The sink.
    """

    def __init__(self, server: PostgresServer, sink: Any) -> None:
        self._server, self._sink, self._checkpoint = server, sink, 0
        self.committer = sink.create_committer(TestCommitterContext())

    def stage(self, *records: Any) -> list[Any]:
        self._checkpoint += 1
        token = f"token{next(_numbers)}"
        writer = self._sink.create_writer(TestWriterContext(attempt_token=token, checkpoint_id=self._checkpoint))
        try:
            writer.write_all(list(records))
            writer.flush(end_of_input=False)
            return requests_for(writer.prepare_commit(), self._checkpoint)
        finally:
            writer.close()

    def commit(self, requests: list[Any]) -> None:
        self.committer.commit(requests)
        for request in requests:
            if request.unknown_failure is not None:
                error, request.unknown_failure = request.unknown_failure, None
                raise error

    def start_again(self) -> None:
        self.committer.close()
        self.committer = self._sink.create_committer(TestCommitterContext())


def ends(work: Any) -> str | None:
    """Return the error in which something ends, as its name and its text; None without one."""
    try:
        work()
    except (TableError, DatabaseError, RecordFieldError, RecordValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


OLD, NEW = [(1, "a"), (2, "b")], [(1, "a")]
#: For each change: the rows once a checkpoint was staged before it, or the error of its commit; and what becomes of a
#: record that is written after it.
CHANGES: dict[str, tuple[list[tuple[Any, ...]] | str, list[tuple[Any, ...]] | str]] = {
    "ALTER TABLE {t} ADD COLUMN more text DEFAULT 'd'": (
        [(1, "a", "d"), (2, "b", "d")],
        [(1, "a", "d"), (3, "c", None)],
    ),
    "ALTER TABLE {t} ADD COLUMN more text NOT NULL DEFAULT 'd'; ALTER TABLE {t} ALTER more DROP DEFAULT": (
        'DatabaseError: Publishing the 1 rows of checkpoint 2 from .* null value in column "more"',
        "RecordValueError: The field 'more' .* must have a value",
    ),
    "ALTER TABLE {t} DROP COLUMN word": ("TableError: .*'word' was dropped since", "RecordFieldError: .*'word'"),
    "ALTER TABLE {t} RENAME COLUMN word TO name": (OLD, "RecordFieldError: .*'word'.*it has id, name"),
    "ALTER TABLE {t} DROP COLUMN word; ALTER TABLE {t} ADD COLUMN word text": (
        [(1, None), (2, "b")],
        [(1, None), (3, "c")],
    ),
    "ALTER TABLE {t} ALTER COLUMN id TYPE bigint": (OLD, [(1, "a"), (3, "c")]),
    "ALTER TABLE {t} ALTER COLUMN word TYPE int USING 7": (
        "TableError: .*'word' is of type integer, and was of type text since",
        "RecordValueError: The field 'word' .*'c' is not a whole number",
    ),
    "ALTER TABLE {t} ALTER COLUMN id TYPE text": ([("1", "a"), ("2", "b")], "RecordValueError: The field 'id'"),
    "ALTER TABLE {t} DROP COLUMN word; ALTER TABLE {t} ADD COLUMN word text GENERATED ALWAYS AS ('x') STORED": (
        "TableError: .*'word' is computed by the server since",
        "RecordFieldError: .*'word'",
    ),
    "DROP TABLE {t}": ("TableError: .*has none of that name", "TableError: .*has none of that name"),
    "DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY, word text)": (
        "TableError: .*dropped and made anew, or another has its name",
        [(3, "c")],
    ),
    "CREATE TABLE {t}_new (LIKE {t} INCLUDING ALL); ALTER TABLE {t} RENAME TO t_old; ALTER TABLE {t}_new RENAME TO t": (
        "TableError: .*dropped and made anew, or another has its name",
        [(3, "c")],
    ),
    "ALTER TABLE {t} DROP CONSTRAINT t_pkey": ("TableError: .*no unique index", "TableError: .*no unique index"),
    "ALTER TABLE {t} ADD CHECK (id < 2)": (
        'DatabaseError: .*checkpoint 2 .*violates check constraint "t_id_check"',
        'RecordValueError: .*violates check constraint "t_id_check"',
    ),
    "ALTER TABLE {t} RENAME TO moved": (*["TableError: .*has none of that name"] * 2,),
    "ALTER TABLE {t} RENAME TO moved; CREATE VIEW {t} AS SELECT 1 AS id": (
        *["TableError: .*it is no table, but a view"] * 2,
    ),
    "ALTER TABLE {t} RENAME id TO x; ALTER TABLE {t} RENAME word TO id; ALTER TABLE {t} RENAME x TO word": (
        OLD,
        "TableError: .*no unique index has exactly the columns id",
    ),
    "ALTER TABLE {t} ALTER id ADD GENERATED ALWAYS AS IDENTITY": (OLD, "TableError: .*key column id is not written"),
    "ALTER TABLE {t} ALTER word SET DEFAULT 'd'": (OLD, [(1, "a"), (3, "c")]),
    "ALTER TABLE {t} ADD UNIQUE (word)": (OLD, [(1, "a"), (3, "c")]),
    "TRUNCATE {t}": ([(2, "b")], [(3, "c")]),
}


@cells("change, expected", CHANGES.items())
def test_change_of_a_table_continues_right_or_is_named(
    server: PostgresServer, change: str, expected: tuple[list[tuple[Any, ...]] | str, list[tuple[Any, ...]] | str]
) -> None:
    at_commit, later = expected
    for moment in ("at a commit", "between epochs", "between runs"):
        schema = f"change{next(_numbers)}"
        server.run(f"CREATE SCHEMA {schema}")
        life = Life(server, sink_of(server, table(server, schema), "id"))
        life.commit(life.stage({"id": 1, "word": "a"}))
        requests = life.stage({"id": 2, "word": "b"}) if moment == "at a commit" else []
        server.run(*change.format(t=f"{schema}.t").split("; "))
        wanted, error = at_commit, None
        if moment == "at a commit":
            error = ends(lambda: life.commit(requests))  # noqa: B023 - it is called at once
        else:
            wanted = later
            error = ends(life.start_again) if moment == "between runs" else None
            error = error or ends(lambda: life.commit(life.stage({"id": 3, "word": "c"})))  # noqa: B023
        if isinstance(wanted, str):
            assert re.match(wanted, str(error)), f"{moment}: {error}"
            # What was staged is still there, and what was committed was not touched.
            assert len(staged(server, schema)) == len(requests)
        else:
            assert error is None, f"{moment}: {error}"
            assert rows(server, schema) == wanted, moment
        life.committer.close()


_TRIGGER = "CREATE TRIGGER leave_out BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION {s}.leave_out()"


@pytest.mark.parametrize("key", ["id", ""])
@pytest.mark.parametrize("change", ["CREATE RULE leave_out AS ON INSERT TO {t} DO INSTEAD NOTHING", _TRIGGER])
def test_rows_that_a_rule_or_a_trigger_leaves_out_are_told(
    server: PostgresServer, schema: str, change: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = "CREATE FUNCTION {s}.leave_out() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
    life = Life(server, sink_of(server, table(server, schema), *filter(None, [key])))
    life.commit(life.stage({"id": 1, "word": "a"}))
    assert not caplog.records
    server.run(body.format(s=schema), change.format(t=f"{schema}.t", s=schema))
    life.commit(life.stage({"id": 2, "word": "b"}, {"id": 3, "word": "c"}))
    assert f"{schema}.t took 0 of 2 rows" in caplog.text
    assert rows(server, schema) == [(1, "a")]
    life.committer.close()


def test_undone_change_lets_the_checkpoint_be_committed(server: PostgresServer, schema: str) -> None:
    life = Life(server, sink_of(server, table(server, schema), "id"))
    requests = life.stage({"id": 1, "word": "a"})
    server.run(f"ALTER TABLE {schema}.t DROP COLUMN word")
    assert ends(lambda: life.commit(requests))
    server.run(f"ALTER TABLE {schema}.t ADD COLUMN word text")
    life.start_again()
    life.commit(requests)
    life.committer.close()
    assert rows(server, schema) == [(1, "a")]


def test_rows_are_refused_before_the_checkpoint_where_the_table_would_refuse_them(
    server: PostgresServer, schema: str
) -> None:
    server.run(
        f"CREATE DOMAIN {schema}.small AS int CHECK (VALUE < 10)",
        f"CREATE TYPE {schema}.mood AS ENUM ('sad', 'glad')",
        f"CREATE TABLE {schema}.t (id serial PRIMARY KEY, a {schema}.small, b {schema}.mood, c numeric(3,1), "
        f"d varchar(2), e int NOT NULL DEFAULT 7, f int, CONSTRAINT larger CHECK (f > e))",
    )
    good = {"id": 1, "a": 1, "b": "sad", "c": 1.5, "d": "ab", "e": 1, "f": 2}
    bad: dict[str, Any] = {"id": None, "a": 10, "b": "mad", "c": 100, "d": "abc", "e": None, "f": 0}
    once = DeliveryGuarantee.AT_LEAST_ONCE
    for key, guarantee in itertools.product(((), ("id",)), (DeliveryGuarantee.EXACTLY_ONCE, once)):
        for name, value in bad.items():
            run = SinkRun(sink_of(server, f"{schema}.t", *key, guarantee=guarantee))
            with pytest.raises(RecordValueError, match=f"'{name}'|larger|{name} is not null"):
                run.epoch([good | {name: value}])
            run.close()
    assert rows(server, schema) == staged(server, schema) == []
    life = Life(server, sink_of(server, f"{schema}.t", columns=("e", "f")))
    life.commit(life.stage((1, 2)))  # the server gives what is not written
    life.committer.close()
    assert len(rows(server, schema)) == 1
    server.run(
        f"ALTER TABLE {schema}.t ADD COLUMN g int NOT NULL DEFAULT 1", f"ALTER TABLE {schema}.t ALTER g DROP DEFAULT"
    )
    with pytest.raises(TableError, match="its column g must have a value, has no default, and is not written"):
        sink_of(server, f"{schema}.t", columns=("e", "f")).create_committer(TestCommitterContext())


def test_delete_needs_the_key_alone(server: PostgresServer, schema: str) -> None:
    from penstock.common import Row, RowKind

    life = Life(server, sink_of(server, table(server, schema, "id int PRIMARY KEY, word text NOT NULL"), "id"))
    life.commit(life.stage({"id": 1, "word": "a"}, {"id": 2, "word": "b"}))
    gone = Row(id=1, word=None)
    gone.set_row_kind(RowKind.DELETE)
    life.commit(life.stage(gone))
    life.committer.close()
    assert rows(server, schema) == [(2, "b")]


def test_rows_that_cannot_be_committed_are_told_and_can_be_read_while_nothing_else_is_lost(
    server: PostgresServer, schema: str
) -> None:
    from penstock.common import Row, RowKind

    sink = sink_of(server, table(server, schema, "id int PRIMARY KEY, word text, at timestamptz, doc jsonb"), "id")
    moment = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)
    first = {"id": 1, "word": "poison", "at": moment, "doc": [1.5, None]}
    gone = Row(id=7, word=None, at=None, doc=None)
    gone.set_row_kind(RowKind.DELETE)
    life = Life(server, sink)
    (poison,) = life.stage(first, gone)
    (good,) = life.stage({"id": 2, "word": "good"})
    server.run(f"ALTER TABLE {schema}.t ADD CHECK (word <> 'poison')")
    life.start_again()  # the job has died, and another one goes on
    for _ in range(2):
        life.committer.commit([poison])
        assert "violates check constraint" in str(poison.unknown_failure)
    assert f"2 rows in the table {schema}.penstock_staged_" in life.committer.describe(poison.get_committable())
    found = list(life.committer.read_records(poison.get_committable()))
    assert found[0] == first
    assert found[1].get_row_kind() is RowKind.DELETE
    life.commit([good])  # the checkpoint after one that was given up
    life.committer.close()
    assert [row[:2] for row in rows(server, schema)] == [(2, "good")]
    assert life.committer.read_records(poison.get_committable()) is None  # it went with the first commit after it
    life.committer.close()
