"""Sources and sinks of a few lines: generator functions, iterables, functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import Driven, Epochs
from tests.kit.program import Program

from penstock._api.connectors.function_source import FunctionSplit
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream.connectors.base import Boundedness, FunctionSource, InputStatus, Sink
from penstock.errors import FunctionResultError
from penstock.testing.connector_contexts import RecordingOutput, TestReaderContext, TestWriterContext
from penstock.testing.source_contract import SourceContract, SourceRun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def letters(split: str, offset: int | None) -> Iterator[tuple[str, int]]:
    for position in range(offset or 0, len(split)):
        yield split[position], position + 1


def test_generator_functions_pass_the_contract() -> None:
    words = ["penstock", "", "gate", "turbine", "x"]
    SourceContract(lambda: FunctionSource(letters, words), "".join(words)).check_all()


def test_iterables_pass_the_contract() -> None:
    SourceContract(lambda: FunctionSource.of_iterable(lambda: range(5000)), range(5000)).check_all()


def test_names_of_splits_are_different() -> None:
    with pytest.raises(ValueError, match="have to be different: a, a"):
        FunctionSource(letters, ["a", "a"])


@pytest.mark.parametrize("item", [{"id": 1, "name": "a"}, 7, ("a", 1, 2)])
def test_what_is_no_record_with_an_offset_is_an_error(item: Any) -> None:
    with pytest.raises(FunctionResultError, match=r"with the item .*; it must return pairs of a record and the offset"):
        SourceRun(FunctionSource(lambda split, offset: [item]), 1).epoch()  # pyright: ignore[reportUnknownLambdaType]


def test_splits_of_an_unbounded_source_are_read_in_turn_and_wait_by_none() -> None:
    logs: dict[str, list[str]] = {"a": ["a1"], "b": []}

    def follow(split: str, offset: int | None) -> Iterator[tuple[str, int] | None]:
        position = offset or 0
        while True:
            if position < len(logs[split]):
                position += 1
                yield logs[split][position - 1], position
            else:
                yield None

    source = FunctionSource(follow, ["a", "b"], Boundedness.CONTINUOUS_UNBOUNDED)
    run = SourceRun(source, 1)
    run.epoch()
    run.epoch()
    assert run.records == ["a1"]
    logs["a"].append("a2")
    logs["b"].append("b1")
    checkpoint = run.epoch()
    assert sorted(run.records) == ["a1", "a2", "b1"]
    assert checkpoint.splits() == 2
    again = SourceRun(source, 2, checkpoint)
    logs["b"].append("b2")
    again.epoch()
    assert again.records == ["b2"]
    assert not again.finished


def test_a_slow_function_ends_its_poll_early(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(1000))
    monkeypatch.setattr("penstock._api.connectors.function_source.time.monotonic", lambda: next(now))
    reader = FunctionSource(letters, ["abc"]).create_reader(TestReaderContext())
    reader.add_splits([FunctionSplit("abc")])
    output = RecordingOutput()
    assert reader.poll_next(output) is InputStatus.MORE_AVAILABLE
    assert output.records == ["a"]


SEEN: list[Any] = []


def test_a_function_as_a_sink(tmp_path: Path) -> None:
    SEEN.clear()
    program = Program(tmp_path, 2, interval="1 s")
    source = FunctionSource(letters, ["abc", "xyz"])
    stream = program.env.from_source(source, WatermarkStrategy.no_watermarks(), "letters")
    stream.sink_to(Sink.from_function(note, flush=flushed))
    driven = Driven(program.env, tmp_path / "state", Epochs())
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
    assert sorted(one for one in SEEN if one != "flushed") == list("abcxyz")
    assert SEEN[-1] == "flushed"
    Sink.from_function(note).create_writer(TestWriterContext()).flush(end_of_input=True)


def note(letter: str) -> None:
    SEEN.append(letter)


def flushed() -> None:
    SEEN.append("flushed")
