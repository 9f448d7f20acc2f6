"""The change stream has each row once and each change once, whatever is written while the rows are read."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.postgres.changing import epoch, numbers, run_until, source_of

from penstock.testing.source_contract import SourceContract, SourceRun

if TYPE_CHECKING:
    from tests.services.postgres import PostgresServer

    from penstock.datastream.connectors.postgres import PostgresChange

pytestmark = pytest.mark.postgres


class Copy:
    """A copy of tables, kept by changes alone: each must fit what is there."""

    def __init__(self, *key: str) -> None:
        self._key = key or ("id",)
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}

    def _of(self, row: dict[str, Any] | None) -> tuple[Any, ...]:
        assert row is not None
        return tuple(row[name] for name in self._key)

    def apply(self, *changes: PostgresChange) -> None:
        for change in changes:
            if change.op == "truncate":
                self.rows.clear()
                continue
            if change.op in ("read", "insert"):
                assert self._of(change.after) not in self.rows, f"twice: {change}"
            elif change.op == "update":
                at = change.before if change.key_changed else change.after
                old = self.rows.pop(self._of(at))
                assert change.after is not None
                assert change.before is None or change.before == {name: old[name] for name in change.before}, change
                change.after.update({name: old[name] for name in change.unchanged})
            else:
                del self.rows[self._of(change.before)]
            if change.after is not None:
                self.rows[self._of(change.after)] = change.after


def test_stream_of_a_bounded_source_passes_the_contract(server: PostgresServer, schema: str) -> None:
    numbers(server, schema)
    server.run("SELECT 1")

    class Plain(SourceContract):
        def _same(self, records: list[Any], when: str) -> None:
            super()._same([record.after for record in records], when)

    def make() -> Any:
        return source_of(server, schema, bounded=True)

    Plain(make, [{"id": n, "word": f"w{n}"} for n in range(1, 41)]).check_all()


def take_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ranges be found, and changes be fetched, in several steps."""
    monkeypatch.setattr("penstock._connectors.postgres.change_enumerator._RANGES_IN_A_STEP", 2)
    monkeypatch.setattr("penstock._connectors.postgres.change_stream._FETCHED", 3)


def test_changes_meet_the_rows_of_each_range_at_its_own_moment(
    server: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_few_at_a_time(monkeypatch)
    numbers(server, schema)
    server.run(f"ALTER TABLE {schema}.t REPLICA IDENTITY FULL")
    run, copy = SourceRun(source_of(server, schema)), Copy()
    for _ in range(12):  # each range has exactly as many rows as a page
        epoch(run, 1)
        server.run(f"UPDATE {schema}.t SET word = word || 'x' WHERE id % 10 IN (0, 1)")
    run_until(run, epochs=5)
    copy.apply(*run.records)
    assert sorted(row["word"] for row in copy.rows.values()) == sorted(
        word for (word,) in server.rows(f"SELECT word FROM {schema}.t")
    )
    run.close()


def test_rows_come_first_and_then_each_change(server: PostgresServer, schema: str) -> None:
    numbers(server, schema, 3)
    run = SourceRun(source_of(server, schema), 2)
    run_until(run, epochs=8, polls=2)
    assert sorted(change.after["id"] for change in run.records) == [1, 2, 3]
    server.run(
        f"INSERT INTO {schema}.t VALUES (4, 'd')",
        f"UPDATE {schema}.t SET word = 'a' WHERE id = 1",
        f"UPDATE {schema}.t SET id = 9 WHERE id = 2",
        f"DELETE FROM {schema}.t WHERE id = 3",
        f"TRUNCATE {schema}.t",
    )
    run_until(run, epochs=10, polls=2, records=8)
    seen = [(change.op, change.before, change.after, change.key_changed) for change in run.records[3:]]
    assert seen == [
        ("insert", None, {"id": 4, "word": "d"}, False),
        ("update", None, {"id": 1, "word": "a"}, False),
        ("update", {"id": 2}, {"id": 9, "word": "w2"}, True),
        ("delete", {"id": 3}, None, False),
        ("truncate", None, None, False),
    ]
    assert {change.table for change in run.records} == {f"{schema}.t"}
    lsns = [change.lsn for change in run.records[3:]]
    assert lsns == sorted(set(lsns))
    run.close()


def dml(server: PostgresServer, table: str, dice: random.Random) -> None:
    """Change some random rows of a table in one transaction, or in one that fails."""
    with server.connect() as connection:
        connection.execute("BEGIN")
        for _ in range(dice.randint(1, 4)):
            one, other = dice.randint(1, 60), dice.randint(1, 60)
            free = f"NOT EXISTS (SELECT 1 FROM {table} WHERE id = {other})"
            statements = (
                f"INSERT INTO {table} VALUES ({one}, 'i{other}') ON CONFLICT DO NOTHING",
                f"INSERT INTO {table} VALUES ({other}, 'j{one}') ON CONFLICT DO NOTHING",
                f"UPDATE {table} SET word = 'u{other}' WHERE id BETWEEN {one} AND {one + 2}",
                f"UPDATE {table} SET id = {other} WHERE id = {one} AND {free}",
                f"DELETE FROM {table} WHERE id = {one}",
            )
            connection.execute(dice.choice(statements).encode())
        connection.execute("ROLLBACK" if dice.random() < 0.15 else "COMMIT")


@pytest.mark.parametrize("seed", range(3))
def test_copy_equals_the_table_whatever_is_written_while_it_is_read(
    server: PostgresServer, schema: str, held: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)  # a seed of its own
    if seed != 1:
        take_few_at_a_time(monkeypatch)
    numbers(server, schema, dice.choice([0, 5, 40]))
    if seed % 2:
        server.run(f"ALTER TABLE {schema}.t REPLICA IDENTITY FULL")
    source = source_of(server, schema, fetch=dice.choice([1, 7, 1000]))
    run, copy = SourceRun(source, 2, keep_readers=dice.random() < 0.7), Copy()
    checkpoint = None
    for step in range(24):
        if step == 2:  # a transaction that begins before its range is read, and is committed after it
            assert server.rows(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{schema}_slot'")
            held.execute("BEGIN")
            held.execute(f"INSERT INTO {schema}.t VALUES (100, 'held')".encode())
        if step == 9:
            held.execute("COMMIT")
        if step < 18:
            dml(server, f"{schema}.t", dice)
        if step > 2 and dice.random() < 0.25:  # the epoch never counts: another run continues before it
            run.close()
            run = SourceRun(source, dice.choice([1, 2, 3]), checkpoint)
        before = len(run.records)
        checkpoint = epoch(run, dice.choice([1, 2, 5]))
        copy.apply(*run.records[before:])
    expected: dict[Any, Any] = {}
    for _ in range(60):
        before = len(run.records)
        epoch(run, 5)
        copy.apply(*run.records[before:])
        expected = {(row[0],): {"id": row[0], "word": row[1]} for row in server.rows(f"SELECT * FROM {schema}.t")}
        if copy.rows == expected:
            break
    assert copy.rows == expected
    run.close()
