"""A pytest plugin: says to coverage.py which test runs, and writes down which tests passed and how long they took."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import coverage
import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_seconds: dict[str, float] = {}
_failed: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Count what runs for a test as the test's."""
    current = coverage.Coverage.current()
    assert current is not None, "this plugin goes with `coverage run`"
    current.switch_context(item.nodeid)
    result = yield
    current.switch_context("")
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of a test's parts."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if not report.passed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write down the tests that passed."""
    passed = {name: seconds for name, seconds in _seconds.items() if name not in _failed}
    Path(os.environ["PENSTOCK_PASSED_TESTS"]).write_text(json.dumps(passed), encoding="utf-8")
