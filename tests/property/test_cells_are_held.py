"""The table of which property test holds what: cells.toml."""

from __future__ import annotations

import ast
import inspect
import tomllib
from pathlib import Path
from typing import Any, Final

from penstock.datastream import state, window

HERE: Final = Path(__file__).parent
TABLE: Final[dict[str, Any]] = tomllib.loads((HERE / "cells.toml").read_text(encoding="utf-8"))
COLUMNS: Final[list[str]] = TABLE["columns"]
TESTS: Final[dict[str, Any]] = TABLE["tests"]
#: By section.
ROWS: Final = {name: rows for name, rows in TABLE.items() if name not in {"columns", "tests", "reasons"}}
#: Modules with parts of tests.
PARTS: Final = {
    "test_starved_lives.py": ["starved_job.py", "starved_parts.py"],
    "test_modes.py": ["mode_programs.py", "mode_windows.py"],
}


def text_of(module: str) -> str:
    """Return the text of a test's module, and of those that have its parts."""
    text = (HERE / module).read_text(encoding="utf-8")
    return "\n".join([text, *[(HERE / part).read_text(encoding="utf-8") for part in PARTS.get(module, [])]])


def test_each_test_is_there_and_holds_known_columns() -> None:
    for test in TESTS.values():
        module, _, name = test["name"].partition("::")
        functions = {node.name for node in ast.parse(text_of(module)).body if isinstance(node, ast.FunctionDef)}
        assert name in functions, test["name"]
        assert set(test["holds"]) <= set(COLUMNS)
    named = {by.partition(":")[0] for rows in ROWS.values() for row in rows.values() for by in row["by"]}
    assert named == set(TESTS)


def test_each_row_is_spoken_of_by_its_tests() -> None:
    for rows in ROWS.values():
        for name, row in rows.items():
            for by in row["by"]:
                test, _, part = by.partition(": ")
                text = text_of(TESTS[test]["name"].partition("::")[0])
                assert (f'"{part}"' if part else row.get("as", name)) in text, (name, by)


def test_no_cell_is_empty_without_a_reason() -> None:
    for rows in ROWS.values():
        for name, row in rows.items():
            held = {column for by in row["by"] for column in TESTS[by.partition(":")[0]]["holds"]}
            reasons = set(row) - {"by", "as"}
            assert held | reasons == set(COLUMNS), (name, held, reasons)
            assert not held & reasons, (name, "has both a test and a reason")


def test_each_shared_reason_is_needed() -> None:
    given = {text for rows in ROWS.values() for row in rows.values() for key, text in row.items() if key in COLUMNS}
    assert set(TABLE["reasons"]) <= given


def test_no_public_class_is_left_out() -> None:
    def concrete(module: Any, *kinds: type) -> set[str]:
        members = [getattr(module, name) for name in module.__all__]
        found = [one for one in members if inspect.isclass(one) and issubclass(one, kinds)]
        return {one.__name__ for one in found if not inspect.isabstract(one)}

    assert concrete(window, window.WindowAssigner) <= set(ROWS["windows"])
    assert concrete(window, window.Trigger) <= set(ROWS["triggers"])
    assert concrete(window, window.Evictor) - {"Evictor"} <= set(ROWS["evictors"])
    assert concrete(state, state.StateDescriptor) - {"StateDescriptor"} <= set(ROWS["states"])
