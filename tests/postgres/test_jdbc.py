"""PyFlink's JdbcSink writes by the program's statement; its URLs and options are PyFlink's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Row, Types
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from penstock.errors import ConfigurationError, DatabaseError, PenstockError, UnsupportedOperationError
from penstock.testing.sink_contract import SinkRun

if TYPE_CHECKING:
    from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.postgres


def options(url: str, **given: str) -> JdbcConnectionOptions:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    for name, value in given.items():
        builder = getattr(builder, f"with_{name}")(value)
    return builder.build()


def test_statement_is_run_for_each_record_in_blocks(server: PostgresServer, schema: str) -> None:
    server.run(f"CREATE TABLE {schema}.t (id int PRIMARY KEY, word text)")
    sql = f"INSERT INTO {schema}.t VALUES (?, ? || '?%') ON CONFLICT (id) DO UPDATE SET word = EXCLUDED.word"
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres?ApplicationName=penstock"
    execution = JdbcExecutionOptions.builder().with_batch_size(2).build()
    sink = JdbcSink.sink(
        sql, Types.ROW([Types.INT(), Types.STRING()]), options(url, user_name="postgres", driver_name="x"), execution
    )
    run = SinkRun(sink)
    run.epoch([Row(1, "a"), (2, "b"), [3, "c"]])
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock'")
    run.epoch([Row(1, "again")])
    run.close()
    assert server.rows(f"SELECT * FROM {schema}.t ORDER BY 1") == [(1, "again?%"), (2, "b?%"), (3, "c?%")]


def test_statement_that_the_server_refuses_is_an_error(server: PostgresServer, schema: str) -> None:
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres?user=postgres"
    run = SinkRun(JdbcSink.sink(f"INSERT INTO {schema}.none VALUES (?)", Types.STRING(), options(url)))
    with pytest.raises(DatabaseError, match="does not exist"):
        run.epoch(["a"])
    run.close()


WRONG: dict[str, tuple[type[PenstockError], str]] = {
    "jdbc:mysql://db/shop": (UnsupportedOperationError, "'jdbc:mysql' URLs.*Python driver"),
    "mysql://db": (UnsupportedOperationError, "JdbcSink"),
    "jdbc:postgresql://db/shop?loginTimeout=3": (ConfigurationError, "'loginTimeout'.*known are user"),
}


@pytest.mark.parametrize("url", WRONG)
def test_url_of_another_database_says_what_to_do(url: str) -> None:
    error, message = WRONG[url]
    with pytest.raises(error, match=message):
        options(url)


def test_number_of_values_is_checked() -> None:
    row = Types.ROW([Types.INT(), Types.STRING()])
    with pytest.raises(ConfigurationError, match=r"it has 1 signs \?, and a record 2 fields"):
        JdbcSink.sink("INSERT INTO t VALUES (?, '?', \"?\")", row, options("jdbc:postgresql://db/shop"))


def test_password_is_in_no_text() -> None:
    for given in (
        options("jdbc:postgresql://db/shop?user=joe&password=hunter2hunter2"),
        options("jdbc:postgresql://joe:hunter2hunter2@db/shop"),
        options("jdbc:postgresql://db/shop", user_name="joe", password="hunter2hunter2"),
    ):
        sink: Any = JdbcSink.sink("SELECT ?", Types.STRING(), given)
        assert "hunter2" not in f"{given!r} {sink!r} {sink._address!r}"
        assert sink._address.password == "hunter2hunter2"
