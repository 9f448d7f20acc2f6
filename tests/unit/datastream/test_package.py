"""The package is lazy, complete, and its classes name their public modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.cells import cells

import penstock.datastream
from penstock.datastream import data_stream, functions, state

SOURCES = Path(__file__).parents[3] / "src"


@cells("name", penstock.datastream.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(penstock.datastream, name).__name__ == name


def test_names_of_the_checker_and_of_the_running_package_agree() -> None:
    text = Path(penstock.datastream.__file__ or "").read_text(encoding="utf-8")
    for name in penstock.datastream.__all__:
        assert f"{name} as {name}" in text


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
