"""The list of behaviours and the tests that show them, as a document.

Usage: python -m tests.docs.behaviours   writes docs/behaviours.md
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
LIST, DOCUMENT = ROOT / "tests" / "behaviours.toml", ROOT / "docs" / "behaviours.md"
COMMAND = "python3 dev.py behaviours"

HEAD = f"""# What Penstock does, by number

Each line is shown by the tests named below it, or waits for a part of Penstock that is still to come. `{COMMAND}`
writes this page from [the list](../tests/behaviours.toml) and from the marks on the tests.
"""


@dataclass(frozen=True)
class Behaviours:
    """The list: parts with their behaviours, and what the ones without a test wait for."""

    parts: dict[str, dict[int, str]]
    waits_for: dict[int, str]

    @property
    def numbers(self) -> set[int]:
        return {number for says in self.parts.values() for number in says}


def behaviours() -> Behaviours:
    """Read the list."""
    raw = tomllib.loads(LIST.read_text(encoding="utf-8"))
    parts = {part["title"]: {int(number): text for number, text in part["says"].items()} for part in raw["part"]}
    return Behaviours(parts, {int(number): text for number, text in raw["waits_for"].items()})


def marked_tests() -> dict[int, list[tuple[str, str]]]:
    """Return the (file, test) pairs that are marked with each number."""
    found: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for number in marked(node):
                    found[number].append((path.relative_to(ROOT).as_posix(), node.name))
    return found


def marked(node: ast.FunctionDef) -> Iterator[int]:
    """Yield the numbers in the marks of a test."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.behaviour":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def document() -> str:
    """Return the text of the document."""
    listed, tests = behaviours(), marked_tests()
    lines = [HEAD]
    for title, says in listed.parts.items():
        lines.append(f"## {title}\n")
        for number, text in says.items():
            lines.append(f"**{number}.** {text}")
            lines += [f"- {sentence(name)} ([{Path(path).stem}](../{path}))" for path, name in tests[number]]
            if number in listed.waits_for:
                lines.append(f"- waits for: {listed.waits_for[number]}")
            lines.append("")
    return "\n".join(lines)


def sentence(name: str) -> str:
    """Return the rule that a test's name states."""
    return re.sub("^test_", "", name).replace("_", " ")


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
    sys.stdout.write(f"{DOCUMENT.relative_to(ROOT)}: {len(behaviours().numbers)} behaviours\n")
