"""The tutorial's blocks, run from top to bottom as one program, print what the tutorial says."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.programs import assert_prints_what_it_shows

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_each_step_prints_what_the_tutorial_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_prints_what_it_shows(TUTORIAL, tmp_path, monkeypatch, capsys)
