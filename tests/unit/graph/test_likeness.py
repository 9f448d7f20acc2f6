"""The digest that tells operators of one kind apart stays while a program is edited around them."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock._engine.graph.likeness import likeness

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
