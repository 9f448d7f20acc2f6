"""The package offers all public names of its modules, and loads none of them before it is asked."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest

import penstock.testing

PACKAGE = Path(penstock.testing.__file__ or "")
MODULES = sorted(path.stem for path in PACKAGE.parent.glob("*.py") if path != PACKAGE and not path.stem.startswith("_"))


def test_every_public_name_of_a_module_is_a_name_of_the_package() -> None:
    modules = [import_module(f"penstock.testing.{name}") for name in MODULES]
    assert {name for module in modules for name in module.__all__} == set(penstock.testing.__all__)


def test_an_object_of_each_class_says_what_it_is() -> None:
    classes = [thing for name in penstock.testing.__all__ if isinstance(thing := getattr(penstock.testing, name), type)]
    assert [one.__name__ for one in classes if one.__repr__ is object.__repr__] == []
    with penstock.testing.OperatorHarness.for_map(abs) as harness:
        harness.process_elements([1, 2])
        assert repr(harness) == "<OperatorHarness of MapOperator, subtask 0 of 1: 2 records>"
    for one in (
        penstock.testing.ListSource([1], [2]),
        penstock.testing.FailingStorage("memory://says"),
        penstock.testing.SourceRun(penstock.testing.ListSource([1]), 2),
        penstock.testing.SourceContract(lambda: penstock.testing.ListSource([1]), [1]),
        penstock.testing.RecordingOutput(),
        penstock.testing.TestBatchContext(pa.RecordBatch.from_pydict({"f0": [1]})),
        penstock.testing.InProcessEpochRunner(),
    ):
        assert type(one).__name__ in repr(one)
        assert " object at " not in repr(one)


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
