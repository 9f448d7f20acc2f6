"""Every module can be the first that a process imports, as tasks and user programs do in any order.

A module that only works when another came before it hides a circular import, which the import contracts cannot see.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
FILES = sorted(path.relative_to(SOURCES) for path in (SOURCES / "penstock").rglob("*.py"))
MODULES = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in FILES]

# Forks a child for each module: a new interpreter with the libraries that we use already in it, and nothing of ours.
IMPORTER = """
import importlib, json, os, sys, traceback, warnings
for library in ("pyarrow", "pyarrow.csv", "pyarrow.parquet", "obstore", "lmdb", "rich.console", "pyspark.sql"):
    importlib.import_module(library)
warnings.simplefilter("error")
problems = {}
for module in json.load(sys.stdin):
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            importlib.import_module(module)
            problem = ""
        except BaseException:
            problem = traceback.format_exc()
        os.write(writer, problem[-4000:].encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        problems[module] = pipe.read().decode()
    os.wait()
print(json.dumps(problems))
"""


@pytest.fixture(scope="module")
def problems() -> dict[str, str]:
    """What went wrong when each module was the first to be imported; empty for most."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORTER],
        input=json.dumps(MODULES),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks an interpreter for each module")
@pytest.mark.parametrize("module", MODULES)
def test_module_can_be_imported_first(module: str, problems: dict[str, str]) -> None:
    assert not problems[module], problems[module]


def test_import_of_the_package_is_light() -> None:
    """``import penstock`` and the vocabulary must not load Spark or Arrow: tasks and tools start with them."""
    program = "import sys, penstock, penstock.datastream.functions; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert not {"pyspark", "pyarrow", "pandas", "obstore"} & set(done.stdout.split())
