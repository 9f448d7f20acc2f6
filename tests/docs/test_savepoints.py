"""The page about savepoints, run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.programs import assert_prints_what_it_shows

PAGE = Path(__file__).resolve().parents[2] / "docs" / "savepoints.md"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_each_step_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_prints_what_it_shows(PAGE, tmp_path, monkeypatch, capsys)
