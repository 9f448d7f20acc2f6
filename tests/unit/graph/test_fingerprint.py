"""The digest that tells operators of one kind apart stays while a program is edited around them."""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import subprocess
import sys
import threading
import time
import tracemalloc
import types
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar

import pytest

from penstock._engine.graph.fingerprint import fingerprint
from penstock._engine.graph.parts import Parts, parts_of

ROOT = Path(__file__).parents[3]


def alike(one: Any, other: Any) -> bool:
    return fingerprint({"function": one}) == fingerprint({"function": other})


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
        (type("Made", (), {"__limit__": 1}), type("Made", (), {"__limit__": 2})),
        (TypedDict("Made", {"a": int}), TypedDict("Made", {"a": str})),
        (make_dataclass("Made", [("a", int, 1)]), make_dataclass("Made", [("a", float, 1)])),
        (TypeVar("Made", bound=int), TypeVar("Made", bound=str)),
    ],
)
def test_what_a_function_does_counts_with_all_that_it_has_closed_over(one: Any, other: Any) -> None:
    assert alike(one, one)
    assert not alike(one, other)


def test_a_value_that_holds_itself_has_a_digest_all_the_same() -> None:
    around = Limit(None)
    around.limit = [around]
    assert fingerprint({"function": around})


def of_this_process() -> Any:
    """Return a function that has what each process has another of, or that pickling numbers anew."""
    variable: Any = TypeVar("variable")
    made: Any = types.new_class("Made", (Generic[variable],))
    environment, modules = os.environ, sys.modules
    return lambda n: (environment, modules, variable, made, made[int], n)


def sample() -> str:
    own = of_this_process()
    return fingerprint({"function": Limit({"b", "a", 3, at_most(1)}), "key_selector": at_most(3), "own": own})


def test_the_digest_is_the_same_in_every_process() -> None:
    program = "from tests.unit.graph.test_fingerprint import sample; print(sample())"
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
    "sought": "def seek(name):\n    return globals()[name]()\ndef hidden():\n    return 5\n",
    "steps": "def clean(n):\n    return n + 1\n",
    "program": """
import settings, sought, steps, time
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
    return steps.clean(n) if n < settings.LIMIT else Step().map(n) + sought.seek("hidden")
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
    return fingerprint({"function": importlib.import_module("program").function})


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
        ("BEGUN = [", "BEGUN = [1, "),
        ("return 5", "return 6"),  # found by a name that is made when it runs
    ]
    alike = [change for change in changes if digest_with(tmp_path, monkeypatch, *change) == before]
    assert alike == []
    for change in (("OTHER = 1", "OTHER = 2"), ("def function", "\n\ndef function")):
        assert digest_with(tmp_path, monkeypatch, *change) == before  # it is not used, or only moved


MODULES = {
    "prices": "import sys\nfrom rates import *\nLOADED = sys.modules\ndef price(n):\n    return n * RATE\n",
    "rates": "import threading\nRATE = 2\nLOCK = threading.Lock()\ndef held(n):\n    with LOCK:\n        return n\n",
    "unused": "RATE = 5\n",
    "begun": """
import json, random, rates
def captured():
    import prices as p, re
    return lambda n: p.price(n) if re.match("a", n) else json.dumps(random.random())
def imports(n):
    from prices import price
    return price(n)
def held(n):
    return rates.held(n)
from rates import held
""",
}


def digests_with(folder: Path, monkeypatch: pytest.MonkeyPatch, changed: str = "", old: str = "", new: str = "") -> Any:
    """Return digests of functions of a program in which one of its modules was changed."""
    monkeypatch.syspath_prepend(str(folder))
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text.replace(old, new) if name == changed else text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    begun = importlib.import_module("begun")
    return [fingerprint({"function": function}) for function in (begun.captured(), begun.imports, begun.held)]


def test_a_module_counts_by_its_name_and_the_users_own_by_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digests_with(tmp_path, monkeypatch)
    assert digests_with(tmp_path, monkeypatch) == before  # sys.modules and others are new objects, and have grown
    assert digests_with(tmp_path, monkeypatch, "unused", "5", "6") == before
    for changed in ("prices", "rates"):  # the second is imported by the first
        after = digests_with(tmp_path, monkeypatch, changed, "return n", "return 2 * n")
        assert [one != other for one, other in zip(before, after, strict=True)] == [True, True, changed == "rates"]


LAZY = """
import functools
@functools.cache
def kept(n):
    import colorsys, late, library.inner
    from xml.dom import pulldom
    return colorsys, late.LIMIT, library.inner, pulldom
def function(n):
    from wsgiref import simple_server
    return kept(n), simple_server
"""


def test_which_modules_a_process_has_loaded_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = ["colorsys", "xml.dom.pulldom", "late", "library", "library.inner", "wsgiref", "wsgiref.simple_server"]
    installed = tmp_path / "site-packages"
    (installed / "library").mkdir(parents=True)
    (installed / "library" / "inner.py").touch()
    (tmp_path / "lazy.py").write_text(LAZY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found: list[tuple[str, str]] = []
    for text in ("LIMIT = 1", "LIMIT = 23"):
        (tmp_path / "late.py").write_text(text)
        for name in loaded:
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        lazy = importlib.import_module("lazy")
        before = fingerprint({"function": lazy.function}), fingerprint({"function": lazy.kept})
        for name in loaded:
            importlib.import_module(name)
        assert (fingerprint({"function": lazy.function}), fingerprint({"function": lazy.kept})) == before
        found.append(before)
    assert all(one != other for one, other in zip(*found, strict=True))  # the user's own counts, loaded or not


def test_a_variable_that_does_not_pickle_counts_by_the_file_that_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digests_with(tmp_path, monkeypatch)
    assert digests_with(tmp_path, monkeypatch, "rates", "Lock()", "RLock()")[2] != before[2]


def test_what_does_not_pickle_has_no_digest() -> None:
    with pytest.raises(TypeError, match="pickle"):
        fingerprint({"function": Limit(threading.Lock())})


def test_parts_that_hold_each_other_have_the_digest_of_all_of_them() -> None:
    def ring(*limits: int) -> list[Limit]:
        parts = [Limit([each, None]) for each in limits]
        for one, other in zip(parts, parts[1:] + parts[:1], strict=True):
            one.limit[1] = other
        return parts

    assert alike(ring(1, 2, 3)[0], ring(1, 2, 3)[0])
    assert not alike(ring(1, 2, 3)[0], ring(1, 2, 4)[0])
    assert not alike(ring(1, 2, 3)[0], ring(2, 3, 1)[0])
    assert alike(set(ring(1, 2, 3)), set(ring(3, 1, 2)))


def test_a_digest_takes_little_memory_and_long_values_count_once() -> None:
    large = b"\0" * 4_000_000
    shared, one = [large] * 5000, [[bytes([n]) * 4_000_000 for n in range(4)]]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        begun = time.process_time()
        assert not alike(shared, one)
        assert time.process_time() - begun < 2  # each occurrence by itself takes 20 s
        assert tracemalloc.get_traced_memory()[1] - before < 1_000_000
    finally:
        tracemalloc.stop()


def test_the_time_for_values_that_hold_each_other_grows_with_their_number() -> None:
    root = Limit([])
    root.limit = [Limit((root, n)) for n in range(4_000)]
    begun = time.process_time()
    fingerprint({"function": root})
    assert time.process_time() - begun < 5  # with all of them in the digest of each it takes 10 s


def test_a_value_of_too_many_parts_has_no_digest_and_rows_of_plain_values_are_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock._engine.graph.fingerprint.MOST_PARTS", 2_000)
    ring: list[Any] = []
    for _ in range(300):  # few objects, but each is looked at again for each that is told apart
        ring.append([ring[-1:], []])
    for one, other in itertools.pairwise(ring):
        one[1].append(other)
    assert fingerprint({"function": [*range(10_000)]}) != fingerprint({"function": [*range(9_999)]})
    for large in ([Limit(n) for n in range(2_000)], ring):
        with pytest.raises(OverflowError, match="captured more than 2,000 objects"):
            fingerprint({"function": large})


def test_the_class_of_many_objects_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def parts_and_note(value: object) -> Parts:
        seen.append(value)
        return parts_of(value)

    monkeypatch.setattr("penstock._engine.graph.fingerprint.parts_of", parts_and_note)
    assert not alike([Limit(n) for n in range(50)], [Same(n) for n in range(50)])
    assert seen.count(Limit) == 2  # once for each digest, of which the second finds it as a base
    assert seen.count(Limit.__init__) == 2
