"""The package offers all public names of its modules, and loads none of them before it is asked."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import penstock.testing

PACKAGE = Path(penstock.testing.__file__ or "")
MODULES = sorted(path.stem for path in PACKAGE.parent.glob("*.py") if path != PACKAGE and not path.stem.startswith("_"))


def test_every_public_name_of_a_module_is_a_name_of_the_package() -> None:
    modules = [import_module(f"penstock.testing.{name}") for name in MODULES]
    assert {name for module in modules for name in module.__all__} == set(penstock.testing.__all__)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        penstock.testing.Nothing  # noqa: B018 - what is tested


def test_a_task_that_reads_a_list_loads_no_harness() -> None:
    program = "import sys, penstock.testing.sources\nprint([name for name in sys.modules if '_engine' in name])"
    sources = str(PACKAGE.parents[2])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONPATH": sources}
    )
    assert done.stdout == "[]\n"
