"""A table or its publication changes while it is read: the source continues right, or an error names the change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells
from tests.postgres.changing import epoch, numbers, run_until, source_of

from penstock.datastream.connectors.postgres import PostgresSource
from penstock.errors import PenstockError, RecordValueError, TableError
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.postgres

ANEW = "it is not the one that was followed: that was dropped and made anew"
ALTERED = "of it was changed, and changes may be missing"
#: For each change: the record of a row that is inserted after it, or the error.
CHANGES: dict[str, Any] = {
    "ALTER TABLE {t} ADD COLUMN more int DEFAULT 7": {"id": 9, "word": "new", "more": 7},
    "ALTER TABLE {t} RENAME COLUMN word TO name": {"id": 9, "name": "new"},
    "ALTER TABLE {t} DROP COLUMN word; ALTER TABLE {t} ADD COLUMN word text": {"id": 9, "word": "new"},
    "ALTER TABLE {t} ALTER COLUMN word TYPE varchar(9)": {"id": 9, "word": "new"},
    "ALTER PUBLICATION {s}_slot ADD TABLE {t}_more": {"id": 9, "word": "new"},
    "ALTER TABLE {t} REPLICA IDENTITY FULL": {"id": 9, "word": "new"},
    "DROP TABLE {t}": "it was dropped while its changes were followed|none of that name",
    "DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY, word text)": ANEW,
    "DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY, word text); ALTER PUBLICATION {s}_slot ADD TABLE {t}": ANEW,
    "ALTER TABLE {t} RENAME TO t_old; CREATE TABLE {t} (id int PRIMARY KEY, word text)": ANEW,
    "ALTER PUBLICATION {s}_slot DROP TABLE {t}": "the publication {s}_slot does not have it",
    "ALTER PUBLICATION {s}_slot DROP TABLE {t}; INSERT INTO {t} VALUES (8); ALTER PUBLICATION {s}_slot ADD TABLE {t}": (
        ALTERED
    ),
    "ALTER PUBLICATION {s}_slot SET TABLE {t} WHERE (id < 3)": "has only a part of it",
    "ALTER PUBLICATION {s}_slot SET TABLE {t} (id)": "has only a part of it",
    "ALTER PUBLICATION {s}_slot SET (publish = 'delete')": "leaves changes of it out",
    "ALTER PUBLICATION {s}_slot SET (publish = 'delete'); INSERT INTO {t} VALUES (8); "
    "ALTER PUBLICATION {s}_slot SET (publish = 'insert, update, delete, truncate')": ALTERED,
    "DROP PUBLICATION {s}_slot": "its publication {s}_slot is gone",
    "ALTER TABLE {t} DROP CONSTRAINT t_pkey": "it has no primary key",
    "ALTER TABLE {t} DROP CONSTRAINT t_pkey; ALTER TABLE {t} ADD PRIMARY KEY (word)": "its key was id integer",
    "ALTER TABLE {t} RENAME COLUMN id TO key": "its key was id integer",
    "ALTER TABLE {t} ALTER COLUMN id TYPE bigint": "its key was id integer",
    "ALTER TABLE {t} REPLICA IDENTITY NOTHING": "the server sends nothing",
    "ALTER TABLE {t} ADD COLUMN price money": "'price' is of type money",
}


@cells("change, expected", CHANGES.items())
def test_change_of_a_followed_table_is_followed_or_named(server: PostgresServer, change: str, expected: Any) -> None:
    for place, moment in enumerate(("in a run", "between runs")):
        schema = f"follow{list(CHANGES).index(change)}_{place}"
        server.run(f"CREATE SCHEMA {schema}")
        numbers(server, schema, 1)
        server.run(f"CREATE TABLE {schema}.t_more (id int PRIMARY KEY)")
        run = SourceRun(source_of(server, schema))
        run_until(run, epochs=5, polls=3, records=1)
        run_until(run, epochs=1, polls=3)
        server.run(*change.format(t=f"{schema}.t", s=schema).split("; "))
        error = None
        try:
            if moment == "between runs":
                checkpoint = run.epoch(0)
                run.close()
                run = SourceRun(source_of(server, schema), 1, checkpoint)
            if isinstance(expected, dict):
                columns = ", ".join(name for name in expected if name != "more")
                server.run(f"INSERT INTO {schema}.t ({columns}) VALUES (9, 'new')")
            run_until(run, epochs=6, polls=3, records=1 + (moment == "in a run"))
        except PenstockError as raised:
            error = str(raised)
        run.close()
        server.run(f"SELECT pg_drop_replication_slot('{schema}_slot')")
        if isinstance(expected, dict):
            assert error is None, f"{moment}: {error}"
            assert run.records[-1].after == expected, moment
        else:
            assert re.search(expected.format(s=schema), str(error)), f"{moment}: {error}"


def test_table_that_changes_while_its_rows_are_read_for_the_first_time_is_named(
    server: PostgresServer, schema: str
) -> None:
    numbers(server, schema)
    run = SourceRun(source_of(server, schema))
    for _ in range(3):
        epoch(run, 1)
    assert 0 < len(run.records) < 40
    server.run(f"DROP TABLE {schema}.t", f"CREATE TABLE {schema}.t (id int PRIMARY KEY, word text)")
    with pytest.raises(TableError, match="it is not the one that was read before: it was dropped and made anew"):
        run_until(run, epochs=20, polls=1)
    run.close()


#: For each change of a table between two runs of a job that has read a part of it: what it goes on with.
BETWEEN: dict[str, Any] = {
    "ALTER TABLE {t} ADD COLUMN more int DEFAULT 7": {"id": 50, "word": "w50"},
    "ALTER TABLE {t} DROP COLUMN word": "its column 'word' was dropped since it was read before",
    "ALTER TABLE {t} RENAME COLUMN word TO name": "its column 'word' was renamed to 'name'",
    "ALTER TABLE {t} ALTER COLUMN word TYPE varchar(9)": "its column 'word' was of type text when it was read before",
    "DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY, word text)": "it was dropped and made anew",
    "ALTER TABLE {t} DROP CONSTRAINT t_pkey; ALTER TABLE {t} ADD PRIMARY KEY (word)": "its key was id integer",
    "ALTER TABLE {t} RENAME TO other": "none of that name",
}


@cells("change, expected", BETWEEN.items())
def test_change_of_a_table_between_two_runs_that_read_it_is_named(
    server: PostgresServer, change: str, expected: Any
) -> None:
    schema = f"between{list(BETWEEN).index(change)}"
    server.run(f"CREATE SCHEMA {schema}")
    numbers(server, schema, 50)
    source = PostgresSource.builder().set_url(server.url).set_table(f"{schema}.t")
    source = source.set_split_size(10).set_fetch_size(4).build()
    run = SourceRun(source)
    run.context.run_async_calls()
    for _ in range(3):
        checkpoint = run.epoch(1)
    run.close()
    server.run(*change.format(t=f"{schema}.t").split("; "))
    rest = SourceRun(source, 1, checkpoint)
    error = None
    try:
        rest.context.run_async_calls()
        rest.run_to_end()
    except PenstockError as raised:
        error = str(raised)
    rest.close()
    if isinstance(expected, dict):
        assert error is None, error
        assert expected in rest.records
    else:
        assert re.search(expected, str(error)), error


def test_table_is_not_changed_while_its_rows_are_read_as_of_one_moment(server: PostgresServer, schema: str) -> None:
    numbers(server, schema, 50)
    source = PostgresSource.builder().set_url(server.url).set_table(f"{schema}.t").set_split_size(10).build()
    run = SourceRun(source)
    run.context.run_async_calls()
    blocked: list[str] = []

    with server.connect(options="-c lock_timeout=50ms") as connection:
        for statement in (f"TRUNCATE {schema}.t", f"ALTER TABLE {schema}.t ALTER word TYPE varchar"):
            try:
                connection.execute(statement.encode())
            except Exception as error:  # noqa: BLE001 - of the server
                blocked.append(str(error))
    assert len(blocked) == 2
    assert len(run.run_to_end()) == 50


#: Values without a counterpart in Python, by their types.
UNREADABLE = {
    "interval": ("1 month", "1 year 2 mons 3 days", "infinity"),
    "interval[]": ("{1 mon}",),
    "date": ("infinity", "10000-01-01", "0044-03-15 BC"),
    "timestamp": ("-infinity",),
    "timestamptz[]": ("{infinity}",),
    "daterange": ("[2026-01-01,infinity)",),
    "time": ("24:00",),
    "text[]": ("[2:3]={1,2}",),
    "json": ('{"a": 1, "a": 2}',),
}


def test_value_without_a_counterpart_names_its_column_and_is_a_text_on_request(
    server: PostgresServer, schema: str
) -> None:
    """In tables and in their changes, from which the same functions read."""
    columns = [f"c{place} {kind}" for place, kind in enumerate(UNREADABLE)]
    server.run(f"CREATE TABLE {schema}.t (id int PRIMARY KEY, {', '.join(columns)})")
    values = [(place, value) for place, kind in enumerate(UNREADABLE) for value in UNREADABLE[kind]]
    for number, (place, value) in enumerate(values):
        server.run(f"INSERT INTO {schema}.t (id, c{place}) VALUES ({number}, '{value}')")

    def read(*text_columns: str) -> SourceRun:
        builder = PostgresSource.builder().set_url(server.url).set_table(f"{schema}.t").set_fetch_size(1)
        return SourceRun(builder.set_text_columns(*text_columns).build())

    for number, (place, value) in enumerate(values):
        others = [f"c{other}" for other in range(len(UNREADABLE)) if other != place]
        server.run(f"DELETE FROM {schema}.t", f"INSERT INTO {schema}.t (id, c{place}) VALUES ({number}, '{value}')")
        run = read(*others)
        with pytest.raises(RecordValueError, match=rf"The field 'c{place}' .*set_text_columns\('c{place}'\)"):
            run.run_to_end()
        run.close()
        (found,) = read(f"c{place}").run_to_end()
        ((there,),) = server.rows(f"SELECT c{place}::text FROM {schema}.t")
        assert found[f"c{place}"] == there
    server.run(f"DELETE FROM {schema}.t")
    for place in range(len(UNREADABLE)):
        server.run(f"INSERT INTO {schema}.t (id) VALUES ({place})")
    run = SourceRun(source_of(server, schema))
    run_until(run, epochs=5, polls=3, records=len(UNREADABLE))
    server.run(f"UPDATE {schema}.t SET c0 = '1 mon' WHERE id = 0")
    with pytest.raises(RecordValueError, match=r"The field 'c0' .*the value '1 mon' has none in Python"):
        run_until(run, epochs=5, polls=3)
    run.close()


def test_unknown_types_are_refused_by_column_at_the_start(server: PostgresServer, schema: str) -> None:
    server.run(f"CREATE TYPE {schema}.pair AS (a int, b text)")
    for kind in ("money", f"{schema}.pair", f"{schema}.pair[]", "xid8", "box[]"):
        server.run(f"DROP TABLE IF EXISTS {schema}.t", f"CREATE TABLE {schema}.t (id int PRIMARY KEY, x {kind})")
        bounded = PostgresSource.builder().set_url(server.url).set_table(f"{schema}.t").build()
        for source in (source_of(server, schema), bounded):
            run = SourceRun(source)
            with pytest.raises(TableError, match=r"its column 'x' is of type .*set_text_columns\('x'\)"):
                run.context.run_async_calls()
            run.close()
