"""The tutorial's programs print what it shows: the first steps as one program, and the job that is changed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.docs.programs import assert_prints_what_it_shows
from tests.kit.without_spark import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_each_step_prints_what_the_tutorial_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_prints_what_it_shows(TUTORIAL, tmp_path, monkeypatch, capsys)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Starts `counts.py`, with the settings of the page, and returns its client; the job runs in this process."""
    Cluster(tmp_path / "cluster").patch(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (settings,) = map(yaml.safe_load, blocks("yaml"))
    for key, value in settings.items():
        name = f"PENSTOCK_{key.upper().replace('.', '__').replace('-', '_')}"
        monkeypatch.setenv(name, value)

    def start(program: str) -> Any:
        main = ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", main)
        faster = program.replace("per_second(3)", "per_second(300)")
        exec(compile(faster.replace("env.execute(", "client = env.execute_async("), "counts.py", "exec"), vars(main))
        return vars(main)["client"]

    return start


def test_the_counts_continue_after_a_function_has_changed(
    started: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, changed = blocks("py")
    (last_line,) = re.findall(r"yield .*\n", program)

    def lines_of(program: str) -> list[str]:
        client, printed = started(program), ""
        while not printed:
            client.trigger_savepoint().result()
            printed = capsys.readouterr().out
        client.stop_with_savepoint(False).result()
        return (printed + capsys.readouterr().out).splitlines()

    before = lines_of(program)
    monkeypatch.setenv("PENSTOCK_EXECUTION__STATE_RECOVERY__PATH", "latest")
    after = lines_of(program.replace(last_line, changed))
    airports = ("EWR", "JFK", "LGA")
    assert before == [f"{airports[number % 3]} {number // 3 + 1}" for number in range(len(before))]
    both = range(len(before), len(before) + len(after))
    assert after == [f"{number // 3 + 1} flights from {airports[number % 3]}" for number in both]
