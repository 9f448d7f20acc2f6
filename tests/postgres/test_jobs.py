"""Whole jobs from table to table: faults of tasks, a server that crashes, and secrets that are in no text."""

from __future__ import annotations

import re
import runpy
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.without_spark import Cluster

from penstock.common import Configuration, Duration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.postgres import PostgresSink, PostgresSource
from penstock.testing.in_process import Chaos

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.postgres
PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"
PASSWORD = "Kx7-planted-9f3c"


def environment(place: Path) -> StreamExecutionEnvironment:
    settings = {
        "execution.checkpointing.dir": str(place / "checkpoints"),
        "execution.checkpointing.interval": "200 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "50",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    return env.set_parallelism(2)


def copy(
    env: StreamExecutionEnvironment, server: PostgresServer, schema: str, work: Callable[[Any], Any] | None = None
) -> Any:
    """Make a job that copies a table."""
    source = PostgresSource.builder().set_url(server.url).set_password(PASSWORD).set_table(f"{schema}.a")
    sink = PostgresSink.builder().set_url(server.url).set_password(PASSWORD).set_table(f"{schema}.b")
    sink.set_connect_timeout(Duration.of_seconds(20))
    stream = env.from_source(
        source.set_split_size(100).set_fetch_size(40).build(), WatermarkStrategy.no_watermarks(), "a"
    )
    (stream if work is None else stream.map(work)).sink_to(sink.build()).uid("b")
    return env


def tables(server: PostgresServer, schema: str, count: int) -> list[tuple[Any, ...]]:
    server.run(
        f"CREATE TABLE {schema}.a (id int PRIMARY KEY, word text)",
        f"CREATE TABLE {schema}.b (id int, word text)",
        f"INSERT INTO {schema}.a SELECT n, 'w' || n FROM generate_series(1, {count}) n",
    )
    return server.rows(f"SELECT * FROM {schema}.a ORDER BY 1")


@pytest.mark.parametrize("seed", range(2))
def test_table_is_copied_once_though_tasks_run_twice_and_are_lost(
    server: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    Cluster(tmp_path, chaos=Chaos(0.2, 0.1, 0.1), seed=seed).patch(monkeypatch)
    expected = tables(server, schema, 1_000)
    copy(environment(tmp_path), server, schema).execute("copy")
    assert server.rows(f"SELECT * FROM {schema}.b ORDER BY 1") == expected
    names = server.rows(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' ORDER BY 1")
    assert [name for (name,) in names if not name.startswith("penstock_staged")] == ["a", "b", "penstock_commits"]


def test_server_that_crashes_in_mid_epoch_costs_nothing_and_no_text_has_the_password(
    server: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    Cluster(tmp_path).patch(monkeypatch)
    expected = tables(server, schema, 600)
    asked, done = tmp_path / "asked", tmp_path / "done"

    def work(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 350 and not asked.exists():
            asked.touch()
            while not done.exists():
                time.sleep(0.01)
        return row

    def crash() -> None:
        while not asked.exists():
            time.sleep(0.01)
        server.restart()
        done.touch()

    crashing = threading.Thread(target=crash)
    crashing.start()
    env = copy(environment(tmp_path), server, schema, work)
    plan = env.get_execution_plan()
    env.execute("copy")
    crashing.join()
    assert server.rows(f"SELECT * FROM {schema}.b ORDER BY 1") == expected
    assert PASSWORD not in caplog.text + plan
    stored = [path for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()]
    assert stored
    assert not [path for path in stored if PASSWORD.encode() in path.read_bytes()]


def test_example_of_the_page_runs(
    server: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(tmp_path).patch(monkeypatch)
    server.run(
        f"CREATE TABLE {schema}.orders (id int PRIMARY KEY, customer text, amount int)",
        f"CREATE TABLE {schema}.totals (customer text PRIMARY KEY, total bigint)",
        f"INSERT INTO {schema}.orders SELECT n, 'c' || n % 3, n FROM generate_series(1, 10) n",
    )
    program = tmp_path / "program.py"
    program.write_text(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0])
    monkeypatch.setenv("DATABASE_URL", f"{server.url}?options=-csearch_path%3D{schema}")
    runpy.run_path(str(program))
    assert server.rows(f"SELECT * FROM {schema}.totals ORDER BY 1") == [("c0", 18), ("c1", 22), ("c2", 15)]
