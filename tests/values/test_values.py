"""Each value on each path is the same, refused by a good error, or converted as a line says; and the page says so.

Paths that need servers have their tests where the servers are; they ask the same.
"""

from __future__ import annotations

import pytest
from tests.values.page import COMMAND, DOCUMENT, changed, document, faults, known, recorded
from tests.values.paths import all_paths
from tests.values.table import Path, Sign, conversions, verdicts
from tests.values.values import VALUES

PATHS = {path.name: path for path in all_paths()}
#: Paths with faults that are known, which the page shows; the others must have none.
WAITING: set[str] = set()


@pytest.mark.parametrize("path", [path for path in PATHS.values() if path.in_every_run], ids=str)
def test_each_value_comes_back_or_is_refused_or_is_converted_as_a_line_says(path: Path) -> None:
    found = verdicts(path)
    assert changed(path, found) == []
    assert path.name in WAITING or faults(found) == []


def test_paths_that_wait_have_faults() -> None:
    at_fault = {name for name, path in PATHS.items() if Sign.FAULT in {one.sign for one in known(path).values()}}
    assert at_fault == WAITING


def test_each_line_of_the_conversions_is_used_by_a_cell() -> None:
    used = {verdict.note for path in PATHS.values() for verdict in known(path).values()}
    assert {line.name for line in conversions()} - used == set()


def test_each_recorded_file_is_of_a_path() -> None:
    files = {recorded(path).name for path in PATHS.values()}
    there = {file.name for file in recorded(next(iter(PATHS.values()))).parent.iterdir()}
    assert there <= files


def test_values_have_names_of_their_own() -> None:
    assert len({str(value) for value in VALUES}) == len(VALUES) > 120


def test_page_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), f"run {COMMAND}"
