"""The documents of the repository point at what exists, and their Python parses."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

from tests.kit.cells import cells

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def anchors(document: Path) -> set[str]:
    """The anchors that headings make, as code hosts spell them."""
    text = FENCE.sub("", document.read_text())
    headings = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cells("document", DOCUMENTS)
def test_links_lead_somewhere(document: Path) -> None:
    broken: list[str] = []
    for link in LINK.findall(FENCE.sub("", document.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@cells("document", DOCUMENTS)
def test_python_parses(document: Path) -> None:
    for _, language, code in FENCE.findall(document.read_text()):
        if language in {"python", "py"}:
            ast.parse(textwrap.dedent(code))
