"""README's programs print what it shows; the one without an end gets one here."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from tests.docs.programs import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def output_of(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Runs a text as a main program, and returns what it prints."""

    def run(text: str) -> str:
        main = ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", main)
        monkeypatch.chdir(tmp_path)
        exec(compile(text, "README.md", "exec"), vars(main))
        return capsys.readouterr().out

    return run


@pytest.mark.spark
def test_the_first_program_prints_what_stands_below_it(output_of: Callable[[str], str]) -> None:
    (_, program), (_, shown), *_ = BLOCK.findall(README)
    assert output_of(program) == shown


@pytest.mark.spark
def test_prices_prints_the_highest_one_of_each_market(output_of: Callable[[str], str]) -> None:
    (program,) = (text for kind, text in BLOCK.findall(README) if kind == "python" and "DataGeneratorSource" in text)
    ten = output_of(program.replace("price, None,", "price, 10,").replace("per_second(10)", "per_second(1_000)"))
    lines = re.findall(r"\('(\w+)', (\d+)\)", ten)
    assert len(lines) == 10
    assert {market: int(price) for market, price in lines} == {"Lisbon": 110, "Milan": 107, "Paris": 103}
    _, (_, shown), *_ = (block for block in BLOCK.findall(README) if block[0] == "text")
    assert ten.startswith(shown)
