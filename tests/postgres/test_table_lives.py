"""Random lives of a sink whose table is changed at random moments: each ends right, or with an error that names it."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.postgres.test_sink import sink_of, table
from tests.postgres.test_tables_that_change import Life, ends

if TYPE_CHECKING:
    from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.postgres

LIVES = int(os.environ.get("PENSTOCK_TEST_LIVES", "4"))
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
