"""The page about testing: its examples print what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.docs.programs import assert_prints_what_it_shows

if TYPE_CHECKING:
    import pytest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "testing.md"


def test_each_example_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_prints_what_it_shows(DOCUMENT, tmp_path, monkeypatch, capsys)
