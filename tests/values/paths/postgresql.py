"""Tables of PostgreSQL, by its sink and its two sources; with a server that is started for it, or that of the tests."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.services.postgres import PostgresServer
from tests.values.batches import NUMBER, batched
from tests.values.table import NotAskedError, Outcome, Path
from tests.values.values import FIELD, Value

from penstock.common import Types
from penstock.common.typeinfo import MapTypeInfo, RowTypeInfo
from penstock.datastream.connectors.postgres import PostgresChangeSource, PostgresSink, PostgresSource
from penstock.testing import source_contract
from penstock.testing.connector_contexts import TestCommitterContext, TestWriterContext, requests_for
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_numbers = itertools.count()
_SQL = (
    (Types.BYTE(), "smallint"),
    (Types.SHORT(), "smallint"),
    (Types.INT(), "integer"),
    (Types.LONG(), "bigint"),
    (Types.BIG_INT(), "numeric"),
    (Types.BIG_DEC(), "numeric"),
    (Types.DOUBLE(), "double precision"),
    (Types.FLOAT(), "real"),
    (Types.BOOLEAN(), "boolean"),
    (Types.STRING(), "text"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), "bytea"),
    (Types.SQL_DATE(), "date"),
    (Types.SQL_TIME(), "time"),
    (Types.SQL_TIMESTAMP(), "timestamp"),
    (Types.INSTANT(), "timestamptz"),
    (Types.OBJECT_ARRAY(Types.STRING()), "text[]"),
    (Types.LIST(Types.LONG()), "bigint[]"),
    (Types.LIST(Types.LIST(Types.INT())), "integer[]"),
)


def _type(value: Value) -> str:
    """Return the type of a value's column: maps, rows and what has no type are JSON."""
    if "sql" in value.columns:
        return value.columns["sql"]
    if value.columns:
        raise NotAskedError
    found = next((sql for declared, sql in _SQL if declared == value.declared), None)
    if found is None and value.declared is not None:
        inner = getattr(value.declared, "elem_type", value.declared)
        assert isinstance(inner, MapTypeInfo | RowTypeInfo), value
    return found or "jsonb"


class _Table:
    """A table, written by the sink and read by a source.

    Args:
        server: The server.
        follows: Whether its changes are read.
        kind: The type of the column.
    """

    def __init__(self, server: PostgresServer, follows: bool, kind: str) -> None:
        self._server, self._name = server, f"values{next(_numbers)}"
        table = f"public.{self._name}"
        server.run(f"CREATE TABLE {table} ({NUMBER} int PRIMARY KEY, {FIELD} {kind})")
        self._sink: Any = PostgresSink.builder().set_url(server.url).set_table(table).set_key_columns(NUMBER).build()
        self._follows, self._run = None, None
        if follows:
            builder = PostgresChangeSource.builder().set_url(server.url).set_tables(table)
            self._follows = builder.set_slot_name(self._name).build()
            self._run = SourceRun(self._follows)
            self._epochs(3, 0)
        else:
            self._run = SourceRun(PostgresSource.builder().set_url(server.url).set_table(table).build())
        self._committer = self._sink.create_committer(TestCommitterContext())
        self._writer = self._new_writer()
        self._staged: list[Any] = []

    def _new_writer(self) -> Any:
        self._context = TestWriterContext()
        return self._sink.create_writer(self._context)

    def write(self, records: list[dict[str, Any]]) -> None:
        self._context.attempt_token = f"token{next(_numbers)}"
        try:
            self._writer.write_all(records)
            self._writer.flush(end_of_input=False)
            self._staged += self._writer.prepare_commit()
        except Exception:
            self._writer.close()
            self._writer = self._new_writer()
            raise

    def read(self) -> list[dict[str, Any]]:
        requests = requests_for(self._staged)
        self._committer.commit(requests)
        errors = [request.unknown_failure for request in requests if request.unknown_failure is not None]
        if errors:
            raise errors[0]
        if self._follows is None:
            return self._run.run_to_end()
        self._epochs(30, self._server.rows(f"SELECT count(*) FROM {self._name}")[0][0])
        return [dict(change.after) for change in self._run.records]

    def _epochs(self, most: int, records: int) -> None:
        wait, source_contract._WAIT_MS = source_contract._WAIT_MS, 50
        for _ in range(most):
            self._run.epoch(3)
            self._run.context.run_async_calls()
            if records and len(self._run.records) >= records:
                break
        source_contract._WAIT_MS = wait

    def close(self) -> None:
        self._writer.close()
        self._committer.close()
        self._run.close()
        if self._follows is not None:
            self._follows.drop_slot()


def on(server: PostgresServer) -> tuple[Path, ...]:
    """Return the paths on a server."""
    return tuple(
        Path(name, about, batched(_type, partial(_Table, server, name != "PostgreSQL")), in_every_run=False)
        for name, about in _ABOUT.items()
    )


def _run(name: str, values: Sequence[Value]) -> Iterable[Outcome]:
    with PostgresServer() as server:
        return list(next(path for path in on(server) if path.name == name).run(values))


_ABOUT = {
    "PostgreSQL": "Tables of PostgreSQL, by `PostgresSink` and `PostgresSource`.",
    "PostgreSQL, changes": "The same tables, by `PostgresChangeSource`.",
}
PATHS = tuple(Path(name, about, partial(_run, name), in_every_run=False) for name, about in _ABOUT.items())
