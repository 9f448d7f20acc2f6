"""The page for those who know PyFlink: its program is ported as it says, and then prints what it shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.programs import BLOCK

from penstock._engine.cli.main import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "from-pyflink.md").read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_program_is_ported_and_runs_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (_, program), (_, said), (_, printed) = BLOCK.findall(PAGE)
    (command,) = re.findall(r"^```sh\npenstock (port .+)\n```$", PAGE, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    Path("delays.py").write_text(program, encoding="utf-8")
    main(command.split())
    assert capsys.readouterr().err == said

    running = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", running)
    exec(compile(Path("delays.py").read_text(encoding="utf-8"), "delays.py", "exec"), vars(running))
    assert capsys.readouterr().out == printed


def test_its_numbers_of_names_are_those_of_the_list() -> None:
    listed = (DOCS / "pyflink-compatibility.md").read_text(encoding="utf-8")
    ((names, here),) = re.findall(r"Of ([\d,]+) public names.*?\) ([\d,]+) are here", listed, re.DOTALL)
    assert f"{here} of PyFlink's {names} public names" in PAGE
