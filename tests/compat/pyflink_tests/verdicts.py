"""The list of verdicts (`verdicts.toml`): which of PyFlink's tests pass here, and why each other one does not."""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILE = Path(__file__).with_name("verdicts.toml")
PASSES = "passes"
_HEAD = """\
# The verdicts of PyFlink's own tests, by reason, class and name; `make pyflink-tests` compares them with a run, and
# `--write` puts down what changed. A person has written each reason; a test under "unexplained" wants one.
"""
UNEXPLAINED = "unexplained"


def load(path: Path | None = None) -> dict[str, str]:
    """Return "passes", or the reason why not, by the full name of a test."""
    content: dict[str, dict[str, list[str]]] = tomllib.loads((path or FILE).read_text(encoding="utf-8"))
    return {
        f"{case}.{test}": reason for reason, cases in content.items() for case, tests in cases.items() for test in tests
    }


def write(verdicts: Mapping[str, str], path: Path | None = None) -> None:
    """Write a list; of two equal ones the bytes are equal."""
    cases: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for test, reason in sorted(verdicts.items()):
        case, _, name = test.rpartition(".")
        cases[reason][case].append(name)
    (path or FILE).write_text(_HEAD + "".join(_lines(cases)), encoding="utf-8")


def _lines(cases: Mapping[str, Mapping[str, list[str]]]) -> Iterator[str]:
    for reason in sorted(cases, key=lambda reason: (reason != PASSES, reason)):
        yield f"\n[{json.dumps(reason, ensure_ascii=False)}]\n"
        for case, tests in cases[reason].items():
            yield f"{json.dumps(case)} = [\n" + "".join(f"  {json.dumps(test)},\n" for test in tests) + "]\n"


def differences(listed: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    """Say in a line each what a run has found otherwise than the list says; a test of another release is nothing.

    Args:
        listed: The list.
        found: By test: "passes", or what happened.
    """
    for test, verdict in sorted(found.items()):
        reason = listed.get(test)
        if reason is None:
            yield f"new: {test}: {verdict}"
        elif reason == PASSES and verdict != PASSES:
            yield f"fails: {test}: {verdict}"
        elif reason != PASSES and verdict == PASSES:
            yield f"better: {test} passes; the list says: {reason}"
        elif reason == UNEXPLAINED:
            yield f"unexplained: {test}: {verdict}"


def updated(listed: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Return the list with what a run has found: reasons stay where a test still does not pass."""
    new = dict(listed)
    for test, verdict in found.items():
        if verdict == PASSES:
            new[test] = PASSES
        elif new.get(test, PASSES) == PASSES:
            new[test] = UNEXPLAINED
    return new
