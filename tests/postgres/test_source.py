"""The bounded source reads each row of a table once, as of one moment, whatever its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.datastream.connectors.postgres import PostgresSource
from penstock.errors import ConfigurationError, DatabaseConnectionError, DatabaseError, TableError
from penstock.testing.source_contract import SourceContract, SourceRun

if TYPE_CHECKING:
    from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.postgres


def source_of(server: PostgresServer, table: str, split: int = 10, fetch: int = 4, **chosen: Any) -> PostgresSource:
    builder = PostgresSource.builder().set_url(server.url).set_table(table).set_split_size(split).set_fetch_size(fetch)
    return builder.set_columns(*chosen.get("columns", ())).set_key_columns(*chosen.get("key", ())).build()


def numbers(server: PostgresServer, schema: str, count: int = 50) -> str:
    server.run(
        f"CREATE TABLE {schema}.t (id int PRIMARY KEY, word text)",
        f"INSERT INTO {schema}.t SELECT n, 'w' || n FROM generate_series(1, {count}) n",
    )
    return f"{schema}.t"


def test_source_passes_the_contract(server: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock._connectors.postgres.source._RANGES_IN_A_STEP", 2)  # 5 ranges take some steps
    table = numbers(server, schema)
    SourceContract(lambda: source_of(server, table), [{"id": n, "word": f"w{n}"} for n in range(1, 51)]).check_all()


KEYS = {
    "bigint": "(n * 7 % 101)::bigint",
    "numeric": "n / 7.0",
    "real": "(n / 7.0)::real",
    "double precision": "n / 7.0",
    'text COLLATE "C"': "md5(n::text)",
    'text COLLATE "pg_unicode_fast"': "chr(64 + n % 60) || n",
    "character(8)": "'k' || n",
    "uuid": "md5(n::text)::uuid",
    "timestamptz": "'2024-03-31 00:00+01'::timestamptz + n * interval '7 min 0.000001 sec'",
    "timestamp": "'2024-03-31 00:00'::timestamp + n * interval '7 min'",
    "date": "'2024-01-01'::date + n",
    "interval": "n * interval '1 month 3 days'",
    "bytea": "sha256(n::text::bytea)",
    "integer[]": "ARRAY[n % 3, n]",
    "inet": "('10.0.0.' || n)::inet",
    "int4range": "int4range(n, n + 5)",
}


@pytest.mark.parametrize("kind", KEYS)
def test_any_key_that_can_be_ordered_cuts_the_table(server: PostgresServer, schema: str, kind: str) -> None:
    server.run(
        f'CREATE TABLE {schema}."T %s" ("the % key" {kind} PRIMARY KEY, n int)',
        f'INSERT INTO {schema}."T %s" SELECT {KEYS[kind]}, n FROM generate_series(1, 30) n',
    )
    source = source_of(server, f'{schema}."T %s"', 7, 3, columns=("n",))
    assert sorted(record["n"] for record in SourceRun(source, 2).run_to_end(polls=1)) == list(range(1, 31))


def test_keys_may_have_several_columns_and_need_not_be_primary(server: PostgresServer, schema: str) -> None:
    server.run(
        f"CREATE TABLE {schema}.t (a text NOT NULL, b int NOT NULL, n int, UNIQUE (b, a))",
        f"INSERT INTO {schema}.t SELECT 'a' || n % 3, n / 3, n FROM generate_series(1, 40) n",
    )
    for key in (("a", "b"), ("b", "a")):
        records = SourceRun(source_of(server, f"{schema}.t", 7, 3, key=key), 3).run_to_end(polls=1)
        assert sorted(record["n"] for record in records) == list(range(1, 41))


def test_rows_are_those_of_one_moment(server: PostgresServer, schema: str) -> None:
    table = numbers(server, schema)
    run = SourceRun(source_of(server, table), 2)
    run.context.run_async_calls()
    run.epoch(polls=1)
    run.epoch(polls=1)
    server.run(
        f"UPDATE {table} SET word = 'new'", f"DELETE FROM {table} WHERE id > 30", f"INSERT INTO {table} VALUES (-1)"
    )
    assert sorted(record["word"] for record in run.run_to_end(polls=1)) == sorted(f"w{n}" for n in range(1, 51))


def test_job_that_continues_reads_the_rest_as_it_is_then_and_says_so(
    server: PostgresServer, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = numbers(server, schema)
    run = SourceRun(source_of(server, table), 2)
    run.context.run_async_calls()
    run.epoch(polls=1)
    run.epoch(polls=1)
    checkpoint = run.epoch(polls=1)
    before = list(run.records)
    run.close()
    server.run(f"UPDATE {table} SET word = 'new'")
    after = SourceRun(source_of(server, table), 2, checkpoint).run_to_end()
    assert sorted(record["id"] for record in before + after) == list(range(1, 51))
    assert {record["word"] for record in after} == {"new"}
    assert "the rest of its ranges are read as they are now" in caplog.text


def test_snapshot_that_is_lost_fails_the_job_that_reads_in_it(server: PostgresServer, schema: str) -> None:
    run = SourceRun(source_of(server, numbers(server, schema)), 1)
    run.context.run_async_calls()
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock'")
    with pytest.raises(DatabaseConnectionError, match=r"Finding the ranges of .* terminating connection"):
        run.context.run_async_calls()
    run.close()


TABLES = {
    "CREATE TABLE {0}.t (a int)": ("it has no primary key", ()),
    "CREATE TABLE {0}.t (a int NOT NULL, b int)": ("no unique index has exactly the columns a", ("a",)),
    "CREATE TABLE {0}.t (a int UNIQUE)": ("rows may have no a", ("a",)),
    "CREATE TABLE {0}.t (a int NOT NULL); CREATE UNIQUE INDEX ON {0}.t (a) WHERE a > 7": ("no unique index", ("a",)),
    "CREATE TABLE {0}.t (a int UNIQUE DEFERRABLE NOT NULL)": ("no unique index", ("a",)),
    "CREATE TABLE {0}.t (a int PRIMARY KEY);": ("it has no column 'b'. Its columns are a", ("b",)),
    "CREATE VIEW {0}.t AS SELECT 1": ("it is no table", ()),
    "CREATE TABLE {0}.u (a int)": ("has none of that name that user 'postgres' can see", ()),
}


@pytest.mark.parametrize("statement", TABLES)
def test_table_without_such_a_key_is_an_error_that_says_what_to_do(
    server: PostgresServer, schema: str, statement: str
) -> None:
    message, key = TABLES[statement]
    server.run(statement.format(schema))
    run = SourceRun(source_of(server, f"{schema}.t", key=key), 1)
    with pytest.raises(TableError, match=message):
        run.context.run_async_calls()
    run.close()


def test_builder_wants_a_table_and_a_url(server: PostgresServer) -> None:
    with pytest.raises(ConfigurationError, match="set_table"):
        PostgresSource.builder().set_url(server.url).build()
    with pytest.raises(ConfigurationError, match="at least 1"):
        PostgresSource.builder().set_split_size(0)
    with pytest.raises(ConfigurationError, match="neither a URL") as raised:
        PostgresSource.builder().set_url("password=hunter2hunter2 nonsense")
    assert "hunter2" not in str(raised.value)


def test_no_right_to_read_names_table_and_database(server: PostgresServer, schema: str) -> None:
    table = numbers(server, schema)
    server.run(
        "DROP ROLE IF EXISTS stranger", "CREATE ROLE stranger LOGIN", f"GRANT USAGE ON SCHEMA {schema} TO stranger"
    )
    source = PostgresSource.builder().set_url(server.url).set_username("stranger").set_table(table).build()
    run = SourceRun(source, 1)
    with pytest.raises(DatabaseError, match=rf"Finding the ranges of {table} in postgresql://.* permission denied"):
        run.context.run_async_calls()
    run.close()
