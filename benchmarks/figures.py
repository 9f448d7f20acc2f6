"""Figures beside their bars: what the engine's own measurements print, as a Markdown table for docs/benchmarks."""

import datetime
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    what: str
    value: str
    bar: str = ""
    #: None where there is no bar.
    met: bool | None = None


class Figures:
    """Collects figures, prints each as it comes, and the table in the end.

    Args:
        title: What was measured.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._figures: list[Figure] = []
        self._load = os.getloadavg()[0]

    def add(self, what: str, value: str, bar: str = "", *, met: bool | None = None) -> None:
        """Take a figure."""
        self._figures.append(Figure(what, value, bar, met))
        print(f"{what}: {value}" + (f" (bar {bar}: {_verdict(met)})" if bar else ""), flush=True)

    def show(self) -> int:
        """Print the table; return 1 when a bar was missed, else 0."""
        print(f"\n{self._title}. {machine()['machine']}, {machine()['date']}, load {self._load:.1f} at the start.\n")
        print("| What | Figure | Bar |\n| --- | --- | --- |")
        for each in self._figures:
            bar = f"{each.bar}: {_verdict(each.met)}" if each.bar else ""
            print(f"| {each.what} | {each.value} | {bar} |")
        return int(any(each.met is False for each in self._figures))


def machine() -> dict[str, str]:
    """Return the date, and what this runs on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        cpu = next((line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line), cpu)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores, {cpu}, {memory:.0f} GiB, {platform.system()} {platform.release()}",
    }


def _verdict(met: bool | None) -> str:
    return "" if met is None else "met" if met else "not met"


def timed(run: Callable[[str], Any], folder: str, expected: Any) -> float:
    """Return the seconds that a run over the files of a folder takes; a wrong result ends the program."""
    start = time.perf_counter()
    found = run(folder)
    seconds = time.perf_counter() - start
    if found != expected:
        sys.exit(f"{run.__name__} has a wrong result: {str(found)[:200]}")
    return seconds
