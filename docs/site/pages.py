"""Lays out the source of the site: the repository's documents with links that hold there, and the API's pages.

In the repository a link is the path of a file. On the site it leads to the page that the file has become; one to a file
that is no page, such as a test, becomes its text.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from typing import TYPE_CHECKING, Final

from docs.site.api import api_pages, index_of, text_of
from docs.site.doors import DOORS, ROOT, documents, place_of

if TYPE_CHECKING:
    from pathlib import Path

#: Blocks of code, which have no links, or a link or picture.
_PART: Final = re.compile(
    r"^(?P<indent> *)```.*?^(?P=indent)```|(?P<picture>!?)\[(?P<text>[^\]]*)\]\(\s*(?P<link>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


def lay_out(target: Path) -> None:
    """Write all pages below a folder.

    Files that are as they were are left alone, so that Sphinx reads only what has changed.

    Args:
        target: The folder, which keeps nothing else.
    """
    pages = {f"{place_of(file)}.md": _document(file) for file in documents()}
    pages["index.md"] += "".join(_toctree(door, files) for door, files in DOORS.items())
    pages["decisions/index.md"] = _decisions()
    pages["benchmarks.md"] += f"\n```{{toctree}}\n:hidden:\n\n{_listed('benchmarks', 'benchmarks/')}\n```\n"
    api = api_pages()
    pages |= {f"{page.place}.rst": text_of(page) for page in api} | {"api/index.rst": index_of(api)}
    for name, text in pages.items():
        path = target / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in [*target.rglob("*.md"), *target.rglob("*.rst")]:
        if path.relative_to(target).as_posix() not in pages:
            path.unlink()
    shutil.copytree(ROOT / "docs" / "images", target / "images", dirs_exist_ok=True)


def _document(file: str) -> str:
    return with_links_of_the_site((ROOT / file).read_text(encoding="utf-8"), file)


def with_links_of_the_site(text: str, file: str) -> str:
    """Return a document with its links led to pages.

    Args:
        text: The document.
        file: Where it stands in the repository.
    """
    folder, here = posixpath.dirname(file), posixpath.dirname(place_of(file) or "")

    def led(part: re.Match[str]) -> str:
        link = part["link"]
        if link is None or link.startswith("#") or re.match(r"[a-z]+:", link):
            return part[0]
        path, _, anchor = link.partition("#")
        aim = posixpath.normpath(posixpath.join(folder, path))
        if part["picture"]:
            return f"![{part['text']}]({posixpath.relpath(aim.removeprefix('docs/'), here or '.')})"
        place = place_of(aim)
        if place is None:
            return part["text"]
        return f"[{part['text']}]({posixpath.relpath(f'{place}.md', here or '.')}{'#' * bool(anchor)}{anchor})"

    return _PART.sub(led, text)


def _toctree(door: str, files: tuple[str, ...]) -> str:
    places = "\n".join(f"{place_of(file)}" for file in files)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {door}\n\n{places}\n```\n"


def _decisions() -> str:
    text = "Each record has a question, the decision with its reasons and figures, and what was rejected."
    return f"# Decisions\n\n{text}\n\n```{{toctree}}\n:maxdepth: 1\n\n{_listed('decisions')}\n```\n"


def _listed(folder: str, prefix: str = "") -> str:
    """Return the lines of a table of contents for the pages of a folder below ``docs``."""
    return "\n".join(sorted(f"{prefix}{path.stem}" for path in (ROOT / "docs" / folder).glob("*.md")))
