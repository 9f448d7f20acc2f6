"""On real Spark: a job follows a table, and its sinks have each change once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.postgres.following_job import environment, followed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.services.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.usefixtures("spark")]
#: Longest wait for what the job does; a busy machine is slow.
PATIENCE_S = 120


def test_job_on_spark_follows_a_table_from_its_rows_through_a_crash_of_the_server(
    server: PostgresServer, schema: str, tmp_path: Path
) -> None:
    server.run(
        f"CREATE TABLE {schema}.a (id int PRIMARY KEY, word bigint)",
        f"INSERT INTO {schema}.a SELECT n, n FROM generate_series(1, 100) n",
        f"CREATE TABLE {schema}.b (id int PRIMARY KEY, word bigint)",
        f"CREATE TABLE {schema}.c (lsn bigint, op text, word bigint)",
    )
    env = environment(tmp_path)
    followed(env, server.url, schema)
    job = env.execute_async("following")

    def wait_for(rows: list[tuple[Any, ...]], table: str) -> None:
        deadline, found = time.monotonic() + PATIENCE_S, None
        while found != rows:
            assert time.monotonic() < deadline, (found, job.get_job_status().result())
            time.sleep(0.1)
            found = server.rows(f"SELECT * FROM {schema}.{table} ORDER BY 1")

    try:
        wait_for([(n, n) for n in range(1, 101)], "b")
        server.run(f"UPDATE {schema}.a SET word = 200 WHERE id = 2")
        server.restart()
        server.run(f"INSERT INTO {schema}.a VALUES (300, 300)")
        wait_for([*((n, 200 if n == 2 else n) for n in range(1, 101)), (300, 300)], "b")
    finally:
        job.cancel().result()
    noted = server.rows(f"SELECT op, word FROM {schema}.c ORDER BY lsn")
    assert noted == [("update", 200), ("insert", 300)]
