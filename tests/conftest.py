"""What all tests share: one Spark for the whole run, and a look for what tests leave behind."""

from __future__ import annotations

import gc
import os
import signal
from typing import TYPE_CHECKING

import hypothesis
import pyarrow as pa
import pytest
from pyarrow import csv
from tests.kit import exchange as exchanges
from tests.kit import leaks

from penstock.common import redaction
from penstock.common.interrupts import _Noted

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from penstock._engine.spark.session import SparkHandle

# Jobs of tests are nobody's to steer: no port, and no entry in the list of the jobs of whoever runs the tests.
os.environ.setdefault("PENSTOCK_REST__ENABLED", "false")

if exchanges.of_the_run() == exchanges.PIPELINED:
    os.environ.update(exchanges.VARIABLES)

# A shell starts what runs in its background, or below nohup, with these ignored; programs of tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Examples take as long as the machine is busy: no deadlines. The campaign looks further than CI. What an earlier run
# has found is not tried first: the seed alone says what is drawn.
hypothesis.settings.register_profile("ci", deadline=None, max_examples=30, database=None)
hypothesis.settings.register_profile("campaign", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with both exchanges that asks for it, unless the whole run has one."""
    if metafunc.definition.get_closest_marker("both_exchanges") and exchanges.of_the_run() == exchanges.BLOCKING:
        # That of all other tests has no parameter: a fixture that has got another one is made anew.
        ways = [pytest.param(None, id=exchanges.BLOCKING), pytest.param(exchanges.PIPELINED, id=exchanges.PIPELINED)]
        metafunc.parametrize("exchange", ways, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what the exchange of the run, or its Spark, is not for."""
    for item in items:
        if reason := exchanges.why_left_out(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """Leave modules and tests out of later garbage collections: the look for leaks makes many."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup() -> None:
    """Forget the deaths that an earlier test has played, see `CrashError`."""
    _Noted.came = False


@pytest.fixture(autouse=True)
def secrets_are_forgotten() -> Iterator[None]:
    """Forget the secrets of a test behind it: the process would hide them in the texts of others."""
    known = dict(vars(redaction._PROCESS))
    yield
    vars(redaction._PROCESS).update(known)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in ``src`` only: a program below ``tests`` must not run because it was imported for them."""
    collectors = yield
    return [collector for collector in collectors if type(collector).__name__ != "DoctestModule"]


@pytest.fixture(scope="session", autouse=True)
def exchange(request: pytest.FixtureRequest) -> Iterator[str]:
    """The exchange of the jobs of a test: that of the run, or one of both, for which the test is marked."""
    chosen = getattr(request, "param", None) or exchanges.of_the_run()
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in exchanges.VARIABLES.items() if chosen == exchanges.PIPELINED else ():
            patch.setenv(variable, value)
        yield chosen


@pytest.fixture(scope="session")
def spark(exchange: str) -> Iterator[SparkHandle]:
    """The session that jobs of this test run use: made at the first use, ended with the run or its exchange."""
    from penstock._engine.spark.session import get_session

    handle = get_session(exchanges.SLOTS[exchange], pipelined=exchange == exchanges.PIPELINED)
    yield handle
    handle.stop()


@pytest.fixture(scope="session", autouse=True)
def arrow_reads() -> None:
    """Let Arrow open the pipe by which signals break off its reading; it keeps it as long as the process lives."""
    csv.read_csv(pa.BufferReader(b"a\n1\n"))


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves threads, open files, sockets or processes; fixtures of wider scope may keep theirs."""
    name = request.node.nodeid
    if not name.startswith(leaks.FOLDERS) or name.startswith(leaks.PLAYED_DEATHS):
        yield
        if name.startswith(leaks.WITH_CLIENTS):
            gc.collect()
        return
    look = leaks.Look.now()
    yield
    left = look.left_for_good()
    assert not left, f"the test leaves {', '.join(left)}"
