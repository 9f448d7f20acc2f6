"""The names of the code: each class has one of its own, and the glossary has each word once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"


def _classes(text: str) -> Iterator[str]:
    """Go through the classes of a module; one inside of another has its name in front."""
    outer: list[tuple[int, str]] = []
    for indent, name in re.findall(r"^( *)class (\w+)[(:\[]", text, re.MULTILINE):
        outer = [(depth, above) for depth, above in outer if depth < len(indent)] + [(len(indent), name)]
        yield ".".join(above for _, above in outer)


def test_no_two_classes_have_one_name() -> None:
    files = sorted(SRC.rglob("*.py"))
    counts = Counter(name for file in files for name in _classes(file.read_text(encoding="utf-8")))
    assert [name for name, count in counts.items() if count > 1] == []


def _words() -> list[str]:
    rows = re.findall(r"^\| (.+?)\*? \| .+ \|$", (ROOT / "docs/glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    return [word for word in rows if word not in {"Word", "---"}]


def test_glossary_has_each_word_once_and_in_order() -> None:
    words = _words()
    assert len(words) > 40
    assert sorted(set(words)) == words


def test_words_of_the_glossary_are_words_of_the_code() -> None:
    code = "\n".join(file.read_text(encoding="utf-8") for file in SRC.rglob("*.py"))
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", code).lower()
    assert [word for word in _words() if not all(part in text for part in word.split())] == []
