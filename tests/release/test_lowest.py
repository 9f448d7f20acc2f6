"""The tests of units and connectors with the lowest versions that users may have: requirements/lowest.txt."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.release.environments import make_environment, run_tests

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    "PENSTOCK_TEST_LOWEST" not in os.environ, reason="an environment of its own: for the campaign"
)

SECONDS = 6600


def test_units_and_connectors_pass_with_the_lowest_versions(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "environment", ("build", "dev", "lowest"))
    run_tests(python, ["tests/unit", "tests/connectors"], at_least=2001, seconds=SECONDS)
