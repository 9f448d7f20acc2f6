"""The page of what becomes of values, and the record of verdicts that it is made of.

Usage: python -m tests.values.page [PATH...]   runs paths that need no server, and those named; writes the page
"""

from __future__ import annotations

import json
import re
import sys
from itertools import groupby
from pathlib import Path as File
from typing import TYPE_CHECKING

from tests.values.paths import all_paths
from tests.values.table import HERE, Path, Sign, Verdict, conversions, verdicts
from tests.values.values import VALUES, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DOCUMENT = File(__file__).parents[2] / "docs" / "values.md"
COMMAND = "python3 dev.py values"

HEAD = f"""# What becomes of each value

{{count}} values go through every codec, and through every sink with its source. `{COMMAND}` writes this page, and the
tests fail where it is not so. For each value and path the sign says:

| Sign | Meaning |
| --- | --- |
| = | the same value came back: the same Python type, to the last bit, with the same zone |
| ✗ | refused before anything is durable, by an error that names field and value |
| *number* | converted, as the line of that number below says |
| — | the format has no such type: an error says so when the program is built |
| · | the path has nothing to say, such as a typed one about a value without a type |
| **!** | a fault that is known: the value is changed, or its error is not clear |
"""


def recorded(path: Path) -> File:
    """Return the file with the verdicts of a path."""
    return HERE / "verdicts" / (re.sub(r"\W+", "_", path.name.lower()) + ".json")


def record(path: Path, found: dict[Value, Verdict]) -> None:
    """Write the verdicts of a path down."""
    by_sign: dict[str, list[str]] = {}
    for value, verdict in found.items():
        by_sign.setdefault(_told(verdict), []).append(str(value))
    recorded(path).parent.mkdir(exist_ok=True)
    text = json.dumps(dict(sorted(by_sign.items())), indent=1, ensure_ascii=False)
    recorded(path).write_text(text + "\n", encoding="utf-8")


def known(path: Path) -> dict[Value, Verdict]:
    """Read the verdicts of a path; none if it was never run."""
    if not recorded(path).exists():
        return {}
    found: dict[str, Verdict] = {}
    for key, names in json.loads(recorded(path).read_text(encoding="utf-8")).items():
        sign, _, note = key.partition(" ")
        found |= dict.fromkeys(names, Verdict(Sign(sign), note))
    return {value: found[str(value)] for value in VALUES if str(value) in found}


def refused(path: Path) -> set[str]:
    """Return the names of the values that were refused when the verdicts of a path were recorded."""
    return {str(value) for value, verdict in known(path).items() if verdict.sign in {Sign.REFUSED, Sign.FAULT}}


def changed(path: Path, found: dict[Value, Verdict]) -> list[str]:
    """Return which verdicts are not as they were recorded."""
    before = known(path)
    return [
        f"{value} is {_told(one)} {one.note}, recorded is {_told(before.get(value))}; if that is right, run {COMMAND}"
        for value, one in found.items()
        if _told(one) != _told(before.get(value))
    ]


def faults(found: dict[Value, Verdict]) -> list[str]:
    """Return what is at fault."""
    return [f"{value}: {one.note}" for value, one in found.items() if one.sign is Sign.FAULT]


def _told(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    return verdict.sign.value + (f" {verdict.note}" if verdict.sign is Sign.CONVERTED else "")


def document() -> str:
    """Return the text of the page."""
    paths = [path for path in all_paths() if recorded(path).exists()]
    cells = {path: known(path) for path in paths}
    used = {verdict.note for found in cells.values() for verdict in found.values() if verdict.sign is Sign.CONVERTED}
    numbers = {line.name: place for place, line in enumerate((one for one in conversions() if one.name in used), 1)}
    lines = [HEAD.format(count=len(VALUES)), "| Path | What it is |", "| --- | --- |"]
    lines += [f"| {path.name} | {path.about} |" for path in paths]
    for kind, values in groupby(VALUES, key=lambda value: value.kind):
        lines += ["", f"## {kind}", ""]
        lines += ["| Value | Declared as | " + " | ".join(path.name for path in paths) + " |"]
        lines += ["| --- | --- |" + " :-: |" * len(paths)]
        lines += [_row(value, [cells[path].get(value) for path in paths], numbers) for value in values]
    lines += ["", "## Conversions", ""]
    lines += [
        f"{numbers[line.name]}. {line.becomes} ({', '.join(line.paths)}.) {line.why}."
        for line in conversions()
        if line.name in numbers
    ]
    return "\n".join(lines) + "\n"


def _row(value: Value, found: Sequence[Verdict | None], numbers: dict[str, int]) -> str:
    return f"| {_escaped(value.name)} | {_declared(value)} | " + " | ".join(_cells(found, numbers)) + " |"


def _cells(found: Sequence[Verdict | None], numbers: dict[str, int]) -> Iterator[str]:
    for verdict in found:
        if verdict is None:
            yield " "
        elif verdict.sign is Sign.CONVERTED:
            yield str(numbers[verdict.note])
        else:
            yield "**!**" if verdict.sign is Sign.FAULT else verdict.sign.value


def _declared(value: Value) -> str:
    told = [str(kind) for world, kind in value.columns.items() if world == "arrow"]
    return _escaped(", ".join(told if value.declared is None else [str(value.declared)]))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def main(named: Sequence[str]) -> None:
    """Run paths, record their verdicts, and write the page; say what is at fault."""
    for path in (one for one in all_paths() if one.in_every_run or one.name in named):
        found = verdicts(path)
        record(path, found)
        sys.stdout.writelines(f"{path.name}: {fault}\n" for fault in faults(found))
    DOCUMENT.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
