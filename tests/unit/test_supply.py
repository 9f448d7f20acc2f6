"""What is packed is the same for the same files, and what is asked about dependencies is not taken for an answer."""

from __future__ import annotations

import importlib.util
import io
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]


def chore(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "requirements" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def packed(names: list[str], time: int, user: int, mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uid, member.mode = len(name), time, user, mode
            archive.addfile(member, io.BytesIO(name.encode()))
    return buffer.getvalue()


def test_source_distribution_has_neither_times_nor_owners_of_who_packed_it() -> None:
    same_for_all: Any = chore("package").same_for_all
    one, other = packed(["a", "b"], 1, 1000, 0o664), packed(["b", "a"], 2, 0, 0o600)
    assert one != other
    assert same_for_all(one) == same_for_all(other)
    with tarfile.open(fileobj=io.BytesIO(same_for_all(other)), mode="r:gz") as archive:
        members = [(each.name, each.uid, each.mode) for each in archive.getmembers()]
    assert members == [("a", 0, 0o644), ("b", 0, 0o644)]


def test_each_dependency_of_users_has_a_lower_bound() -> None:
    pins = chore("audit").lowest(ROOT / "pyproject.toml")
    assert {"starlette==0.49.1", "h11==0.16"} <= set(pins)


def test_audit_tells_advisories_and_packages_that_nobody_was_asked_about() -> None:
    known = '{"name": "h11", "version": "0.14", "vulns": [{"id": "CVE-1", "fix_versions": ["0.16"]}]}'
    unasked = '{"name": "rich", "skip_reason": "not found"}'
    problems: Any = chore("audit").problems
    found = ["h11 0.14: CVE-1, mended in 0.16", "rich: not found"]
    assert problems(f'{{"dependencies": [{known}, {unasked}]}}') == (found, 1)
    assert problems(f'{{"dependencies": [{unasked}]}}') == ([], 0)


def test_lower_bounds_and_locks_are_above_known_advisories() -> None:
    audit = chore("audit")
    pins = [*audit.lowest(ROOT / "pyproject.toml"), *audit.locked(*sorted((ROOT / "requirements").glob("*.txt")))]
    assert len(pins) > 50
    assert audit.known_problems(pins) == []
    assert audit.known_problems(["h11==0.14.0", "starlette==0.49.1"]) == [
        "h11==0.14.0: CVE-2025-43859, mended in 0.16.0"
    ]


def test_audit_asks_about_each_package_once_at_a_time() -> None:
    assert chore("audit").rounds(["a==1", "b==1", "a==2"]) == [["a==1", "b==1"], ["a==2"]]


@pytest.mark.parametrize(("words", "code"), [([], 3), (["--where-answered"], 0)])
def test_audit_without_an_answer_says_so_in_red(
    words: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = chore("audit")
    monkeypatch.setattr(audit, "audit", lambda _: ([], 0))
    monkeypatch.delenv("NO_COLOR", raising=False)
    for integration, first in (("", "NOT AUDITED: "), ("true", "\033[1;31mNOT AUDITED: ")):
        monkeypatch.setenv("CI", integration)
        assert audit.main(words) == code
        assert capsys.readouterr().err.startswith(first)


def test_audit_fails_where_there_is_an_advisory(monkeypatch: pytest.MonkeyPatch) -> None:
    audit = chore("audit")
    monkeypatch.setattr(audit, "audit", lambda pins: (["a: CVE-1"], len(pins)))
    assert audit.main(["--where-answered"]) == 1
