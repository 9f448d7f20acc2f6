"""The package is lazy, complete, and its classes name their public modules."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.kit.cells import cells

import penstock.datastream
import penstock.datastream.connectors
import penstock.testing
from penstock.datastream import data_stream, functions, state

if TYPE_CHECKING:
    import types

SOURCES = Path(__file__).parents[3] / "src"


@cells("name", penstock.datastream.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(penstock.datastream, name).__name__ == name


@pytest.mark.parametrize("package", [penstock.datastream, penstock.datastream.connectors, penstock.testing])
def test_names_of_the_checker_and_of_the_running_package_agree(package: types.ModuleType) -> None:
    stub = ast.parse(Path(package.__file__ or "").with_suffix(".pyi").read_text(encoding="utf-8"))
    assert {type(statement) for statement in stub.body} == {ast.ImportFrom}
    homes = {
        (name.asname, statement.module)
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom)
        for name in statement.names
    }
    assert {name for name, _ in homes} == set(package.__all__) <= set(dir(package))
    for name, module in homes:
        assert getattr(package, f"{name}") is getattr(import_module(f"{module}"), f"{name}")


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        penstock.datastream.Nothing  # noqa: B018 - what is tested


@pytest.mark.parametrize("module", [functions, state, data_stream])
def test_classes_name_their_public_module(module: object) -> None:
    public = {name: getattr(module, name).__module__ for name in module.__all__}  # type: ignore[attr-defined]
    public.pop("TimerService", None)
    assert set(public.values()) == {module.__name__}  # type: ignore[attr-defined]


def test_the_vocabulary_loads_no_builder_and_no_engine() -> None:
    program = (
        "import sys, penstock.datastream.functions, penstock.datastream.state, penstock.datastream.window\n"
        "import penstock._builders.keyed_functions, penstock._builders.aggregations\n"
        "print([name for name in sys.modules if '_engine' in name or 'environment' in name or name == 'pyspark'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCES)}
    )
    assert done.stdout == "[]\n"
