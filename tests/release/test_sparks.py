"""The tests of Spark and of faults with each series of Spark before the newest, with which the suite runs.

Each series has a Python of its own, so that few runs meet all series and all Pythons.
"""

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

SECONDS = 6600
#: What counts each warning of the process, and what takes away a constant of `socket`.
OF_4_3 = (
    "tests/spark/test_java.py::test_job_runs_on_a_machine_without_java_and_prints_nothing_else",
    "tests/spark/test_session.py::test_platform_without_unix_domain_sockets_has_ports",
)


def test_spark_and_faults_pass_with_this_series_of_spark(tmp_path: Path) -> None:
    series, version = os.environ["PENSTOCK_TEST_SPARK"].split()
    python = make_environment(tmp_path / "environment", ("build", "dev"), f"pyspark=={series}.*", version=version)
    # PySpark before 4.3 leaves the sockets of what it has collected to Python, and imports a psutil that is there.
    apart = ["-W", "ignore::pytest.PytestUnraisableExceptionWarning", *(f"--deselect={name}" for name in OF_4_3)]
    run_tests(python, [*apart, "tests/spark", "tests/fault"], at_least=100, seconds=SECONDS)
