"""What the change stream makes of slots, publications, tables and values; and what it does about those that fail it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.postgres.changing import epoch, numbers, run_until, source_of

from penstock._connectors.postgres import slot as slots
from penstock.datastream.connectors.postgres import PostgresChangeSource, PostgresSource
from penstock.errors import PenstockError, ReplicationSlotError, TableError
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.postgres


def test_changes_of_other_tables_of_the_publication_are_left_out(server: PostgresServer, schema: str) -> None:
    numbers(server, schema, 1)
    server.run(f"CREATE TABLE {schema}.other (id int PRIMARY KEY)", f"CREATE PUBLICATION {schema}_slot FOR ALL TABLES")
    run = SourceRun(source_of(server, schema))
    run_until(run, epochs=3, polls=3)
    server.run(f"INSERT INTO {schema}.other VALUES (7)", f"TRUNCATE {schema}.other, {schema}.t")
    run_until(run, epochs=5, polls=3, records=2)
    server.run(f"ALTER TABLE {schema}.t RENAME TO renamed", f"INSERT INTO {schema}.renamed VALUES (8, 'h')")
    run_until(run, epochs=5, polls=3, records=3)
    assert [(change.op, change.table) for change in run.records] == [
        ("read", f"{schema}.t"),
        ("truncate", f"{schema}.t"),
        ("insert", f"{schema}.t"),
    ]
    run.close()


def streaming(server: PostgresServer, schema: str) -> SourceRun:
    """Return a run whose reader has read the rows of a table, and one change."""
    numbers(server, schema, 1)
    run = SourceRun(source_of(server, schema))
    run_until(run, epochs=3, polls=3)
    server.run(f"INSERT INTO {schema}.t VALUES (2, 'b')")
    run_until(run, epochs=5, polls=3, records=2)
    assert len(run.records) == 2
    return run


def test_slot_that_another_job_advances_is_an_error_while_this_one_runs(server: PostgresServer, schema: str) -> None:
    run = streaming(server, schema)
    server.run(
        f"INSERT INTO {schema}.t VALUES (3, 'c')",
        f"SELECT pg_replication_slot_advance('{schema}_slot', pg_current_wal_lsn())",
    )
    with pytest.raises(ReplicationSlotError, match="it was advanced to"):
        run_until(run, epochs=5, polls=3, records=3)
    assert len(run.records) == 2
    run.close()


def test_lost_slot_is_an_error_of_the_running_and_of_the_next_job(server: PostgresServer, schema: str) -> None:
    run = streaming(server, schema)
    checkpoint = epoch(run, 1)
    source_of(server, schema).drop_slot()
    with pytest.raises(ReplicationSlotError, match="it is gone"):
        run.context.run_async_calls()
    run.close()
    run = SourceRun(source_of(server, schema), 1, checkpoint)
    with pytest.raises(ReplicationSlotError, match="Start the job without a checkpoint and with a new slot"):
        run.context.run_async_calls()
    run.close()


@pytest.mark.parametrize("is_running", [False, True])
def test_a_server_whose_log_ends_before_what_was_read_is_an_error(
    server: PostgresServer, schema: str, is_running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = streaming(server, schema)
    checkpoint = epoch(run, 1)
    [(end,)] = server.rows("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint")
    monkeypatch.setattr(slots, "flushed_lsn", lambda connection: end // 2)  # as after a restore from an older copy
    if not is_running:
        run.close()
        run = SourceRun(source_of(server, schema), 1, checkpoint)
    with pytest.raises(ReplicationSlotError, match=r"the server's log ends at .*, and was read up to"):
        run_until(run, epochs=5, polls=3, records=3)
    run.close()


def test_slot_whose_log_the_server_has_removed_is_an_error(server: PostgresServer, schema: str) -> None:
    run = streaming(server, schema)
    server.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    try:
        for _ in range(3):
            server.run("SELECT pg_logical_emit_message(false, 'a', 'b')", "SELECT pg_switch_wal()")
        server.run("CHECKPOINT")
        with pytest.raises(ReplicationSlotError, match="the server has removed log that it needs"):
            run.context.run_async_calls()
    finally:
        server.run("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")
        run.close()


def test_stream_that_waits_goes_on_after_a_restart_of_the_server(server: PostgresServer, schema: str) -> None:
    run = streaming(server, schema)
    server.restart()
    run.context.run_async_calls()
    server.run(f"INSERT INTO {schema}.t VALUES (3, 'c')")
    run_until(run, epochs=5, polls=3, records=3)
    assert run.records[-1].after == {"id": 3, "word": "c"}
    run.close()


def test_slot_advances_behind_durable_checkpoints_alone_and_the_log_that_it_keeps_is_shown(
    server: PostgresServer, schema: str
) -> None:
    def slot() -> int:
        [(lsn,)] = server.rows(
            f"SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE slot_name = '{schema}_slot'"
        )
        return lsn

    run = streaming(server, schema)
    began = slot()
    reader: Any = run._readers[0]
    [split] = reader.snapshot_state(50)
    server.run(f"INSERT INTO {schema}.t SELECT n, 'more' FROM generate_series(10, 500) n")
    run_until(run, epochs=3, polls=3, records=400)
    reader.snapshot_state(51)
    assert slot() == began
    reader.notify_checkpoint_complete(50)
    assert began < slot() <= split.lsn
    run.context.run_async_calls()
    gauge: Any = run.context.metric_group.snapshot()["retainedWalBytes"]["value"]
    assert gauge > 10_000
    # Changes of other tables do not hold it up.
    server.run(f"CREATE TABLE {schema}.other AS SELECT generate_series(1, 9)")
    [(end,)] = server.rows("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint")
    while reader.snapshot_state(52)[0].lsn < end:
        epoch(run, 2)
    reader.notify_checkpoint_complete(52)
    assert slot() == reader.snapshot_state(53)[0].lsn >= end
    run.close()


def test_long_values_that_have_not_changed_are_named_or_known_from_the_old_row(
    server: PostgresServer, schema: str
) -> None:
    server.run(
        f"CREATE TABLE {schema}.t (id text PRIMARY KEY, long text, n int)",
        f"ALTER TABLE {schema}.t ALTER id SET STORAGE EXTERNAL, ALTER long SET STORAGE EXTERNAL",
        f"INSERT INTO {schema}.t VALUES (repeat('k', 2100), repeat('v', 9000), 1)",
    )
    run = SourceRun(source_of(server, schema))
    run_until(run, epochs=3, polls=3)
    server.run(
        f"UPDATE {schema}.t SET n = 2",
        f"ALTER TABLE {schema}.t REPLICA IDENTITY FULL",
        f"UPDATE {schema}.t SET n = 3",
    )
    run_until(run, epochs=5, polls=3, records=3)
    key, value = "k" * 2100, "v" * 9000
    _, default, full = run.records
    assert (default.after, default.unchanged, default.key_changed) == ({"id": key, "n": 2}, ("long",), False)
    assert (full.after, full.unchanged) == ({"id": key, "long": value, "n": 3}, ())
    assert full.before == {"id": key, "long": value, "n": 2}
    run.close()


def test_truncate_while_the_rows_are_read_is_an_error(server: PostgresServer, schema: str) -> None:
    numbers(server, schema)
    run = SourceRun(source_of(server, schema))
    while not run.records:
        epoch(run, 1)
    assert len(run.records) < 40
    server.run(f"TRUNCATE {schema}.t")
    with pytest.raises(TableError, match="emptied by TRUNCATE while the first look"):
        run_until(run, epochs=12)
    run.close()


TABLES = {
    "CREATE TABLE {0}.t (a int)": "it has no primary key",
    "CREATE TABLE {0}.t (a int PRIMARY KEY); ALTER TABLE {0}.t REPLICA IDENTITY NOTHING": "the server sends nothing",
    "CREATE TABLE {0}.t (a int PRIMARY KEY); CREATE PUBLICATION {0}_slot": "publication .* does not have it",
    "CREATE TABLE {0}.t (a int PRIMARY KEY); CREATE PUBLICATION {0}_slot FOR TABLE {0}.t WHERE (a > 7)": "a part of it",
    "CREATE TABLE {0}.t (a int PRIMARY KEY, b int); CREATE PUBLICATION {0}_slot FOR TABLE {0}.t (a)": "a part of it",
    "CREATE TABLE {0}.t (a int PRIMARY KEY); CREATE PUBLICATION {0}_slot FOR TABLE {0}.t WITH (publish = insert)": (
        "leaves changes of it out"
    ),
}


@pytest.mark.parametrize("statements", TABLES)
def test_table_whose_changes_would_be_missing_is_an_error_before_a_slot_is_made(
    server: PostgresServer, schema: str, statements: str
) -> None:
    server.run(*statements.format(schema).split("; "))
    run = SourceRun(source_of(server, schema))
    with pytest.raises(TableError, match=TABLES[statements]):
        run.context.run_async_calls()
    assert server.rows(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{schema}_slot'") == []
    run.close()


def test_values_of_the_stream_are_those_of_the_table(server: PostgresServer, schema: str) -> None:
    name = f'{schema}."T ""%s"'
    columns = (
        """"Id %" int PRIMARY KEY, "a ""b" numeric, c timestamptz, d timestamp, e int[], f bytea, g json, h jsonb, """
        f"i {schema}.mood[], j {schema}.years, k interval, l uuid, m real, n boolean, o text, p date, q inet, "
        "r tstzrange, s int GENERATED ALWAYS AS IDENTITY"
    )
    server.run(
        f"CREATE TYPE {schema}.mood AS ENUM ('sad', 'glad')",
        f"CREATE DOMAIN {schema}.age AS int",
        f"CREATE DOMAIN {schema}.years AS {schema}.age",
        f"CREATE TABLE {name} ({columns})",
    )
    source: Any = PostgresChangeSource.builder().set_url(server.url).set_slot_name(f"{schema}_slot").set_tables(name)
    run = SourceRun(source.build())
    run_until(run, epochs=3, polls=3)
    values = (
        "'1234567890.0123456789', '2024-03-31 01:30:00.000001+02', '2024-02-29 12:00', '{{1,NULL},{3,4}}', "
        "'\\x00ff5c', '{\"a\": [1, null]}', '\"text\"', '{sad,NULL}', 7, '1 day 00:00:01', "
        "'00000000-0000-0000-0000-000000000007', 0.1, true, E'tab\\t\\\\N ü', '0001-01-01', '10.0.0.1', "
        "'[2024-01-01,)'"
    )
    server.run(
        f"INSERT INTO {name} VALUES (1, {values})",
        f"INSERT INTO {name} VALUES (2, 'NaN')",
        f"INSERT INTO {name} VALUES (3, NULL, NULL, NULL, '{{}}', '', 'null', '[]')",
    )
    run_until(run, epochs=5, polls=3, records=3)
    read = SourceRun(PostgresSource.builder().set_url(server.url).set_table(name).build()).run_to_end()
    assert [repr(change.after) for change in run.records] == [repr(row) for row in read]
    assert len(read) == 3
    run.close()


def test_job_that_waits_for_an_open_transaction_can_be_ended(server: PostgresServer, schema: str, held: Any) -> None:
    numbers(server, schema)
    held.execute("BEGIN")
    held.execute(f"INSERT INTO {schema}.t VALUES (100, 'held')".encode())
    run = SourceRun(source_of(server, schema))
    errors: list[BaseException] = []

    def prepare() -> None:
        try:
            run.context.run_async_calls()
        except PenstockError as error:
            errors.append(error)

    thread = threading.Thread(target=prepare)
    thread.start()
    waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'penstock' AND wait_event_type = 'Lock'"
    while not server.rows(waiting):
        assert thread.is_alive()
    run.close()
    thread.join(20)
    assert not thread.is_alive()
    assert errors
