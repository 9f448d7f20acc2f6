"""The sink writes each record once, whatever crashes; and with a key, the last record of each."""

from __future__ import annotations

import datetime
import decimal
import threading
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock._connectors.postgres import committer
from penstock._connectors.postgres.publishing import Publisher
from penstock.common import Row, RowKind
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.postgres import PostgresChange, PostgresSink, PostgresSource
from penstock.errors import LostCommittableError, RecordFieldError, RecordValueError, TableError
from penstock.testing.sink_contract import SinkContract, SinkRun, SinkUnderTest
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.postgres


def sink_of(server: PostgresServer, table: str, *key: str, **chosen: Any) -> Any:
    builder = PostgresSink.builder().set_url(server.url).set_table(table).set_key_columns(*key)
    guarantee = chosen.get("guarantee", DeliveryGuarantee.EXACTLY_ONCE)
    return builder.set_columns(*chosen.get("columns", ())).set_delivery_guarantee(guarantee).build()


def table(server: PostgresServer, schema: str, columns: str = "id int PRIMARY KEY, word text") -> str:
    server.run(f"CREATE TABLE {schema}.t ({columns})")
    return f"{schema}.t"


def rows(server: PostgresServer, schema: str, order: str = "1") -> list[tuple[Any, ...]]:
    return server.rows(f"SELECT * FROM {schema}.t ORDER BY {order}")


def staged(server: PostgresServer, schema: str) -> list[str]:
    query = f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' AND tablename LIKE 'penstock_staged_%'"
    return [name for (name,) in server.rows(query)]


@pytest.mark.parametrize("key", [(), ("id",)])
def test_sink_passes_the_contract(server: PostgresServer, schema: str, key: tuple[str, ...]) -> None:
    records = [{"id": n, "word": f"w{n}\t\\N"} for n in range(30)]

    def make() -> SinkUnderTest:
        server.run(f"DROP TABLE IF EXISTS {schema}.t, {schema}.penstock_commits")
        for name in staged(server, schema):
            server.run(f"DROP TABLE {schema}.{name}")
        table(server, schema, "id int PRIMARY KEY, word text" if key else "id int, word text")

        def read() -> list[dict[str, Any]]:
            return [{"id": n, "word": word} for n, word in rows(server, schema)]

        def lose() -> None:
            for name in staged(server, schema):
                server.run(f"DROP TABLE {schema}.{name}")

        return SinkUnderTest(sink_of(server, f"{schema}.t", *key), read, lose)

    SinkContract(make, records).check_all()


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
@pytest.mark.parametrize("key", [(), ("plain",), ("precise", "zoned")])
def test_times_with_a_zone_are_utc_in_columns_without_one(
    server: PostgresServer, schema: str, guarantee: DeliveryGuarantee, key: tuple[str, ...]
) -> None:
    index = f", UNIQUE ({', '.join(key)})" if key else ""
    kinds = "plain timestamp NOT NULL, precise timestamp(3) NOT NULL, zoned timestamptz NOT NULL"
    name = table(server, schema, f"{kinds}, day date{index}")
    utc, east = datetime.UTC, datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    moment = datetime.datetime(2026, 11, 23, 1, 2, 3, 4000, utc).replace(tzinfo=None)
    moments = [
        moment,
        moment.replace(tzinfo=utc).astimezone(east),
        (moment + datetime.timedelta(1)).replace(tzinfo=utc),
    ]
    run = SinkRun(sink_of(server, name, *key, guarantee=guarantee))
    records = [{"plain": one, "precise": one, "zoned": one, "day": moment.date()} for one in moments]
    prepared = run.epoch(records, end_of_input=True)
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        run.commit(prepared)
    days = (0, 1) if key else (0, 0, 1)  # the first two are one moment
    expected = [moment + datetime.timedelta(day) for day in days]
    found = rows(server, schema)
    assert [(plain, precise) for plain, precise, _, _ in found] == [(one, one) for one in expected]
    assert [zoned.astimezone(utc).replace(tzinfo=None) for _, _, zoned, _ in found] == expected


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
@pytest.mark.parametrize("kind", [kind for kind in RowKind if kind is not RowKind.INSERT])
def test_rows_that_change_others_are_refused_without_a_key_by_which_these_are_found(
    server: PostgresServer, schema: str, kind: RowKind, guarantee: DeliveryGuarantee
) -> None:
    run = SinkRun(sink_of(server, table(server, schema), guarantee=guarantee))
    change = Row(id=1, word="x")
    change.set_row_kind(kind)
    with pytest.raises(RecordValueError, match=rf"it is of kind {kind.name}, .*\(set_key_columns\)"):
        run.epoch([{"id": 0, "word": "a"}, Row(1, "b"), change])
    run.close()
    assert rows(server, schema) == []


def test_staged_tables_of_void_attempts_are_dropped_with_the_first_commit_and_at_the_end(
    server: PostgresServer, schema: str
) -> None:
    sink = sink_of(server, table(server, schema))
    run = SinkRun(sink)
    run.void_epoch([(1, "void")])
    run.commit(run.epoch([(2, "counts")]))
    assert staged(server, schema) == []
    assert rows(server, schema) == [(2, "counts")]
    run.close()


VALUES: dict[str, list[Any]] = {
    "smallint": [1, -32768, None],
    "bigint": [2**63 - 1, -(2**63)],
    "numeric": [decimal.Decimal("1234567890.0123456789"), decimal.Decimal("NaN")],
    "real": [0.5, float("inf")],
    "double precision": [0.1, -1e300],
    "boolean": [True, False, None],
    "text": ["", "tab\tline\nreturn\r back\\slash \\N ünï 𝄞", "\\."],
    "varchar(5)": ["abcde"],
    "bytea": [b"", bytes(range(256))],
    "date": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    "time": [datetime.time(23, 59, 59, 999999)],
    "timestamp": [datetime.datetime(2024, 2, 29, 12, 0, 0, 1)],  # noqa: DTZ001 - without a zone, as the column
    "timestamptz": [datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)],
    "interval": [datetime.timedelta(days=3, microseconds=1)],
    "uuid": [uuid.UUID(int=7)],
    "json": [{"a": [1, None]}, "text", 1.5, True, [], None],
    "jsonb": [{"a": {"b": "c"}}, "null"],
    "int[]": [[], [1, None, 3], [[1, 2], [3, 4]]],
    "text[]": [["a,b", '"', "NULL", None, ""]],
    "inet": ["10.0.0.1/32"],
    "mood": ["sad", "glad"],
    "age": [7],
}


def test_values_of_all_types_come_back_as_they_were(server: PostgresServer, schema: str) -> None:
    server.run(
        f"CREATE TYPE {schema}.mood AS ENUM ('sad', 'glad')", f"CREATE DOMAIN {schema}.age AS int CHECK (VALUE > 0)"
    )
    own = {"mood": f"{schema}.mood", "age": f"{schema}.age"}
    columns = [f'"c{place}" {own.get(kind, kind)}' for place, kind in enumerate(VALUES)]
    name = table(server, schema, f"id serial PRIMARY KEY, {', '.join(columns)}")
    names = [f"c{place}" for place in range(len(VALUES))]
    longest = max(map(len, VALUES.values()))
    records = [
        {
            key: values[place] if place < len(values) else None
            for key, values in zip(names, VALUES.values(), strict=True)
        }
        for place in range(longest)
    ]
    run = SinkRun(sink_of(server, name, columns=names))
    run.commit(run.epoch(records, end_of_input=True))
    source = PostgresSource.builder().set_url(server.url).set_table(name).set_columns(*names).build()
    found = SourceRun(source).run_to_end()
    inet = names[list(VALUES).index("inet")]
    for record in found:
        record[inet] = None if record[inet] is None else f"{record[inet]}/32"
    assert [repr(record) for record in found] == [repr(record) for record in records]


def test_last_record_of_a_key_counts_and_rows_delete(server: PostgresServer, schema: str) -> None:
    sink = sink_of(server, table(server, schema), "id")
    run = SinkRun(sink)
    gone = Row(id=1, word="x")
    gone.set_row_kind(RowKind.DELETE)
    before = Row(2, "old")
    before.set_row_kind(RowKind.UPDATE_BEFORE)
    run.commit(run.epoch([{"id": 1, "word": "a"}, (2, "b"), (2, "c"), [3, "d"]]))
    run.commit(run.epoch([gone, before, Row(4, "e"), (5, "f")]))
    assert rows(server, schema) == [(2, "c"), (3, "d"), (4, "e"), (5, "f")]
    changes = [
        PostgresChange("update", "a.b", {"id": 4}, {"id": 6, "word": "moved"}, key_changed=True),
        PostgresChange("delete", "a.b", {"id": 5}),
        PostgresChange("insert", "a.b", after={"id": 5, "word": "again"}),
    ]
    run.commit(run.epoch(changes, end_of_input=True))
    assert rows(server, schema) == [(2, "c"), (3, "d"), (5, "again"), (6, "moved")]


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "a field without a column": ({"id": 1, "wrd": "x"}, RecordFieldError, "'wrd'.*it has id, word"),
    "too few values": ((1,), RecordValueError, "no tuple with a value for each column"),
    "no record": (7, RecordValueError, "no tuple"),
    "no form": ({"id": object(), "word": "x"}, RecordValueError, "it is of type object, and not a whole number"),
    "a NUL": ({"id": 1, "word": "a\0b"}, RecordValueError, "NUL"),
    "another type": ({"id": "seven", "word": "x"}, RecordValueError, "the text 'seven' is not a whole number"),
    "a surrogate": ({"id": 1, "word": "\ud800"}, RecordValueError, "one half of a surrogate pair"),
    "no key": ({"word": "x"}, RecordValueError, 'null value in column "id" of relation s.*violates not-null'),
    "too long": ({"id": 2**31, "word": "x"}, RecordValueError, "'id' .*out of range for type integer"),
    "a truncate": (PostgresChange("truncate", "a.b"), RecordFieldError, "'op'|no column"),
}


@pytest.mark.parametrize("case", [name for name in BAD if name != "a truncate"])
def test_record_that_does_not_fit_is_an_error_and_nothing_is_written(
    server: PostgresServer, schema: str, case: str
) -> None:
    record, error, message = BAD[case]
    writer_run = SinkRun(sink_of(server, table(server, schema)))
    with pytest.raises(error, match=message):
        writer_run.epoch([record])
    writer_run.close()
    assert rows(server, schema) == staged(server, schema) == []


def test_truncate_and_unsent_values_are_not_written(server: PostgresServer, schema: str) -> None:
    for change, message in (
        (PostgresChange("truncate", "a.b"), "it has no key"),
        (PostgresChange("update", "a.b", None, {"id": 1}, ("word",)), "REPLICA IDENTITY FULL for a.b"),
    ):
        server.run(f"DROP TABLE IF EXISTS {schema}.t")
        run = SinkRun(sink_of(server, table(server, schema), "id"))
        with pytest.raises(RecordValueError, match=message):
            run.epoch([change])
        run.close()


@pytest.mark.parametrize(
    ("columns", "key", "message"),
    [
        ("id int", ("id",), "no unique index"),
        ("id int PRIMARY KEY, a int", ("a",), "no unique index"),
        ("", (), "none of that name"),
    ],
)
def test_table_that_cannot_be_written_is_an_error_before_the_job_begins(
    server: PostgresServer, schema: str, columns: str, key: tuple[str, ...], message: str
) -> None:
    from penstock.testing.connector_contexts import TestCommitterContext

    name = table(server, schema, columns) if columns else f"{schema}.u"
    with pytest.raises(TableError, match=message):
        sink_of(server, name, *key).create_committer(TestCommitterContext("f" * 32))


def test_lost_staging_is_told_from_published_also_after_a_restart(server: PostgresServer, schema: str) -> None:
    run = SinkRun(sink_of(server, table(server, schema)))
    first, second = run.epoch([(1, "a")]), run.epoch([(2, "b")])
    run.commit(first)
    run.commit(first, may_be_committed=True)
    for name in staged(server, schema):
        server.run(f"DROP TABLE {schema}.{name}")
    with pytest.raises(LostCommittableError, match="in which its rows were staged is gone"):
        run.commit(second, may_be_committed=True)
    assert rows(server, schema) == [(1, "a")]
    run.close()


def test_commit_whose_note_is_out_of_date_counts_as_done_where_it_may_be(
    server: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "_KEPT_DAYS", -1)
    sink = sink_of(server, table(server, schema))
    run = SinkRun(sink)
    first = run.epoch([(1, "a")])
    run.commit(first)
    run.close()  # notes go that are out of date
    assert server.rows(f"SELECT * FROM {schema}.penstock_commits") == []
    again = SinkRun(sink)
    again.commit(first, may_be_committed=True)
    with pytest.raises(LostCommittableError, match="in which its rows were staged is gone"):
        again.commit(first)
    assert rows(server, schema) == [(1, "a")]
    again.close()


@pytest.mark.behaviour(124)
@pytest.mark.parametrize("step", range(6))
@pytest.mark.parametrize("is_done", [False, True])
def test_commit_that_breaks_off_at_any_statement_is_repeated_without_a_trace(
    server: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch, step: int, is_done: bool
) -> None:
    from penstock._connectors.postgres import committer

    run = SinkRun(sink_of(server, table(server, schema), "id"), 2)
    checkpoint = run.epoch([(1, "a")], [(2, "b")])
    done, real = [0], committer.run

    def breaking(connection: Any, statement: str, parameters: Any = ()) -> Any:
        done[0] += 1
        cut = done[0] == step + 3  # after those of its start
        if cut and not is_done:
            server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock'")
        result = real(connection, statement, parameters)
        if cut and is_done:
            connection.close()
            raise psycopg.OperationalError
        return result

    monkeypatch.setattr(committer, "run", breaking)
    run.commit(checkpoint)
    run.commit(checkpoint, may_be_committed=True)
    run.close()
    assert rows(server, schema) == [(1, "a"), (2, "b")]


def test_answer_to_a_commit_that_is_lost_makes_no_row_twice(
    server: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SinkRun(sink_of(server, table(server, schema, "id int, word text")))
    checkpoint = run.epoch([(1, "a")])
    ended: Callable[..., Any] = psycopg.Transaction.__exit__
    lost: list[int] = []

    def losing(self: Any, *error: Any) -> Any:
        answer = ended(self, *error)
        if not lost:
            lost.append(1)
            raise psycopg.OperationalError
        return answer

    monkeypatch.setattr(psycopg.Transaction, "__exit__", losing)
    run.commit(checkpoint)
    run.close()
    assert lost
    assert rows(server, schema) == [(1, "a")]


def test_at_least_once_writes_at_once_and_repeats_a_block_whose_connection_is_lost(
    server: PostgresServer, schema: str
) -> None:
    for key in ((), ("id",)):
        server.run(f"DROP TABLE IF EXISTS {schema}.t")
        sink = sink_of(server, table(server, schema), *key, guarantee=DeliveryGuarantee.AT_LEAST_ONCE)
        run = SinkRun(sink)
        run.epoch([(1, "a")])
        server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock'")
        run.epoch([(2, "b")])
        run.close()
        assert rows(server, schema) == [(1, "a"), (2, "b")]


def test_columns_that_the_server_gives_are_written_only_by_name_and_names_may_have_any_signs(
    server: PostgresServer, schema: str
) -> None:
    given = (
        'id int GENERATED ALWAYS AS IDENTITY, "a ""%s" int UNIQUE NOT NULL, '
        "twice int GENERATED ALWAYS AS (id * 2) STORED"
    )
    server.run(f'CREATE SCHEMA "{schema} ""%"', f'CREATE TABLE "{schema} ""%"."t \'%" ({given})')
    name = f'"{schema} ""%"."t \'%"'
    for key in ((), ('a "%s',)):
        run = SinkRun(sink_of(server, name, *key))
        run.commit(run.epoch([{'a "%s': 10 + len(key)}]))
        run.close()
    run = SinkRun(sink_of(server, name, 'a "%s', columns=("id", 'a "%s')))
    run.commit(run.epoch([(7, 12)], end_of_input=True))
    assert server.rows(f"SELECT * FROM {name} ORDER BY 2") == [(1, 10, 2), (2, 11, 4), (7, 12, 14)]
    server.run(f'DROP SCHEMA "{schema} ""%" CASCADE')


def test_two_jobs_that_write_the_same_keys_in_other_orders_wait_for_each_other(
    server: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_of(server, table(server, schema), "id")
    both, publish, firsts = threading.Barrier(2, timeout=60), Publisher.publish, threading.local()

    def meeting(self: Publisher, *staged: Any) -> None:
        publish(self, *staged)
        if not hasattr(firsts, "met"):  # each has now changed one row, and wants the one of the other
            firsts.met = True
            both.wait()

    monkeypatch.setattr(Publisher, "publish", meeting)
    runs = [SinkRun(sink, 2, job_id=job_id) for job_id in ("a" * 32, "b" * 32)]
    checkpoints = [
        run.epoch([(first, word)], [(second, word)])
        for run, first, second, word in zip(runs, (1, 2), (2, 1), ("a", "b"), strict=True)
    ]
    threads = [
        threading.Thread(target=run.commit, args=(checkpoint,))
        for run, checkpoint in zip(runs, checkpoints, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = rows(server, schema)
    assert [key for key, _ in found] == [1, 2]
    assert len({word for _, word in found}) == 1, "a mixture of two checkpoints"
    assert server.rows(f"SELECT count(*) FROM {schema}.penstock_commits") == [(4,)]
    for run in runs:
        run.close()
    assert staged(server, schema) == []
