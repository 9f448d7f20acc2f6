"""What the sinks write: each record as a line of text, with the names and the weather that belong to it.

The tables of names and weather are small, so each task loads them once, in `open()`; what travels to the tasks is the
path of their folder.
"""

import csv
import io
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from penstock._demo.records import Alert, Hour
from penstock.common import Row
from penstock.datastream import MapFunction, RuntimeContext

HOURLY_COLUMNS = ["hour", "origin", "departures", "delay_minutes", "mean_delay", "precipitation"]
ALERT_COLUMNS = ["scheduled", "tailnum", "flight", "delay_1", "delay_2", "delay_3", "flown", "airline", "aircraft"]


class HourlyLine(MapFunction):
    """Adds the inches of rain or snow that fell on the airport in that hour; empty where nobody measured."""

    def __init__(self, reference: Path) -> None:
        self.reference = reference

    def open(self, runtime_context: RuntimeContext) -> None:
        weather = read_columns(self.reference / "weather.parquet", "origin", "hour_ms", "precip")
        self.precipitation = {(origin, hour): inches for origin, hour, inches in weather}

    def map(self, value: Hour) -> str:
        start_ms, origin, departures, delay = value
        inches = self.precipitation.get((origin, start_ms), "")
        return csv_line(utc(start_ms), origin, departures, delay, f"{delay / departures:.2f}", inches)


class AlertLine(MapFunction):
    """Adds the airline's name and the aircraft's make; every sixth aircraft is not in the table."""

    def __init__(self, reference: Path) -> None:
        self.reference = reference

    def open(self, runtime_context: RuntimeContext) -> None:
        planes = read_columns(self.reference / "planes.parquet", "tailnum", "manufacturer", "model")
        self.aircraft = {tailnum: f"{manufacturer} {model}" for tailnum, manufacturer, model in planes}
        self.airlines = load_airlines(self.reference)

    def map(self, value: Alert) -> str:
        newest = value.departures[-1]
        delays = [departure.delay for departure in value.departures]
        names = self.airlines[newest.carrier], self.aircraft.get(value.tailnum, "")
        flight = f"{newest.carrier}{newest.flight}"
        return csv_line(utc(newest.scheduled_ms), value.tailnum, flight, *delays, value.flown, *names)


class CancelledLine(MapFunction):
    """Adds the airline's name."""

    def __init__(self, reference: Path) -> None:
        self.reference = reference

    def open(self, runtime_context: RuntimeContext) -> None:
        self.airlines = load_airlines(self.reference)

    def map(self, value: Row) -> str:
        cancelled = {
            "scheduled": utc(value.scheduled_ms),
            "flight": f"{value.carrier}{value.flight}",
            "airline": self.airlines[value.carrier],
            "from": value.origin,
            "to": value.dest,
            "tailnum": value.tailnum,
        }
        return json.dumps(cancelled)


def load_airlines(reference: Path) -> dict[str, str]:
    return dict(read_columns(reference / "airlines.parquet", "carrier", "name"))


def read_columns(file: Path, *names: str) -> Iterable[tuple]:
    table = pq.read_table(file, columns=list(names))
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def utc(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%MZ")


def csv_line(*fields: object) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()
