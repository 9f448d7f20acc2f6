"""The tests of units and connectors with the lowest and with the newest versions of what Penstock needs.

The lowest stand in requirements/lowest.txt; the newest are those that there are on the day of the run.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.release.environments import make_environment, make_newest_environment, run_tests

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = os.environ.get("PENSTOCK_TEST_VERSIONS")
SECONDS = 6600
TESTS = ["tests/unit", "tests/connectors"]


@pytest.mark.skipif(VERSIONS != "lowest", reason="an environment of its own: for the campaign")
def test_units_and_connectors_pass_with_the_lowest_versions(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "environment", ("build", "dev", "lowest"))
    run_tests(python, TESTS, at_least=2001, seconds=SECONDS)


@pytest.mark.skipif(VERSIONS != "newest", reason="an environment of its own: for the campaign")
def test_units_and_connectors_pass_with_the_newest_versions(tmp_path: Path) -> None:
    python = make_newest_environment(tmp_path / "environment", ("build", "dev"))
    run_tests(python, TESTS, at_least=2001, seconds=SECONDS)
