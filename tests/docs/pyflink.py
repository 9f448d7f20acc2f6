"""Writes ``docs/pyflink.md``: what of PyFlink's DataStream API is there, what is missing, and what is refused.

``python -m tests.docs.pyflink`` writes it anew; a test says when that is due. What exists is found by looking; the
reasons stand in ``tests/compat/api/allowed_gaps.py``.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.compat.api import surface
from tests.compat.api.allowed_gaps import ALLOWED_GAPS

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "pyflink.md"
RECORDED = json.loads((ROOT / "tests/compat/api/pyflink_api.json").read_text(encoding="utf-8"))
#: Here by name only, and what to use instead; `test_pyflink.py` tries each.
REFUSED = {
    "`StateTtlConfig` of a broadcast map or an operator list": "take out what is old; the state of a key expires",
    "`RuntimeExecutionMode.BATCH`": "bounded sources are read to their end in streaming mode",
    "`env.add_source`, `create_input`, `stream.add_sink`": (
        "they take Java objects: `from_source` and `sink_to` with a source or sink in Python"
    ),
    "`env.add_jars`, `add_classpaths`": "leave them out: connectors are written in Python",
}

HEADER = """\
# What of PyFlink is here

<!-- made by tests/docs/pyflink.py -->

A DataStream program of PyFlink {version} runs after its imports change from `pyflink` to `penstock`, if it uses what is
here. Of {total:,} public names (classes, methods, functions and exports of `pyflink.common`, `pyflink.datastream` and
`pyflink.metrics`) {present:,} are here and take the same arguments; {missing:,} are missing so far; {java:,} belong to
Java or are deprecated in Flink. The Table API is no part of Penstock.

## Missing
"""


def gaps(tiers: str) -> list[str]:
    """Return the recorded names of some tiers that Penstock lacks."""
    items = surface.items(RECORDED)
    return [
        path
        for path, item in items.items()
        if surface.tier_of(path) in tiers and surface.problem_with("penstock", path, item) is not None
    ]


def document() -> str:
    """Return the page."""
    missing, java = gaps("MS"), gaps("J")
    total = len(surface.items(RECORDED))
    numbers = {"total": total, "present": total - len(missing) - len(java), "missing": len(missing), "java": len(java)}
    parts = [HEADER.format(version=RECORDED["version"], **numbers), *_missing(missing), *_java(java), *_refused()]
    return "\n".join(parts)


def _missing(paths: Iterable[str]) -> list[str]:
    lines = ["| In `penstock.` | Missing | Why |", "| --- | --- | --- |"]
    found: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        module, _, name = path.partition(":")
        listed = next(one for one in (path, *_above(path), f"{module}:*") if one in ALLOWED_GAPS)
        # A class says it all; of a class that is there, the methods are named.
        shown = name if listed.endswith(":*") else listed.partition(":")[2]
        names = found.setdefault((module, ALLOWED_GAPS[listed]), [])
        if not any(shown == one or shown.startswith(f"{one}.") for one in names):
            names.append(shown)
    for (module, reason), names in sorted(found.items()):
        lines.append(f"| `{module}` | {', '.join(f'`{name}`' for name in names)} | {reason} |")
    return [*lines, ""]


def _above(path: str) -> list[str]:
    """Return the classes that a name is in, the nearest first."""
    module, _, name = path.partition(":")
    parts = name.split(".")
    return [f"{module}:{'.'.join(parts[:count])}" for count in range(len(parts) - 1, 0, -1)]


def _java(paths: Iterable[str]) -> list[str]:
    counts = Counter(path.partition(":")[0] for path in paths)
    modules = ", ".join(f"`{module}` ({count})" for module, count in sorted(counts.items()))
    return [
        "## Not meant to come",
        "",
        f"What wraps Java objects or is deprecated in Flink, with the number of names: {modules}.",
        "",
    ]


def _refused() -> list[str]:
    lines = [
        "## Here by name, and refused",
        "",
        "A program that uses one of these gets an `UnsupportedOperationError`.",
        "",
        "| What | In its place |",
        "| --- | --- |",
    ]
    return [*lines, *(f"| {what} | {instead} |" for what, instead in REFUSED.items()), ""]


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
