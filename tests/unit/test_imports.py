"""Every module can be the first that a process imports, as tasks and user programs do in any order.

A module that only works when another came before it stands in a circle of imports. What the modules import while they
are made is read from their text; those in a circle are each imported first, and the others need no such test.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = Path(__file__).parents[2] / "src"
FILES = sorted(path.relative_to(SOURCES) for path in (SOURCES / "penstock").rglob("*.py"))
MODULES = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): SOURCES / path for path in FILES}


def with_parents(module: str) -> set[str]:
    """Return a module and the packages that are imported before it."""
    parts = module.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts) + 1)}


def imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run when a module is made: not those of functions, nor of type checkers."""
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement
        elif isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            yield from imports(statement.orelse)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
            for block in (*blocks, *(handler.body for handler in getattr(statement, "handlers", []))):
                yield from imports(block)


def needs(module: str) -> set[str]:
    """Return the modules of ours that a module imports while it is made."""
    found = with_parents(module)
    for statement in imports(ast.parse(MODULES[module].read_text()).body):
        names = [name.name for name in statement.names]
        if isinstance(statement, ast.ImportFrom):
            names = [f"{statement.module}", *(f"{statement.module}.{name}" for name in names)]
        for name in names:
            found |= with_parents(name)
    return (found & MODULES.keys()) - {module}


def closure(needed: dict[str, set[str]], module: str) -> set[str]:
    """Return all that is made when a module is imported, itself only where it stands in a circle."""
    found: set[str] = set()
    left = [module]
    while left:
        more = needed[left.pop()] - found
        found |= more
        left += more
    return found


@pytest.fixture(scope="module")
def needed() -> dict[str, set[str]]:
    """What each module imports while it is made."""
    return {module: needs(module) for module in MODULES}


# Forks a child for each module: a new interpreter with the libraries that we use already in it, and nothing of ours.
IMPORTER = """
import importlib, json, os, sys, traceback, warnings
for library in ("pyarrow", "pyarrow.csv", "pyarrow.parquet", "obstore", "lmdb", "rich.console", "pyspark.sql"):
    importlib.import_module(library)
warnings.simplefilter("error")
problems = {}
for modules in json.load(sys.stdin):
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            for module in modules:
                importlib.import_module(module)
            problem = ""
        except BaseException:
            problem = traceback.format_exc()
        os.write(writer, problem[-4000:].encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        problems[modules[0]] = pipe.read().decode()
    os.wait()
print(json.dumps({module: problem for module, problem in problems.items() if problem}))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks an interpreter for each module")
def test_module_of_a_circle_can_be_imported_first_and_all_of_them_without_a_warning(
    needed: dict[str, set[str]],
) -> None:
    in_circles = [module for module in MODULES if module in closure(needed, module)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORTER],
        input=json.dumps([list(MODULES), *([module] for module in in_circles)]),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    assert json.loads(done.stdout) == {}


def loaded(program: str) -> set[str]:
    """Return the modules that a process has after a program."""
    command = [sys.executable, "-c", f"import sys, {program}; print(*sys.modules)"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    return set(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split())


@pytest.mark.parametrize("package", ["datastream", "testing", "savepoint", "_engine.cli.main", "_engine.spark.session"])
def test_what_the_text_of_a_module_says_is_what_is_imported(package: str, needed: dict[str, set[str]]) -> None:
    module = f"penstock.{package}"
    assert loaded(module) & MODULES.keys() == closure(needed, module) | {module}


def test_import_of_the_package_is_light() -> None:
    """``import penstock`` and the vocabulary must not load Spark or Arrow: tasks and tools start with them."""
    assert not {"pyspark", "pyarrow", "pandas", "obstore"} & loaded("penstock, penstock.datastream.functions")
