"""The programs of how-to pages print what the pages show, with jobs in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.programs import assert_prints_what_it_shows
from tests.kit.without_spark import Cluster

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["rescaling", "upgrading"])
def test_each_step_prints_what_the_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Cluster(tmp_path / "cluster").patch(monkeypatch)
    place = tmp_path / "place"
    place.mkdir()
    assert_prints_what_it_shows(DOCS / f"{page}.md", place, monkeypatch, capsys)
