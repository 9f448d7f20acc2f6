"""The tests of Spark and of faults with each series of Spark before the newest, with which the suite runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.release.environments import make_environment, run_tests

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    "PENSTOCK_TEST_SPARK" not in os.environ, reason="an environment of its own: for the campaign"
)

SECONDS = 3300


def test_spark_and_faults_pass_with_this_series_of_spark(tmp_path: Path) -> None:
    series = os.environ["PENSTOCK_TEST_SPARK"]
    python = make_environment(tmp_path / "environment", ("build", "dev"), f"pyspark=={series}.*")
    # PySpark before 4.3 leaves the sockets of what it has collected to Python.
    unclosed = ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
    run_tests(python, [*unclosed, "tests/spark", "tests/fault"], at_least=100, seconds=SECONDS)
