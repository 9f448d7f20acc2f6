"""A connector whose library is missing or too old says so, and names the extra that brings the right one."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.common.libraries import LIBRARIES, library_of
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.errors import MissingExtraError

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", [extra for extra in EXTRAS if extra != "demo"])
def test_a_library_that_is_older_than_its_extra_asks_for_is_refused(
    monkeypatch: pytest.MonkeyPatch, extra: str
) -> None:
    _, library, _ = LIBRARIES[extra]
    lowest = re.search(r">=([\d.]+)", EXTRAS[extra][0])
    assert lowest is not None
    first, second = map(int, lowest[1].split("."))
    for accepted in (f"{first}.{second}", f"{first}.{second}.0", f"{first}.{second + 5}.2rc1", f"{first + 1}.0.0"):
        monkeypatch.setattr(import_module(library), "__version__", accepted)
        assert library_of(extra) is import_module(library)
    monkeypatch.setattr(import_module(library), "__version__", f"{first}.{second - 1}.9")
    with pytest.raises(MissingExtraError, match=f"{library} {first}.{second - 1}.9 is installed, .*penstock.{extra}"):
        library_of(extra)


@pytest.mark.parametrize("extra", LIBRARIES)
def test_without_its_library_a_connector_names_the_extra(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    monkeypatch.setitem(sys.modules, LIBRARIES[extra][1], None)
    with pytest.raises(MissingExtraError, match=rf"Install penstock\[{extra}\]"):
        library_of(extra)


def test_a_table_is_refused_when_the_program_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("deltalake", "pyiceberg"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError):
        DeltaSink("/data", pa.schema([("id", pa.int64())]))
    with pytest.raises(MissingExtraError):
        IcebergSink("shop.items", {})
