"""The digest that tells operators of one kind apart stays while a program is edited around them."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock._engine.graph.likeness import likeness, program_digest

ROOT = Path(__file__).parents[3]


def alike(one: Any, other: Any) -> bool:
    return likeness({"function": one}) == likeness({"function": other})


def written(text: str, line: int = 0, file: str = "job.py") -> Any:
    """A function as a program has it at a line of a file."""
    namespace: dict[str, Any] = {}
    exec(compile("\n" * line + f"def made(n):\n  {text}", file, "exec"), namespace)
    return namespace["made"]


class Limit:
    def __init__(self, limit: Any) -> None:
        self.limit = limit


class Same(Limit):
    pass


def test_where_a_function_is_written_does_not_count() -> None:
    assert alike(written("return n + 1"), written("return n + 1", line=40, file="other.py"))


def at_most(limit: int) -> Any:
    return lambda n: min(n, limit)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (written("return n + 1"), written("return n + 2")),
        (written("return n.upper()"), written("return n.lower()")),
        (written("return [m + 1 for m in n]"), written("return [m + 2 for m in n]")),
        (at_most(1), at_most(2)),
        (lambda n, m=1: n + m, lambda n, m=2: n + m),
        (functools.partial(at_most, 1), functools.partial(at_most, 2)),
        (max, min),
        (Limit(1), Limit(2)),
        (Limit(1), Same(1)),
        (Limit({"a": [1]}), Limit({"a": [2]})),
        (Limit(1).__init__, Limit(2).__init__),
    ],
)
def test_what_a_function_does_counts_with_all_that_it_has_closed_over(one: Any, other: Any) -> None:
    assert alike(one, one)
    assert not alike(one, other)


def test_a_value_that_holds_itself_has_a_digest_all_the_same() -> None:
    around = Limit(None)
    around.limit = [around]
    assert likeness({"function": around})


def sample() -> str:
    return likeness({"function": Limit({"b", "a", 3, at_most(1)}), "key_selector": at_most(3)})


def test_the_digest_is_the_same_in_every_process() -> None:
    program = "from tests.unit.graph.test_likeness import sample; print(sample())"
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {f"{sample()}\n"}


HELPERS = {
    "settings": "LIMIT = 3\nNAMES = {'a': [1, (2, None)]}\n",
    "steps": "def clean(n):\n    return n + 1\n",
    "program": """
import settings, steps, time
from steps import clean as imported
OWN = 4
BEGUN = [time.time]
class Base:
    FLOOR = 0
    def apply(self, n):
        return max(n, self.FLOOR)
class Step(Base):
    def map(self, n):
        BEGUN.append(time)
        return self.apply(n) if n in settings.NAMES else imported(n) * OWN
def function(n):
    return steps.clean(n) if n < settings.LIMIT else Step().map(n)
OTHER = 1
""",
}


def digest_with(folder: Path, monkeypatch: pytest.MonkeyPatch, old: str = "", new: str = "") -> str:
    """Return the digest of a function of a program in which something was changed."""
    monkeypatch.syspath_prepend(str(folder))
    for name, text in HELPERS.items():
        (folder / f"{name}.py").write_text(text.replace(old, new) if old else text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return program_digest({"function": importlib.import_module("program").function})


def test_the_digest_of_a_program_has_what_its_functions_find_in_the_users_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digest_with(tmp_path, monkeypatch)
    changes = [
        ("LIMIT = 3", "LIMIT = 5"),
        ("(2, None)", "(2, 0)"),
        ("return n + 1", "return n + 2"),
        ("OWN = 4", "OWN = 40"),
        ("FLOOR = 0", "FLOOR = 1"),
        ("max(n, self", "min(n, self"),
    ]
    alike = [change for change in changes if digest_with(tmp_path, monkeypatch, *change) == before]
    assert alike == []
    for change in (("OTHER = 1", "OTHER = 2"), ("BEGUN = [", "BEGUN = [1, "), ("def function", "\n\ndef function")):
        assert digest_with(tmp_path, monkeypatch, *change) == before  # it is not used, no constant, or only moved
