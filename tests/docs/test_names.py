"""The names of the code: each class has one of its own, and the glossary has each word once."""

from __future__ import annotations

import ast
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


#: The words to begin with, all other words, and why some are ours.
FIRST, GLOSSARY, REASONS = (ROOT / "docs/glossary.md").read_text(encoding="utf-8").split("\n## ")[1:]
#: The number of words of our own that people have to learn.
MOST_OWN_WORDS = 12


def _words(text: str = GLOSSARY, mark: str = r"\*?") -> list[str]:
    rows = re.findall(rf"^\| ([^|*]+){mark} \| .+ \|$", text, re.MULTILINE)
    return [word.strip() for word in rows if word.strip() not in {"Word", "---"}]


def _first_words() -> list[str]:
    return re.findall(r"^- \*\*(.+?)\*\*: ", FIRST, re.MULTILINE)


def test_glossary_has_each_word_once_and_in_order() -> None:
    words = _words()
    assert len(words) > 40
    assert sorted(set(words)) == words
    assert len(_first_words()) == 12
    assert not set(_first_words()) & set(words)


def test_words_of_our_own_are_few_and_each_has_its_reason() -> None:
    own = _words(mark=r"\*")
    assert own == _words(REASONS)
    assert len(own) <= MOST_OWN_WORDS


def test_words_of_the_glossary_are_words_of_the_code() -> None:
    code = "\n".join(file.read_text(encoding="utf-8") for file in SRC.rglob("*.py"))
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", code).lower()
    assert [word for word in [*_first_words(), *_words()] if not all(part in text for part in word.split())] == []


#: A job is restored from a checkpoint, restarts or continues, as in Flink: these words would be a second name for it.
_OTHER_WORDS = re.compile(r"\b(go|goes|went|gone|going) on\b|\b(take|takes|taken|took) up\b", re.IGNORECASE)


def _texts(file: Path) -> Iterator[str]:
    """Go through the texts of a module but for its docstrings; of the dashboard, through all lines."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        yield from text.splitlines()
        return
    nodes = list(ast.walk(ast.parse(text)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_errors_log_and_dashboard_say_restored_or_restarts() -> None:
    files = [file for suffix in ("py", "js", "html") for file in sorted(SRC.rglob(f"*.{suffix}"))]
    assert [(file.name, text) for file in files for text in _texts(file) if _OTHER_WORDS.search(text)] == []
