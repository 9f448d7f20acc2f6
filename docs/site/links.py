"""Checks the links within the site: each leads to a page that is there, and to a place on it."""

from __future__ import annotations

import posixpath
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path


class _Page(HTMLParser):
    """The links of a page, and the places on it to which links may lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag has of both."""
        for name, value in attrs:
            if value and name in {"href", "src"}:
                self.links.add(value)
            elif value and name in {"id", "name"}:
                self.places.add(value)


def dead_links(site: Path) -> list[str]:
    """Return the links that lead nowhere, each with its page.

    Args:
        site: The folder of the site.
    """
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    pages = {name: _Page((site / name).read_text(encoding="utf-8")) for name in sorted(files) if name.endswith(".html")}
    dead: list[str] = []
    for name, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            folder = posixpath.dirname(name)
            aim = posixpath.normpath(posixpath.join(folder, unquote(parts.path))) if parts.path else name
            there = pages.get(aim)
            if aim not in files or (there and unquote(parts.fragment) not in there.places):
                dead.append(f"{name}: {link}")
    return dead
