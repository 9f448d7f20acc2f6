"""The lanes of `dev.py test`: the longest file first, and one session of Spark as long as that can be."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.assertion import rewrite
from tests import lanes, minutes

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = {"on_spark.py": 9.0, "little_on_spark.py": 2.0, "long.py": 30.0, "short.py": 3.0}
ALL = ["new.py", "short.py", "long.py", "little_on_spark.py", "on_spark.py"]


@pytest.fixture(autouse=True)
def _recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "recorded_s", lambda: SECONDS)
    monkeypatch.setattr(lanes, "shares_session", {file: "on_spark" in file for file in ALL}.get)


@pytest.mark.parametrize(
    ("has_session", "order"),
    [
        (True, ["on_spark.py", "little_on_spark.py", "long.py", "short.py", "new.py"]),
        (False, ["long.py", "short.py", "new.py", "little_on_spark.py", "on_spark.py"]),
    ],
)
def test_lane_takes_the_longest_of_its_own_and_then_what_the_others_would_need_least_time_for(
    has_session: bool, order: list[str]
) -> None:
    waiting, taken = list(ALL), list[str]()
    while waiting:
        taken.append(lanes.next_file(waiting, has_session=has_session))
        waiting.remove(taken[-1])
    assert taken == order


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("def test_x(tmp_path: Path, spark: SparkHandle) -> None: ...", True),
        ('@pytest.mark.usefixtures("spark")', True),
        ("pytestmark = pytest.mark.spark  # in a process of its own", False),
        ("def check(spark: SparkHandle | None = None) -> None: ...", False),
    ],
)
def test_file_shares_the_session_where_a_test_asks_for_it(text: str, shares: bool) -> None:
    assert (lanes.SESSION.search(text) is not None) == shares


def test_asserts_are_rewritten_once_for_all_lanes_and_anew_for_a_changed_file(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten: list[Path] = []
    rewriting = rewrite._rewrite_test
    monkeypatch.setattr(
        rewrite, "_rewrite_test", lambda file, config: rewritten.append(file) or rewriting(file, config)
    )
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(lanes, "TESTS", tmp_path)
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    (tmp_path / "src").mkdir()
    file = tmp_path / "test_one.py"
    for text in ("def test(): assert 1", "def test(): assert 2"):
        file.write_text(text)
        lanes.compile_once(pytestconfig)
        lanes.compile_once(pytestconfig)
    assert rewritten == [file, file]
    assert [path.suffix for path in (tmp_path / "__pycache__").iterdir()] == [".pyc"]


def test_a_process_that_is_waited_for_while_others_are_looked_at_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waited, running = iter([0.0, 9_000.0, 9_000.0]), iter([0.0, 20.0])
    monkeypatch.setattr(minutes, "waited_s", lambda: next(waited))
    monkeypatch.setattr(minutes, "running_s", lambda process: [next(running)])
    assert minutes.processor_s() - time.process_time() == pytest.approx(9_020, abs=5)


def test_of_many_cases_of_one_law_a_run_draws_some_and_of_each_function_one_at_least() -> None:
    law, alone, other = [f"t.py::law[{case}]" for case in range(9)], "t.py::alone", "t.py::other"
    marked = {**dict.fromkeys([*law, alone], 4), other: None}

    def draw(seed: int) -> list[str]:
        items: list[Any] = [_Item(nodeid, parts) for nodeid, parts in marked.items()]
        return [item.nodeid for item in lanes.drawn(items, str(seed))]

    for seed in range(20):
        assert draw(seed) == draw(seed)
        assert len(draw(seed)) == 5
        assert {alone, other} < set(draw(seed)) <= {*law, alone, other}
    assert {nodeid for seed in range(40) for nodeid in draw(seed)} == set(marked)


@dataclass
class _Item:
    nodeid: str
    parts: int | None

    def get_closest_marker(self, _: str) -> pytest.Mark | None:
        return None if self.parts is None else pytest.mark.sampled(self.parts).mark
