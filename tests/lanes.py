"""Five processes share the tests of `dev.py test`: the lanes.

The first has the files whose tests run on the Spark session that all of them share; the others have the rest, and a
lane that has done its own helps. Each takes the longest file first, by the clock of an earlier run (``longest.toml``),
so that all lanes end together. There are more lanes than processors because many tests wait for processes that they
start. Where there is room, all temporary files lie in memory: most tests write to be read again at once, and the disk
would be what they wait for. In a fresh clone the modules are compiled before the lanes begin, once for all of them.
What the tests cost is measured by ``minutes.py``.

Of the cases of a function that is marked ``sampled(parts)`` a run of the lanes takes one in so many, drawn by the seed
of the run: they are many cases of one law, and the campaign has all of them.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.assertion import rewrite
from tests.minutes import LONGEST, Meter, Minutes, processor_s
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
#: Modules whose asserts pytest rewrites, and programs that are run as files.
NOT_IMPORTED = r"(^|/)(test_[^/]*|conftest)\.py$|/conformance/"
#: A file system in memory, and the free bytes that tests may want of it.
MEMORY = Path("/dev/shm")
FREE_BYTES_NEEDED = 4 << 30
#: How a test asks for the session that all share.
SESSION = re.compile(r"""\bspark: SparkHandle[,)]|usefixtures\(["']spark["']\)""")


# ------------------------------------------------------------------------------------------------------ who takes what


@cache
def shares_session(file: str) -> bool:
    """Tell whether tests of a file run on the session that all share."""
    return SESSION.search((ROOT / file).read_text(encoding="utf-8")) is not None


@cache
def recorded_s() -> dict[str, float]:
    """Return how long files took in the run that was recorded."""
    return tomllib.loads(LONGEST.read_text(encoding="utf-8"))["seconds"]


def next_file(waiting: list[str], *, has_session: bool) -> str:
    """Return the file that a lane takes next: of its own kind the longest.

    A lane without the session takes the shortest of those that need it when nothing else is left: it has to make a
    session for them.
    """
    seconds = recorded_s()
    own = [file for file in waiting if shares_session(file) == has_session]
    if own or has_session:
        return max(own or waiting, key=lambda file: seconds.get(file, 0.0))
    return min(waiting, key=lambda file: seconds.get(file, 0.0))


class Lanes(LoadFileScheduling):
    """Gives whole files to the lanes."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._numbers: dict[str, int] = {}

    def _assign_work_unit(self, node: WorkerController) -> None:
        assert self.collection is not None
        self._numbers = self._numbers or {nodeid: number for number, nodeid in enumerate(self.collection)}
        file = next_file(list(self.workqueue), has_session=node is self.nodes[0])
        unit = self.assigned_work[node][file] = self.workqueue.pop(file)
        node.send_runtest_some([self._numbers[nodeid] for nodeid, is_done in unit.items() if not is_done])

    def remove_node(self, node: WorkerController) -> str | None:
        """Tell which test a lane was at that has ended; other lanes take what it had not begun, and that test never."""
        units = self.assigned_work[node].values()
        ended_it = next(((unit, nodeid) for unit in units for nodeid, is_done in unit.items() if not is_done), None)
        if ended_it is None:
            return super().remove_node(node)
        unit, nodeid = ended_it
        unit[nodeid] = True
        done = [file for file, tests in self.assigned_work[node].items() if all(tests.values())]
        for file in done:
            del self.assigned_work[node][file]
        super().remove_node(node)
        return nodeid

    def _reschedule(self, node: WorkerController) -> None:
        """Give a lane work until it knows what comes next: it waits with a test until it does."""
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    return Lanes(config, log)


# ---------------------------------------------------------------------------------------------------- one case in many


def drawn(items: list[pytest.Item], seed: str) -> Iterator[pytest.Item]:
    """Yield the tests that a run takes: of the cases of a function that is marked with a number, one in so many."""
    for function, group in groupby(items, lambda item: item.nodeid.partition("[")[0]):
        cases = list(group)
        marker = cases[0].get_closest_marker("sampled")
        count = len(cases) if marker is None else -(-len(cases) // marker.args[0])
        yield from random.Random(f"{seed} {function}").sample(cases, count)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave out what this run does not take; the lanes draw the same."""
    taken = set(drawn(items, os.environ["PENSTOCK_SEED"]))
    left_out = [item for item in items if item not in taken]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in taken]


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
    Path(place).chmod(0o711)  # a test has another user of the host enter what it has made there
    os.environ["TMPDIR"] = tempfile.tempdir = place
    config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))


# ------------------------------------------------------------------------------------------------------ compiled once


def compile_once(config: pytest.Config) -> tuple[float, float]:
    """Compile what is not compiled yet, because each lane would rewrite the asserts of all tests by itself.

    Returns:
        Seconds of processor time, and by the clock.
    """
    if sys.dont_write_bytecode:
        return 0.0, 0.0
    processor, clock = processor_s(), time.monotonic()
    compileall = [sys.executable, "-m", "compileall", "-q", "-x", NOT_IMPORTED, str(ROOT / "src"), str(TESTS)]
    with subprocess.Popen(compileall):
        for file in (*TESTS.rglob("test_*.py"), *TESTS.rglob("conftest.py")):
            rewrite_asserts(file, config)
    return processor_s() - processor, time.monotonic() - clock


def rewrite_asserts(file: Path, config: pytest.Config) -> None:
    """Write a test module with rewritten asserts to where pytest looks for it, unless it is there."""
    folder = rewrite.get_cache_dir(file)
    compiled = folder / f"{file.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(file, compiled) is None:
        folder.mkdir(exist_ok=True)
        source_hash, code = rewrite._rewrite_test(file, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, compiled)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Meter())
    elif config.getoption("numprocesses", None):
        config.pluginmanager.register(Minutes(compile_once(config)))
        if has_room(MEMORY):
            move_to_memory(config)
