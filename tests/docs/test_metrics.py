"""The page of REST has each metric, and names no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "penstock"
SECTION = re.search(r"^## Metrics\n(.*?)^## ", (ROOT / "docs" / "rest.md").read_text(), re.MULTILINE | re.DOTALL)
#: Of tables that name a metric: the names of the page are in the second column.
ROW = re.compile(r"^\| (\w*) ?\| (`.+?) \| .* \|$", re.MULTILINE)
#: Before the names of an enumerator's metrics; one in the same row may leave it out.
ENUMERATOR = "coordinator.enumerator."
#: How a metric is registered.
REGISTERED = re.compile(r"\.(?:counter|gauge|meter|distribution)\((?:\"(\w+)\"|(_?[A-Z_]+)\b)")


def on_page() -> dict[str, set[str]]:
    """The names of metrics by scope."""
    assert SECTION is not None
    names: dict[str, set[str]] = {}
    scope = ""
    for here, listed in ROW.findall(SECTION[1]):
        scope = here or scope
        full = re.findall(r"`([\w.]+)`", listed)
        names.setdefault(scope, set()).update(name.removeprefix(ENUMERATOR).removeprefix(".") for name in full)
    return names


def of_the_engine() -> dict[str, set[str]]:
    """The names that functions of `rest/metrics.py` give, by scope."""
    scopes = {"process": "process_metrics", "executor": "executor_metrics", "job": "job_metrics"}
    scopes["subtask"] = "subtask_metrics"
    tree = ast.parse((SRC / "_engine" / "rest" / "metrics.py").read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    return {
        scope: {
            str(key.value)
            for node in ast.walk(functions[name])
            if isinstance(node, ast.Dict)
            for key in node.keys
            if isinstance(key, ast.Constant)
        }
        for scope, name in scopes.items()
    }


def registered() -> set[str]:
    """The names of metrics of operators and connectors; one that a constant has is looked up in its module."""
    found: set[str] = set()
    for file in SRC.rglob("*.py"):
        if file.is_relative_to(SRC / "testing") or file.is_relative_to(SRC / "metrics"):
            continue
        text = file.read_text()
        for name, constant in REGISTERED.findall(text):
            value = re.search(rf"^{constant}: Final = \"(\w+)\"", text, re.MULTILINE) if constant else None
            found.add(name or (value[1] if value else constant))
    return found


def test_page_has_each_metric_of_process_job_and_subtask() -> None:
    names = on_page()
    assert {scope: names[scope] for scope in of_the_engine()} == of_the_engine()
    assert all(of_the_engine().values())


def test_page_has_each_metric_of_operators() -> None:
    committables = {name for name in on_page()["operator"] if name.endswith("Committables")}
    assert len(committables) == 6
    assert on_page()["operator"] - committables == registered() - committables
