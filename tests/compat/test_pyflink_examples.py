"""PyFlink's own DataStream examples of release 2.3 run with nothing but their imports changed, by ``penstock port``.

They come from PyFlink's package, which ``make tools`` puts aside; nothing else of it is used. What they have to print
follows from PyFlink's documentation: the comments in the examples, the text forms of ``print`` for typed and untyped
streams, one result for each key in batch mode, and state that is empty for a key's first record.
"""

from __future__ import annotations

import runpy
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.services.tools import PYFLINK

from penstock._engine.cli.porting import ported

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = PYFLINK / "pyflink" / "examples" / "datastream"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark"),
    pytest.mark.skipif(not EXAMPLES.is_dir(), reason="PyFlink's examples are not here (make tools)"),
]

_UPDATED = [
    """(1, '{"name": "Flink", "tel": 124, "addr": {"country": "Germany", "city": "Berlin"}}')""",
    """(2, '{"name": "hello", "tel": 136, "addr": {"country": "China", "city": "Shanghai"}}')""",
    """(3, '{"name": "world", "tel": 125, "addr": {"country": "USA", "city": "NewYork"}}')""",
    """(4, '{"name": "PyFlink", "tel": 33, "addr": {"country": "China", "city": "Hangzhou"}}')""",
]
_TO_STDOUT = "Printing result to stdout. Use --output to specify output path."
_TIMES = (1, 2, 3, 4, 5, 8, 9, 15)
#: The windows of 5 ms that begin every 2 ms, with the records in each.
_SLIDING = [(start, start + 5, sum(start <= time < start + 5 for time in _TIMES)) for start in range(-4, 16, 2)]
#: What an example prints, line by line.
EXPECTED = {
    "basic_operations": [
        *(*_UPDATED, _UPDATED[0]),
        *("('Germany', 123)", "('China', 135)", "('USA', 124)", "('China', 167)"),
    ],
    "process_json_data": [
        "(2, {'name': 'hello', 'tel': 136, 'addr': {'country': 'China', 'city': 'Shanghai'}})",
        "(4, {'name': 'PyFlink', 'tel': 33, 'addr': {'country': 'China', 'city': 'Hangzhou'}})",
    ],
    "windowing/tumbling_time_window": [_TO_STDOUT, "(hi,0,5,4)", "(hi,5,10,3)", "(hi,15,20,1)"],
    "windowing/sliding_time_window": [
        _TO_STDOUT,
        *(f"(hi,{start},{end},{count})" for start, end, count in _SLIDING if count),
    ],
    "windowing/session_with_gap_window": [_TO_STDOUT, "(hi,1,14,6)", "(hi,15,20,1)"],
    "windowing/session_with_dynamic_gap_window": [_TO_STDOUT, "(hi,1,30,7)"],
    "windowing/tumbling_count_window": [_TO_STDOUT, "(hi,4)", "(hello,6)", "(hello,12)"],
}


def printed(name: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run an example, and return the lines that it prints."""
    done = ported((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
    assert done.findings == ()
    program = folder / f"{name.rpartition('/')[2]}.py"
    program.write_text(done.text, encoding="utf-8")
    monkeypatch.setattr("sys.argv", [str(program)])
    capsys.readouterr()
    runpy.run_path(str(program), run_name="__main__")
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", EXPECTED)
def test_example_prints_what_it_says(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert printed(name, tmp_path, capsys, monkeypatch) == EXPECTED[name]


def sums(lines: list[str]) -> dict[str, list[float]]:
    """Return the sums of each name in their order; a sum of floats is compared as a number."""
    found: dict[str, list[float]] = {}
    for line in lines:
        name, number = eval(line)
        found.setdefault(name, []).append(number)
    return found


def test_state_access_sums_up_for_each_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sums(printed("state_access", tmp_path, capsys, monkeypatch))
    assert found == {
        "Alice": pytest.approx([110.1, 130.1, 143.2, 163.3], rel=1e-6),
        "Bob": pytest.approx([30.2, 83.3, 86.4, 102.5], rel=1e-6),
    }


def test_event_time_timer_shows_the_sum_two_seconds_after_each_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records come before the watermark moves far, in one batch of the periodic generator: each timer sees all."""
    found = sums(printed("event_time_timer", tmp_path, capsys, monkeypatch))
    assert {name: len(values) for name, values in found.items()} == {"Alice": 4, "Bob": 4}
    assert found["Alice"][-1] == pytest.approx(163.3, rel=1e-6)
    assert found["Bob"][-1] == pytest.approx(102.5, rel=1e-6)
    assert all(values == sorted(values) for values in found.values())


def test_word_count_counts_each_word_once_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed("word_count", tmp_path, capsys, monkeypatch)
    text = runpy.run_path(str(tmp_path / "word_count.py"))["word_count_data"]
    expected = Counter(word for line in text for word in line.split())
    assert sorted(lines[3:]) == sorted(f"({word},{count})" for word, count in expected.items())
