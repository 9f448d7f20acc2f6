"""Real kills: a job that follows a table gets SIGKILL, the server crashes, and nothing is lost or twice.

Two kills in ``make test``; the campaign kills twenty times.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.services.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.fault]
KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "2"))
ROOT = Path(__file__).parents[2]
#: Longest wait for a sign of life; a busy machine is slow.
PATIENCE_S = 120
ROWS = 100


class Life:
    """One process of the job; what is left of it behind a ``with`` is killed."""

    def __init__(self, directory: Path, url: str, schema: str) -> None:
        self.log, self._checkpoints = directory / "log", directory / "checkpoints"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.postgres.following_job", str(directory), url, schema],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def checkpoints(self) -> set[Path]:
        return set(self._checkpoints.glob("*/chk-*/_metadata"))

    def wait(self, until: Callable[[], Any]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            assert time.monotonic() < deadline, self.log.read_text()[-4000:]
            time.sleep(0.05)


class Writer(threading.Thread):
    """Changes the table, a row in each transaction, until it is stopped; a lost connection is made anew."""

    def __init__(self, server: PostgresServer, schema: str, seed: int) -> None:
        super().__init__()
        self._server, self._table, self._dice, self.stopped = server, f"{schema}.a", random.Random(seed), False
        #: Keys are changed only when the rows were read: of a change of which they show a half, the log has the other.
        self.moves = False

    def run(self) -> None:
        while not self.stopped:
            with contextlib.suppress(psycopg.Error), self._server.connect() as connection:
                while not self.stopped:
                    connection.execute(self._statement().encode())
                    time.sleep(0.01)

    def _statement(self) -> str:
        one, other, word = self._dice.randint(1, ROWS), self._dice.randint(1, ROWS), f"nextval('{self._table}_words')"
        free = f"NOT EXISTS (SELECT 1 FROM {self._table} WHERE id = {other})"
        statements = [
            f"INSERT INTO {self._table} VALUES ({one}, {word}) ON CONFLICT DO NOTHING",
            f"UPDATE {self._table} SET word = {word} WHERE id = {one}",
            f"DELETE FROM {self._table} WHERE id = {one}",
        ]
        if self.moves:
            statements.append(f"UPDATE {self._table} SET id = {other}, word = {word} WHERE id = {one} AND {free}")
        return self._dice.choice(statements)


@pytest.fixture
def writer(server: PostgresServer, schema: str) -> Iterator[Writer]:
    server.run(
        f"CREATE TABLE {schema}.a (id int PRIMARY KEY, word bigint)",
        f"ALTER TABLE {schema}.a REPLICA IDENTITY FULL",
        f"CREATE SEQUENCE {schema}.a_words",
        f"INSERT INTO {schema}.a SELECT n, nextval('{schema}.a_words') FROM generate_series(1, {ROWS}) n",
        f"CREATE TABLE {schema}.b (id int PRIMARY KEY, word bigint)",
        f"CREATE TABLE {schema}.c (lsn bigint, op text, word bigint)",
        # The truth: what was done to the table.
        f"CREATE TABLE {schema}.done (number bigserial, op text, word bigint)",
        f"CREATE FUNCTION {schema}.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO {schema}.done "
        "(op, word) VALUES (lower(TG_OP), CASE TG_OP WHEN 'DELETE' THEN OLD.word ELSE NEW.word END); "
        "RETURN NULL; END $$",
        f"CREATE TRIGGER noting AFTER INSERT OR UPDATE OR DELETE ON {schema}.a FOR EACH ROW "
        f"EXECUTE FUNCTION {schema}.note()",
    )
    thread = Writer(server, schema, int(os.environ.get("PENSTOCK_TEST_SEED", "17")))
    thread.start()
    yield thread
    thread.stopped = True
    thread.join()


def test_copy_and_log_of_a_table_are_right_after_kills_of_the_job_and_a_crash_of_the_server(
    server: PostgresServer, schema: str, writer: Writer, tmp_path: Path
) -> None:
    dice = random.Random(int(os.environ.get("PENSTOCK_TEST_SEED", "17")))
    first: list[int] = []

    def logged() -> bool:
        return server.rows(f"SELECT count(*) > 0 FROM {schema}.c") == [(True,)]

    for kill in range(KILLS):
        with Life(tmp_path, server.url, schema) as life:
            before = life.checkpoints()
            life.wait(lambda life=life, before=before: life.checkpoints() - before)
            if kill == KILLS - 1:
                life.wait(logged)
                first = [number for (number,) in server.rows(f"SELECT max(number) FROM {schema}.done")]
                writer.moves = True
                server.restart()
            time.sleep(dice.uniform(0, 1))
    with Life(tmp_path, server.url, schema) as life:
        time.sleep(dice.uniform(0, 1))
        writer.stopped = True
        writer.join()
        rows = server.rows(f"SELECT * FROM {schema}.a ORDER BY 1")
        done = Counter((op, word) for _, op, word in server.rows(f"SELECT * FROM {schema}.done"))
        after = server.rows(f"SELECT op, word FROM {schema}.done WHERE number > {first[0]}")
        # A word alone does not say that it is there: a row that is deleted had it since it was written.
        op, word = after[-1]
        life.wait(lambda: server.rows(f"SELECT 1 FROM {schema}.c WHERE op = '{op}' AND word = {word}"))
        life.wait(lambda: server.rows(f"SELECT * FROM {schema}.b ORDER BY 1") == rows)
    noted = server.rows(f"SELECT lsn, op, word FROM {schema}.c")
    assert len({lsn for lsn, _, _ in noted}) == len(noted), "twice"
    seen = Counter((op, word) for _, op, word in noted)
    assert not seen - done, "never done"
    assert not Counter(after) - seen, "lost"
