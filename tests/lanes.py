"""Two processes share the tests of `dev.py test`, and each folder has its minutes.

Spark's cases run in one of the processes, so that one session serves them all; the other takes the rest, and who is
done first helps the other. Behind the tests stands a table of what each folder took, beside its budget in
``minutes.toml``: a folder that took clearly more fails the run. Processor time is measured, of the tests and of all
processes that they start, and divided by what a fixed piece of work took meanwhile; so neither a slow machine nor a
busy one turns a run red. Where there is room, all temporary files lie in memory: most tests write to be read again at
once, and the disk would be what they wait for.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from collections.abc import Generator

    from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("minutes.toml")
#: A folder may take so many times its budget; processors differ by less than this, once their speed is taken out.
MARGIN = 1.5
#: Seconds of less than this are noise.
LEAST_S = 5.0
#: How much of what an over-budget folder ran is named.
NAMED = 5
#: Between two measurements of the machine's speed.
YARDSTICK_EVERY_S = 5.0


#: A file system in memory, and the free bytes that tests may want of it.
MEMORY = Path("/dev/shm")
FREE_BYTES_NEEDED = 4 << 30


# -------------------------------------------------------------------------------------------------------- two processes


@cache
def uses_spark(file: str) -> bool:
    """Tell whether a file has cases that need a session."""
    return "mark.spark" in (ROOT / file).read_text(encoding="utf-8")


class Lanes(LoadFileScheduling):
    """Gives whole files: those with Spark to the first process, as long as the other one has something to do."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._numbers: dict[str, int] = {}

    def _assign_work_unit(self, node: WorkerController) -> None:
        assert self.collection is not None
        self._numbers = self._numbers or {nodeid: number for number, nodeid in enumerate(self.collection)}
        is_first = node is self.nodes[0]
        file = next((file for file in self.workqueue if uses_spark(file) == is_first), None)
        if file is None:  # nothing of its own is left: what the other one would come to last
            file = next(reversed(self.workqueue))
        unit = self.assigned_work[node][file] = self.workqueue.pop(file)
        node.send_runtest_some([self._numbers[nodeid] for nodeid, is_done in unit.items() if not is_done])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    return Lanes(config, log)


# ------------------------------------------------------------------------------------------------------- what they cost


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
    """Return the processor time of this process, of those that it has waited for, and of those that still run."""
    waited = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + waited.ru_utime + waited.ru_stime + sum(running_s(os.getpid()))


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
        self.seconds: Counter[str] = Counter()
        self.yardsticks = [yardstick_s()]
        self._file, self._at, self._yardstick_at = "", processor_s(), time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        file = item.nodeid.partition("::")[0]
        if file != self._file:
            self.look(file)
        return (yield)

    def look(self, next_file: str) -> None:
        """Put down what was used since the last look."""
        now = processor_s()
        self.seconds[self._file] += now - self._at
        self._file, self._at = next_file, now
        if time.monotonic() - self._yardstick_at > YARDSTICK_EVERY_S:
            self.yardsticks.append(yardstick_s())
            self._yardstick_at = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.look("")
        found = {"seconds": dict(self.seconds), "yardsticks": self.yardsticks}
        session.config.workeroutput["minutes"] = found  # type: ignore[attr-defined]


class Minutes:
    """Puts together what the processes measured, shows it, and fails a run that took clearly more than it may."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.longest: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        self.yardsticks: list[float] = []
        self._start = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        found: Any = getattr(node, "workeroutput", {}).get("minutes", {"seconds": {}, "yardsticks": []})
        self.yardsticks += found["yardsticks"]
        for file, seconds in found["seconds"].items():
            self.seconds[folder_of(file) or "collecting"] += seconds

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.longest[folder_of(report.nodeid.partition("::")[0])].append((report.duration, report.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self.yardsticks:
            return
        table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
        speed = table["yardstick_s"] / median(self.yardsticks)
        self.rows = [
            (folder, seconds * speed, table["seconds"].get(folder, 0.0)) for folder, seconds in self.seconds.items()
        ]
        for folder, taken, budget in self.rows:
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
        terminalreporter.section("minutes of processor time by folder, and those of tests/minutes.toml")
        total, allowed = (sum(row[place] for row in self.rows) for place in (1, 2))
        for folder, taken, budget in [*sorted(self.rows), ("in all", total, allowed)]:
            terminalreporter.write_line(f"{taken / 60:8.2f} {budget / 60:8.2f}  {folder}")
        terminalreporter.write_line(
            f"{(time.monotonic() - self._start) / 60:8.2f} by the clock; "
            f"the yardstick took {median(self.yardsticks) * 1000:.1f} ms"
        )


# ------------------------------------------------------------------------------------------------------ files in memory


def has_room(place: Path) -> bool:
    """Tell whether tests can have their files in a place: there is room, and programs may be run there."""
    if "TMPDIR" in os.environ or not place.is_dir() or not os.access(place, os.W_OK):
        return False
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize >= FREE_BYTES_NEEDED and not found.f_flag & os.ST_NOEXEC


def move_to_memory(config: pytest.Config) -> None:
    """Let this run and all processes that it starts have their temporary files in memory; they go with the run."""
    place = tempfile.mkdtemp(prefix="penstock-tests-", dir=MEMORY)
    os.environ["TMPDIR"] = tempfile.tempdir = place
    config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Meter())
    elif config.getoption("numprocesses", None):
        config.pluginmanager.register(Minutes())
        if has_room(MEMORY):
            move_to_memory(config)
