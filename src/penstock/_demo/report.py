"""Reads the files that the job wrote, and shows what they say: tables for the terminal, a page with a chart."""

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from penstock._demo.chart import line_chart, page
from penstock._demo.lines import ALERT_COLUMNS, HOURLY_COLUMNS

ORIGINS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
# New York's daylight saving time of 2013. Written down, because Windows and small images have no table of time zones.
SUMMER = datetime(2013, 3, 10, 7, tzinfo=UTC), datetime(2013, 11, 3, 6, tzinfo=UTC)


@dataclass
class Delay:
    """Departures and the minutes that they were late, all together."""

    departures: int = 0
    minutes: int = 0

    def add(self, departures: int, minutes: int) -> None:
        self.departures += departures
        self.minutes += minutes

    @property
    def mean(self) -> float:
        return self.minutes / self.departures if self.departures else 0.0


@dataclass
class Report:
    """What the three outputs say."""

    hours: dict[int, Delay] = field(default_factory=lambda: defaultdict(Delay))  # by local hour of the day
    hours_at: dict[tuple[int, str], Delay] = field(default_factory=lambda: defaultdict(Delay))
    wet: Delay = field(default_factory=Delay)
    dry: Delay = field(default_factory=Delay)
    alerts: list[dict[str, str]] = field(default_factory=list)
    cancelled: list[dict[str, str]] = field(default_factory=list)

    @property
    def total(self) -> Delay:
        return Delay(sum(d.departures for d in self.hours.values()), sum(d.minutes for d in self.hours.values()))


def read_report(results: Path) -> Report:
    report = Report()
    for row in csv.DictReader(read_lines(results / "hourly"), HOURLY_COLUMNS):
        departures, minutes = int(row["departures"]), int(row["delay_minutes"])
        hour = local_hour(row["hour"])
        report.hours[hour].add(departures, minutes)
        report.hours_at[hour, row["origin"]].add(departures, minutes)
        if row["precipitation"]:
            (report.wet if float(row["precipitation"]) > 0 else report.dry).add(departures, minutes)
    report.alerts = list(csv.DictReader(read_lines(results / "alerts"), ALERT_COLUMNS))
    report.cancelled = [json.loads(line) for line in read_lines(results / "cancelled")]
    return report


def read_lines(folder: Path) -> list[str]:
    """The lines of a sink's finished files; the names of unfinished ones start with a dot."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))
    return [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def local_hour(utc: str) -> int:
    moment = datetime.fromisoformat(utc)
    return (moment - timedelta(hours=4 if SUMMER[0] <= moment < SUMMER[1] else 5)).hour


def show(report: Report, console: Console) -> None:
    console.print(delay_table(report))
    console.print(aircraft_table(report))
    console.print(summary(report))


def summary(report: Report) -> str:
    airline, flights = Counter(row["airline"] for row in report.cancelled).most_common(1)[0]
    aircraft = len({row["tailnum"] for row in report.alerts})
    return (
        f"{report.total.departures:,} departures, {report.total.mean:.1f} minutes late on average: "
        f"{report.wet.mean:.1f} in hours with rain or snow, {report.dry.mean:.1f} in dry ones. "
        f"{len(report.alerts):,} alerts for {aircraft:,} aircraft. "
        f"{len(report.cancelled):,} flights were cancelled; {airline} alone cancelled {flights:,}."
    )


def delay_table(report: Report) -> Table:
    table = Table(title="Minutes late, by scheduled hour of departure", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("hour")
    table.add_column("departures", justify="right")
    table.add_column("all", justify="right")
    table.add_column("")
    for origin in ORIGINS:
        table.add_column(origin, justify="right")
    for hour in sorted(report.hours):
        delay = report.hours[hour]
        at = [report.hours_at[hour, origin] for origin in ORIGINS]
        means = [f"{one.mean:.1f}" if one.departures else "" for one in at]
        bar = (
            f"[{'red' if delay.mean >= 20 else 'yellow' if delay.mean >= 10 else 'green'}]{'█' * round(delay.mean)}[/]"
        )
        table.add_row(f"{hour:02}:00", f"{delay.departures:,}", f"{delay.mean:.1f}", bar, *means)
    return table


def aircraft_table(report: Report, rows: int = 8) -> Table:
    title = "Falling behind: three late departures in a row, each later than the one before"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("aircraft")
    table.add_column("make", no_wrap=True, max_width=16)
    table.add_column("airline", no_wrap=True)
    table.add_column("alerts", justify="right")
    table.add_column("worst three", justify="right", no_wrap=True)
    for alerts in most_alerts(report.alerts)[:rows]:
        worst = max(alerts, key=lambda row: int(row["delay_3"]))
        growth = " → ".join(worst[f"delay_{number}"] for number in (1, 2, 3))
        airline = worst["airline"].removesuffix(" Inc.").removesuffix(" Co.")
        table.add_row(worst["tailnum"], worst["aircraft"], airline, str(len(alerts)), growth)
    return table


def most_alerts(alerts: Iterable[dict[str, str]]) -> list[list[dict[str, str]]]:
    """The alerts by aircraft, the aircraft with most of them first."""
    by_aircraft: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in alerts:
        by_aircraft[row["tailnum"]].append(row)
    return sorted(by_aircraft.values(), key=lambda rows: (-len(rows), rows[0]["tailnum"]))


def write_page(report: Report, file: Path) -> None:
    file.write_text(page("Flights from New York, 2013", summary(report), chart(report)), encoding="utf-8")


def chart(report: Report) -> str:
    hours = sorted(report.hours)
    lines = {name: [mean_of_many(report.hours_at[hour, origin]) for hour in hours] for origin, name in ORIGINS.items()}
    return line_chart("Minutes late, by scheduled hour of departure", [f"{hour}:00" for hour in hours], lines)


def mean_of_many(delay: Delay) -> float | None:
    """The mean delay, if there are enough departures for one to mean something."""
    return delay.mean if delay.departures >= 30 else None
