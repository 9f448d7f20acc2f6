"""Random lives of a sink and a source whose table is changed: each ends right, or with an error that names it."""

from __future__ import annotations

import os
import random
import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.kit.source_lives import live
from tests.postgres import test_source
from tests.postgres.changing import epoch, numbers, run_until, source_of
from tests.postgres.test_sink import sink_of, table
from tests.postgres.test_sources_that_change import BETWEEN
from tests.postgres.test_tables_that_change import Life, ends

from penstock.errors import PenstockError
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.postgres

LIVES = int(os.environ.get("PENSTOCK_TEST_LIVES", "4"))
LIVES_OF_SOURCES = int(os.environ.get("PENSTOCK_TEST_LIVES", "2"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "17"))
#: Changes, and what becomes of the words that are in the table: they stay, they are gone, or the rows are.
CHANGES = {
    "ALTER TABLE {t} ADD COLUMN more{n} int": "stay",
    "ALTER TABLE {t} ALTER COLUMN id TYPE bigint": "stay",
    "ALTER TABLE {t} ALTER COLUMN word TYPE varchar": "stay",
    "ALTER TABLE {t} ADD CHECK (id >= 0)": "stay",
    "ALTER TABLE {t} ADD CHECK (id % 5 > 0) NOT VALID": "stay",
    "ALTER TABLE {t} RENAME COLUMN word TO word{n}": "stay",
    "ALTER TABLE {t} DROP COLUMN word, ADD COLUMN word text": "gone",
    "TRUNCATE {t}": "none",
    "DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY, word text)": "none",
}


@pytest.mark.parametrize("seed", range(LIVES))
def test_life_ends_right_or_with_an_error_that_names_the_change(server: PostgresServer, schema: str, seed: int) -> None:
    draw = random.Random(f"{SEED} {seed}")
    name = table(server, schema)
    life = Life(server, sink_of(server, name, "id"))
    expected: dict[int, str | None] = {}
    staged: list[tuple[int, list[Any]]] = []
    error = None
    for number in range(1, 25):
        step = draw.choice(["stage", "stage", "commit", "commit", "change", "start"])
        if step == "stage":
            error = ends(lambda: staged.append((number, life.stage({"id": number, "word": f"w{number}"}))))  # noqa: B023
        elif step == "commit" and staged:
            done, requests = staged.pop(0)
            error = ends(lambda: life.commit(requests))  # noqa: B023
            if error is None:
                expected[done] = f"w{done}"
        elif step == "change":
            change = draw.choice(list(CHANGES))
            try:
                server.run(*change.format(t=name, n=number).split("; "))
            except psycopg.errors.UndefinedColumn:  # it was renamed
                continue
            left = {"stay": expected, "gone": dict.fromkeys(expected), "none": {}}
            expected = left[CHANGES[change]]
        elif step == "start":
            error = ends(life.start_again)
        if error is not None:
            break
    life.committer.close()
    column = server.rows(
        f"SELECT attname FROM pg_attribute WHERE attrelid = '{name}'::regclass AND attname LIKE 'word%' AND attnum > 0"
    )[0][0]
    found = dict(server.rows(f"SELECT id, {column} FROM {name}"))
    assert found == expected, error
    assert (error or "TableError: ").startswith(
        ("TableError: ", "DatabaseError: ", "RecordFieldError: ", "RecordValueError: ")
    ), error


#: Changes of a table that is followed, and what an error about them says; those without one are followed.
FOLLOWED = {
    "ALTER TABLE {t} ADD COLUMN more{n} int": "",
    "ALTER TABLE {t} RENAME COLUMN word TO word{n}": "",
    "ALTER TABLE {t} ALTER COLUMN word TYPE varchar": "",
    "ALTER TABLE {t} REPLICA IDENTITY FULL": "",
    "TRUNCATE {t}": "",
    "ALTER TABLE {t} ALTER COLUMN id TYPE bigint": "its key was id integer",
    "ALTER TABLE {t} DROP CONSTRAINT t_pkey; ALTER TABLE {t} ADD PRIMARY KEY (id)": "",
    "DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY, word text)": "made anew",
    "ALTER TABLE {t} RENAME TO old{n}; CREATE TABLE {t} (LIKE {s}.old{n} INCLUDING ALL)": "made anew",
    "ALTER PUBLICATION {s}_slot DROP TABLE {t}": "does not have it",
    "ALTER PUBLICATION {s}_slot SET (publish = 'delete')": "leaves changes of it out",
    "DROP PUBLICATION {s}_slot": "is gone",
}


@pytest.mark.parametrize("seed", range(LIVES_OF_SOURCES))
def test_life_of_a_source_gives_each_row_once_or_ends_with_an_error_that_names_the_change(
    server: PostgresServer, schema: str, seed: int
) -> None:
    draw = random.Random(f"{SEED} {seed} source")
    numbers(server, schema, 3)
    run = SourceRun(source_of(server, schema))
    run_until(run, epochs=5, polls=3, records=3)
    wanted, found, says, told = {1, 2, 3}, list[int](), "", ""
    changed = draw.randrange(2, 9)
    try:
        for number in range(10, 20):
            if number - 10 == changed:
                change = draw.choice(list(FOLLOWED))
                says = FOLLOWED[change]
                server.run(*change.format(t=f"{schema}.t", s=schema, n=number).split("; "))
            if draw.random() < 0.7:
                server.run(f"INSERT INTO {schema}.t VALUES ({number}, 'new')")
                wanted.add(number)
            checkpoint = epoch(run, 3)
            if draw.random() < 0.3:
                found += ids(run)
                run.close()
                run = SourceRun(source_of(server, schema), 1, checkpoint)
        run_until(run, epochs=8, polls=3, records=len(wanted) - len(found))
    except PenstockError as error:
        told = str(error)
    found += ids(run)
    run.close()
    note = f"PENSTOCK_TEST_SEED={SEED}, life {seed}: {told}"
    check_read(found, wanted, told, [says], note)
    assert set(found) <= wanted, note


def check_read(found: list[int], wanted: set[int], told: str | None, says: list[str], note: str) -> None:
    """Check that each row was read once: all that are wanted, unless an error tells of one of the changes."""
    assert len(set(found)) == len(found), note
    if told:
        assert any(one and re.search(one, told) for one in says), note
    else:
        assert set(found) >= wanted, note


def ids(run: SourceRun) -> list[int]:
    """Return the ids of the rows that a source has read or seen inserted."""
    return [change.after["id"] for change in run.records if change.op in {"read", "insert"}]


#: Changes of a table that is read once, and what an error after them says; rows that are deleted may still be read.
READ: dict[str, str] = {
    **{change: says if isinstance(says, str) else "" for change, says in BETWEEN.items()},
    "INSERT INTO {t} (id) SELECT 100 + count(*) FROM {t}": "",
    "DELETE FROM {t} WHERE id % 3 = 0": "",
    "UPDATE {t} SET id = id WHERE id % 3 = 1": "",
    "TRUNCATE {t}": "",
    "ALTER TABLE {t} ADD CHECK (id >= 0)": "",
}


@pytest.mark.parametrize("seed", range(LIVES_OF_SOURCES))
def test_life_of_a_bounded_source_gives_each_row_once_or_ends_with_an_error_that_names_the_change(
    server: PostgresServer, schema: str, seed: int
) -> None:
    draw = random.Random(f"{SEED} {seed} bounded")
    name = test_source.numbers(server, schema)
    read, made, there = list[dict[str, Any]](), list[str](), {n: f"w{n}" for n in range(1, 51)}

    def change() -> None:
        """Change the table, unless the run that reads it does not let it be changed."""
        chosen = draw.choice(list(READ))
        try:
            with server.connect(options="-c lock_timeout=50ms") as connection, connection.transaction():
                for statement in chosen.format(t=name).split("; "):
                    connection.execute(statement.encode())
        except psycopg.Error:  # it is locked, or was changed before
            return
        made.append(chosen)

    def source() -> Any:
        return test_source.source_of(server, name)

    told = ends(lambda: live(draw, source, change, read, polls=4, first=1, between=0.8))
    found = [row["id"] for row in read]
    note = f"PENSTOCK_TEST_SEED={SEED}, life {seed}, {made}: {told}"
    are_deleted = any(one.startswith(("DELETE", "TRUNCATE")) for one in made)
    check_read(found, set() if are_deleted else set(there), told, [READ[one] for one in made], note)
    assert {row["id"]: row.get("word") for row in read if row["id"] in there}.items() <= there.items(), note
