"""The site of the documents: each page is behind one door, links lead to pages, and each public name has an entry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from docs.site.api import api_pages, missing_entries, text_of
from docs.site.doors import DOORS, ROOT, documents, place_of
from docs.site.links import dead_links
from docs.site.pages import with_links_of_the_site

if TYPE_CHECKING:
    from pathlib import Path

README = (ROOT / "README.md").read_text(encoding="utf-8")
BEHIND_DOORS = [file for files in DOORS.values() for file in files]


def test_each_document_is_behind_one_door() -> None:
    behind_others = "docs/decisions/", "docs/benchmarks/"
    pages = [file for file in documents() if file != "README.md" and not file.startswith(behind_others)]
    assert sorted(BEHIND_DOORS) == sorted([*pages, "docs/decisions", "api"])


def test_no_two_documents_have_one_place() -> None:
    places = [place_of(file) for file in [*documents(), "docs/decisions", "api"]]
    assert len(set(places)) == len(places)


def test_readme_has_the_doors_with_their_pages_in_order() -> None:
    rows = dict(re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", README, re.MULTILINE))
    linked = {door: tuple(re.findall(r"\]\((.+?)\)", row)) for door, row in rows.items()}
    assert linked == {door: tuple(file for file in files if file != "api") for door, files in DOORS.items()}


@pytest.mark.parametrize(
    ("file", "link", "led"),
    [
        ("docs/tutorial.md", "[a](windows.md#late-records)", "[a](windows.md#late-records)"),
        ("docs/tutorial.md", "[a](../README.md#two)", "[a](index.md#two)"),
        ("docs/tutorial.md", "[a](decisions)", "[a](decisions/index.md)"),
        ("docs/decisions/0001-x.md", "[a](../../BENCHMARKS.md)", "[a](../benchmarks.md)"),
        ("docs/benchmarks/rest.md", "[a](../../BENCHMARKS.md)", "[a](../benchmarks.md)"),
        ("docs/decisions/0001-x.md", "[a](\n../batch.md)", "[a](../batch.md)"),
        ("README.md", "![a](docs/images/b.png)", "![a](images/b.png)"),
        ("docs/behaviours.md", "[a test](../tests/unit/test_house.py)", "a test"),
        ("README.md", "[a](https://example.org) [b](#below)", "[a](https://example.org) [b](#below)"),
        ("README.md", "```text\n[a](docs/b.md)\n```", "```text\n[a](docs/b.md)\n```"),
    ],
)
def test_links_of_the_repository_lead_to_pages_of_the_site(file: str, link: str, led: str) -> None:
    assert with_links_of_the_site(link, file) == led


def test_dead_links_are_found_with_their_page(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="top-of-a"></h1><a href="b/c.html#there"></a><a href="#nowhere"></a>')
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.html").write_text(
        '<i id="there"></i><a href="../a.html#top-of-a"></a><img src="d.png"><a href="https://example.org/x"></a>'
    )
    assert dead_links(tmp_path) == ["a.html: #nowhere", "b/c.html: d.png"]


def test_each_public_name_is_on_one_page() -> None:
    pages = api_pages()
    own = [f"{page.module}.{name}" for page in pages for name in page.own]
    assert len(set(own)) == len(own)
    assert {"penstock.datastream.data_stream.DataStream", "penstock.testing.OperatorHarness"} <= set(own)
    (package,) = (page for page in pages if page.module == "penstock.datastream")
    assert package.shown["DataStream"] == "penstock.datastream.data_stream"
    assert all(f":: {page.module}.{name}\n" in text_of(page) for page in pages for name in page.own)


def test_a_name_or_a_member_without_an_entry_is_found() -> None:
    pages = [page for page in api_pages() if page.module == "penstock.common.job_id"]
    of_job_id = "penstock.common.job_id.JobID"
    assert of_job_id in missing_entries(pages, set())
    assert missing_entries(pages, {of_job_id, *missing_entries(pages, {of_job_id})}) == []
