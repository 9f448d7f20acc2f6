"""Documents whose Python is one program, and what it prints."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def assert_prints_what_it_shows(
    document: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run the Python blocks of a document as one main program, and compare what each prints with the block behind it.

    The program runs in this process, in a place, on the session that all tests share.
    """
    blocks = BLOCK.findall(document.read_text(encoding="utf-8"))
    steps = [text for kind, text in blocks if kind == "python"]
    shown = [text for kind, text in blocks if kind == "text"]
    assert steps, f"{document.name} has no step"
    assert [kind for kind, _ in blocks] == ["python", "text"] * len(steps)

    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.chdir(place)
    for step, expected in zip(steps, shown, strict=True):
        exec(compile(step, str(document), "exec"), vars(main))
        assert capsys.readouterr().out == expected
