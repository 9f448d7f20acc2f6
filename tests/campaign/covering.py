"""A pytest plugin: writes down which lines of the program each test that passes runs, and how long the test takes.

Each line is looked at once in a test, so the tests are hardly slower. It goes with Python 3.12 or later.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import CodeType

#: Under which name goes what modules run when they are imported, outside of tests.
AT_IMPORT = ""

_program = {str(Path(path).resolve()): path for path in os.environ["PENSTOCK_COVERED_FILES"].split(os.pathsep)}
#: By test: the lines of each file.
_lines: dict[str, dict[str, set[int]]] = {AT_IMPORT: {}}
_seconds: dict[str, float] = {AT_IMPORT: 0.0}
_failed: set[str] = set()
_test = AT_IMPORT

if sys.version_info < (3, 12):
    raise ImportError("sys.monitoring came with Python 3.12")
_monitoring = sys.monitoring
_TOOL, _EVENTS = _monitoring.COVERAGE_ID, _monitoring.events


def _start(code: CodeType, _offset: int) -> Any:
    """Look at the lines of a function of the program, and at no others."""
    if code.co_filename in _program:
        _monitoring.set_local_events(_TOOL, code, _EVENTS.LINE)
    return _monitoring.DISABLE


def _run(code: CodeType, line: int) -> Any:
    """Write down a line; it is not looked at again before the next test."""
    _lines[_test].setdefault(_program[code.co_filename], set()).add(line)
    return _monitoring.DISABLE


def pytest_sessionstart() -> None:
    """Begin to look, before tests import the program."""
    _monitoring.use_tool_id(_TOOL, "penstock.covering")
    _monitoring.register_callback(_TOOL, _EVENTS.PY_START, _start)
    _monitoring.register_callback(_TOOL, _EVENTS.LINE, _run)
    _monitoring.set_events(_TOOL, _EVENTS.PY_START)


def _enter(test: str) -> None:
    global _test  # noqa: PLW0603 (what looks at lines has no other way to know it)
    _lines.setdefault(test, {})
    _test = test
    _monitoring.restart_events()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Count what runs for a test as the test's."""
    _enter(item.nodeid)
    result = yield
    _enter(AT_IMPORT)
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of a test's parts."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if not report.passed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write down the tests that passed in this process."""
    _monitoring.set_events(_TOOL, _EVENTS.NO_EVENTS)
    passed = [
        {"name": test, "seconds": _seconds[test], "lines": {path: sorted(lines) for path, lines in files.items()}}
        for test, files in _lines.items()
        if test in _seconds and test not in _failed
    ]
    place = Path(os.environ["PENSTOCK_COVERED"]) / f"{os.getpid()}.json"
    place.write_text(json.dumps(passed), encoding="utf-8")
