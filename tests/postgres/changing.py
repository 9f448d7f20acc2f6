"""Change streams as tests read them: in small steps, from a table of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.connectors.postgres import PostgresChangeSource

if TYPE_CHECKING:
    from tests.services.postgres import PostgresServer

    from penstock.testing.source_contract import SourceRun


def source_of(server: PostgresServer, schema: str, *tables: str, bounded: bool = False, fetch: int = 20) -> Any:
    builder = PostgresChangeSource.builder().set_url(server.url).set_slot_name(f"{schema}_slot")
    builder.set_tables(*(f"{schema}.{table}" for table in tables or ("t",))).set_split_size(10).set_fetch_size(fetch)
    return (builder.set_bounded() if bounded else builder).build()


def numbers(server: PostgresServer, schema: str, count: int = 40) -> None:
    server.run(
        f"CREATE TABLE {schema}.t (id int PRIMARY KEY, word text)",
        f"INSERT INTO {schema}.t SELECT n, 'w' || n FROM generate_series(1, {count}) n",
    )


def epoch(run: SourceRun, polls: int) -> Any:
    """Run an epoch, have the enumerator look at the slot, and return the checkpoint."""
    checkpoint = run.epoch(polls)
    run.context.run_async_calls()
    return checkpoint


def run_until(run: SourceRun, *, polls: int = 1_000, epochs: int = 30, records: int = 0) -> None:
    for _ in range(epochs):
        epoch(run, polls)
        if records and len(run.records) >= records:
            return
