"""What the tests of `dev.py test` cost: a table by folder, beside the budgets in ``minutes.toml``.

A folder that took clearly more than its budget fails the run. Processor time is measured, of the tests and of all
processes that they start, and divided by what a fixed piece of work took meanwhile, so that a slow or a busy machine
does not turn a run red. ``python -m tests.minutes`` writes down how long the files of the last run took by the clock,
which is the order in which ``lanes.py`` takes them.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import tomllib
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("minutes.toml")
#: The order in which lanes take files.
LONGEST = Path(__file__).with_name("longest.toml")
HEADING = "# How long files take, in seconds by the clock; written by python -m tests.minutes behind `make test`.\n"
#: A folder may take so many times its budget: one run in three took 2.1 times as much on another machine, where the
#: yardstick took half as long.
MARGIN = 3.0
#: Seconds of less than this are noise.
LEAST_S = 5.0
#: How much of what an over-budget folder ran is named.
NAMED = 5
#: Between two measurements of the machine's speed.
YARDSTICK_EVERY_S = 5.0
#: Where pytest's cache has what the files of the last run took: processor and clock.
KEPT = "penstock/files"
#: Files that take less by the clock may come in any order.
SHORT_S = 2.0


def folder_of(file: str) -> str:
    """Return the line of the table that a file belongs to: unit tests have one for each folder."""
    parts = Path(file).parent.parts
    return "/".join(parts[: 3 if parts[:2] == ("tests", "unit") else 2])


def yardstick_s() -> float:
    """Return the processor time of a fixed piece of work, a few milliseconds."""
    start = time.thread_time()
    found: dict[int, str] = {}
    for number in range(20_000):
        found[number % 997] = f"{number}"
    return time.thread_time() - start


def processor_s() -> float:
    """Return the processor time of this process, of those that it has waited for, and of those that still run.

    One that a thread waits for while the others are looked at would be in neither sum: then both are looked at again.
    """
    waited, again = -1.0, waited_s()
    running = 0.0
    while waited != again:
        waited, running = again, sum(running_s(os.getpid()))
        again = waited_s()
    return time.process_time() + waited + running


def waited_s() -> float:
    """Return the processor time of the processes that this one has waited for."""
    waited = resource.getrusage(resource.RUSAGE_CHILDREN)
    return waited.ru_utime + waited.ru_stime


def running_s(process: int) -> Generator[float]:
    """Yield the processor times of the processes that a process has started; none where the system does not show it."""
    times: dict[int, tuple[int, float]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        ticks = sum(map(int, fields[11:15]))
        times[int(place.parent.name)] = int(fields[1]), ticks / os.sysconf("SC_CLK_TCK")
    below = {process}
    while below:
        below = {child for child, (parent, _) in times.items() if parent in below}
        yield sum(times[child][1] for child in below)


class Meter:
    """Measures in one process what the tests of each file cost; a file's fixtures count for it."""

    def __init__(self) -> None:
        self.files: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.yardsticks = [yardstick_s()]
        self._file, self._at, self._clock_at = "", processor_s(), time.monotonic()
        self._yardstick_at = self._clock_at

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        file = item.nodeid.partition("::")[0]
        if file != self._file:
            self.look(file)
        return (yield)

    def look(self, next_file: str) -> None:
        """Put down what was used since the last look."""
        now, clock = processor_s(), time.monotonic()
        kept = self.files[self._file]
        kept[0] += now - self._at
        kept[1] += clock - self._clock_at
        self._file, self._at, self._clock_at = next_file, now, clock
        if clock - self._yardstick_at > YARDSTICK_EVERY_S:
            self.yardsticks.append(yardstick_s())
            self._yardstick_at = clock

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.look("")
        found = {"files": dict(self.files), "yardsticks": self.yardsticks}
        session.config.workeroutput["minutes"] = found  # type: ignore[attr-defined]


class Minutes:
    """Puts together what the processes measured, shows it, and fails a run that took clearly more than it may.

    Args:
        compiling: Processor and clock of what was done for all lanes before they began.
    """

    def __init__(self, compiling: tuple[float, float]) -> None:
        #: Processor and clock; "" stands for collecting.
        self.files: dict[str, list[float]] = {"": list(compiling)}
        self.lanes_s: list[float] = []
        self.longest: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        self.yardsticks: list[float] = []
        self._start = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        found: Any = getattr(node, "workeroutput", {}).get("minutes", {"files": {}, "yardsticks": []})
        self.yardsticks += found["yardsticks"]
        self.lanes_s.append(time.monotonic() - self._start)
        for file, seconds in found["files"].items():
            have = self.files.get(file, [0.0, 0.0])
            self.files[file] = [one + other for one, other in zip(have, seconds, strict=True)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.longest[folder_of(report.nodeid.partition("::")[0])].append((report.duration, report.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self.yardsticks:
            return
        if (cache := getattr(session.config, "cache", None)) is not None:
            cache.set(KEPT, self.files)
        table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
        speed = table["yardstick_s"] / median(self.yardsticks)
        taken_s, clock_s = defaultdict[str, float](float), defaultdict[str, float](float)
        for file, (processor, clock) in self.files.items():
            folder = folder_of(file) or "collecting"
            taken_s[folder] += processor * speed
            clock_s[folder] += clock
        self.rows = [
            (folder, taken, table["seconds"].get(folder, 0.0), clock_s[folder]) for folder, taken in taken_s.items()
        ]
        for folder, taken, budget, _ in self.rows:
            if taken > MARGIN * budget + LEAST_S:
                self._fail(session, folder, f"{folder} took {taken:.0f} s of processor time; it has {budget:.0f} s.")

    def _fail(self, session: pytest.Session, folder: str, text: str) -> None:
        slow = sorted(self.longest[folder], reverse=True)[:NAMED]
        lines = "".join(f"\n{seconds:7.1f} s  {nodeid}" for seconds, nodeid in slow)
        report = pytest.TestReport(
            nodeid=f"tests/minutes.toml::{folder}",
            location=("tests/minutes.toml", 0, folder),
            keywords={},
            outcome="failed",
            longrepr=f"{text} See CONTRIBUTING.md. Its slowest tests, by the clock:{lines}",
            when="call",
        )
        session.config.hook.pytest_runtest_logreport(report=report)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.yardsticks:
            return
        terminalreporter.section("minutes of processor time by folder, those of tests/minutes.toml, and by the clock")
        taken, budget, clock = (sum(column) for column in list(zip(*self.rows, strict=True))[1:])
        for row in [*sorted(self.rows), ("in all", taken, budget, clock)]:
            terminalreporter.write_line(f"{row[1] / 60:8.2f}{row[2] / 60:8.2f}{row[3] / 60:8.2f}  {row[0]}")
        lanes = ", ".join(f"{seconds / 60:.2f}" for seconds in sorted(self.lanes_s))
        terminalreporter.write_line(
            f"{(time.monotonic() - self._start) / 60:.2f} minutes by the clock, the lanes {lanes}; "
            f"the yardstick took {median(self.yardsticks) * 1000:.1f} ms"
        )


def record() -> None:
    """Write down how long the files of the last run took."""
    found = json.loads((ROOT / ".pytest_cache" / "v" / KEPT).read_text(encoding="utf-8"))
    clock_s = sorted(((clock, file) for file, (_, clock) in found.items() if file and clock >= SHORT_S), reverse=True)
    lines = "".join(f'"{file}" = {clock:.0f}\n' for clock, file in clock_s)
    LONGEST.write_text(HEADING + "\n[seconds]\n" + lines, encoding="utf-8")
    sys.stdout.write(f"{LONGEST.name} has {len(clock_s)} files\n")


if __name__ == "__main__":
    record()
