"""`make pyflink-tests ARGS=CHECKOUT`: PyFlink's own DataStream tests on Penstock, compared with our list of verdicts.

The tests are read out of a checkout of Flink and ported into a folder that is deleted behind the run: their text is
never a part of this repository. Their jobs run in this process, without Spark, but for those that bring files to tasks.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import signal
import sys
import tempfile
import traceback
import unittest
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.compat.pyflink_tests import kit, verdicts
from tests.compat.pyflink_tests.ported_tests import PACKAGE, port
from tests.kit.without_spark import Cluster

from penstock._engine import launch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock._engine.driver.client.job_client import JobHandle
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.graph.job_graph import JobGraph
    from penstock.common.configuration import Configuration

_ROOT = Path(__file__).parents[3]
#: Keys whose values name folders behind a "#", for which files are brought to tasks.
_BRINGING = ("python.archives", "python.requirements")
#: A test that takes longer hangs.
_SECONDS = 60


class _Jobs(Cluster):
    """Runs jobs in this process, and on Spark those that bring files to their tasks."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self._on_spark = launch.submit

    def submit(
        self,
        graph: JobGraph,
        configuration: Configuration,
        main_classes: bytes | None,
        on_end: Callable[[JobView], None] | None = None,
    ) -> JobHandle:
        brings = any("#" in configuration.get_string(key, "") for key in _BRINGING)
        brings = brings or configuration.contains_key("python.files")
        submit = self._on_spark if brings else super().submit
        return submit(graph, configuration, main_classes, on_end)


class TestHangsError(BaseException):
    """A test did not end in its time; no test can expect it by `assertRaises(Exception)`."""


class _Verdicts(unittest.TestResult):
    """Keeps what happened, by test; prints all of it on the way if asked to."""

    def __init__(self, show: bool) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._show = show

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        signal.setitimer(signal.ITIMER_REAL, _SECONDS)

    def stopTest(self, test: unittest.TestCase) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        super().stopTest(test)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, verdicts.PASSES)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._note(test, f"skipped: {reason}")

    def addError(self, test: Any, err: Any) -> None:
        lines = str(err[1]).strip().splitlines()
        text = " ".join(" ".join(lines).split())
        self._note(test, f"{err[0].__name__}: {text[:400]}")
        if self._show:
            sys.__stderr__.write("".join(traceback.format_exception(*err)))  # type: ignore[union-attr]

    addFailure = addError

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        del subtest
        if err is not None:
            self.addError(test, err)

    def _note(self, test: Any, verdict: str) -> None:
        name = test.id().removeprefix(f"{PACKAGE}.")
        if self.found.get(name, verdicts.PASSES) == verdicts.PASSES:
            self.found[name] = verdict


def run(checkout: Path, *, only: str = "", show: bool = False) -> dict[str, str]:
    """Run the tests of a checkout; return "passes", or what happened, by the full name of a test.

    Args:
        checkout: Where Flink's sources are.
        only: A part of the names of tests; of other tests nothing is found.
        show: Print the traceback of each test that fails.
    """
    with tempfile.TemporaryDirectory() as folder, _in_place(Path(folder)), pytest.MonkeyPatch.context() as patches:
        names = port(checkout, Path(folder))
        patches.syspath_prepend(folder)
        kit.install(patches)
        patches.setenv("PYTHONPATH", os.pathsep.join([folder, str(_ROOT)]))  # for tasks in Spark's workers
        patches.setenv("TMPDIR", folder)
        patches.setenv(
            "HADOOP_CLASSPATH", folder
        )  # tests of Parquet skip themselves without Hadoop, which ours need not
        patches.setattr(tempfile, "tempdir", folder)
        (Path(folder) / "cluster").mkdir()
        _Jobs(Path(folder) / "cluster").patch(patches)
        result = _Verdicts(show)
        for name in names:
            for test in _tests(f"{PACKAGE}.{name}", only):
                test.run(result)
        return result.found


def _tests(module: str, only: str) -> Iterator[unittest.TestSuite]:
    """Yield the tests of a module by class, for each has its own `setUpClass`."""
    for suite in unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(module)):
        assert isinstance(suite, unittest.TestSuite)
        kept = [test for test in suite if only in test.id()]
        if kept:
            yield unittest.TestSuite(kept)


@contextlib.contextmanager
def _in_place(folder: Path) -> Iterator[None]:
    """Let relative paths and temporary files of tests be in a folder, and what they print be nowhere."""

    def hang(*_: object) -> None:
        raise TestHangsError(f"it did not end within {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, hang)
    output = io.StringIO()
    try:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
            warnings.catch_warnings(action="ignore"),
        ):
            yield
    finally:
        signal.signal(signal.SIGALRM, before)
        for module in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[module]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, compare and print; the exit code is 1 where something is otherwise than the list says."""
    parser = argparse.ArgumentParser(prog="make pyflink-tests", description=__doc__)
    parser.add_argument(
        "checkout", type=Path, help="the folder of a checkout of Flink, such as of the tag release-2.1.0"
    )
    parser.add_argument("--only", default="", help="run the tests alone whose names have this part")
    parser.add_argument("--show", action="store_true", help="print the tracebacks of what fails")
    parser.add_argument("--write", action="store_true", help="put into the list what the run has found")
    options = parser.parse_args(arguments)
    found = run(options.checkout.resolve(), only=options.only, show=options.show)
    listed = verdicts.load() if verdicts.FILE.exists() else {}
    lines = list(verdicts.differences(listed, found))
    if options.write:
        verdicts.write(verdicts.updated(listed, found))
    counts = Counter(
        "pass" if v == verdicts.PASSES else "skip" if v.startswith("skipped") else "fail" for v in found.values()
    )
    told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    summary = f"{len(found)} tests: {told}; {len(lines)} otherwise than the list says"
    sys.stdout.write("\n".join([*lines, summary, ""]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.stdout.flush()
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of jobs that hang are not waited for
