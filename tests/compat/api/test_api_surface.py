"""PyFlink's names and parameters against ours: everything is there, or stands in the list of what is to come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.compat.api import surface
from tests.compat.api.allowed_gaps import ALLOWED_GAPS

if TYPE_CHECKING:
    from collections.abc import Iterable

REFERENCE = surface.items(json.loads((Path(__file__).parent / "pyflink_api.json").read_text(encoding="utf-8")))
PACKAGES = ("common", "datastream", "metrics")


def _package(path: str) -> str:
    return path.partition(":")[0].partition(".")[0]


def _gaps(package: str, tiers: str) -> dict[str, str]:
    problems = {
        path: surface.problem_with("penstock", path, item)
        for path, item in REFERENCE.items()
        if _package(path) == package and surface.tier_of(path) in tiers
    }
    return {path: problem for path, problem in problems.items() if problem is not None}


def _covers(listed: str, path: str) -> bool:
    """A class in the list stands for its methods, too, and ``module:*`` for all of a module."""
    return path == listed or path.startswith(f"{listed}.") or (listed.endswith(":*") and path.startswith(listed[:-1]))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_pyflink_name_binds_or_is_a_listed_gap(package: str) -> None:
    gaps = _gaps(package, "MS")
    assert {path: gaps[path] for path in gaps if not any(_covers(listed, path) for listed in ALLOWED_GAPS)} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_listed_gap_is_still_a_gap(package: str) -> None:
    gaps = _gaps(package, "MS")
    listed = {path for path in ALLOWED_GAPS if _package(path) == package}
    assert {
        path for path in listed if not (path in gaps or (path.endswith(":*") and _any_covered(path, gaps)))
    } == set()


def _any_covered(listed: str, paths: Iterable[str]) -> bool:
    return any(_covers(listed, path) for path in paths)


def test_every_listed_gap_is_a_recorded_name_of_a_checked_package() -> None:
    unknown = [path for path in ALLOWED_GAPS if not _any_covered(path, REFERENCE) or not path.startswith(PACKAGES)]
    assert unknown == []


class Sample:
    def exact(self, a: int, b: int = 0) -> None: ...
    def renamed(self, x: int, b: int = 0) -> None: ...
    def no_default(self, a: int, b: int) -> None: ...
    def extra(self, a: int, b: int = 0, c: int = 0) -> None: ...
    def too_much(self, a: int, b: int = 0, *, c: int) -> None: ...

    @property
    def turned_property(self) -> None: ...


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("exact", None),
        ("extra", None),
        ("renamed", "parameter 1 is 'x', not 'a'"),
        ("no_default", "parameter 'b' must be optional"),
        ("too_much", "extra required keyword 'c'"),
        ("turned_property", "is a property, not a method"),
        ("absent", "missing"),
    ],
)
def test_a_call_written_for_the_reference_must_bind(
    name: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {"what": "method", "kind": "method", "params": [{"name": "a"}, {"name": "b", "default": "0"}]}
    monkeypatch.setattr("penstock.common.Sample", Sample, raising=False)
    assert surface.problem_with("penstock", f"common:Sample.{name}", wanted) == expected
