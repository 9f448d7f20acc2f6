"""The page about testing: its tests pass, and its examples print what it shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.programs import assert_prints_what_it_shows
from tests.kit.without_spark import Cluster

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "testing.md"


def test_each_example_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_prints_what_it_shows(DOCUMENT, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("name", ["test_words", "test_word_counts"])
def test_the_tests_of_the_page_pass_and_can_fail(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(tmp_path).patch(monkeypatch)
    blocks = re.findall(r"^```py\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if f"def {name}(" in block)

    def run(text: str) -> None:
        main = ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", main)
        exec(compile(text, str(DOCUMENT), "exec"), vars(main))
        vars(main)[name]()

    run(block)
    with pytest.raises(AssertionError):
        run(block.replace("line.split()", "line"))
