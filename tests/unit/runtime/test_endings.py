"""The ends of functions in whole epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.kit.epochs import Job, in_order
from tests.kit.program import Program

from penstock._engine.plan import levels
from penstock._engine.protocol.rows import PayloadKind
from penstock._engine.runtime import row_buffer
from penstock._engine.runtime.row_buffer import record_batch
from penstock.common.time import Time
from penstock.datastream.functions import CheckpointListener, CoProcessFunction, ProcessFunction
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from penstock._engine.runtime.row_buffer import ExchangeRow, RowSeals


class Ending(ProcessFunction, CheckpointListener):
    """Must see no record behind its end; what listens is kept behind the end of its input."""

    finished = False

    def process_element(self, value: Any, ctx: Any) -> Any:
        assert not self.finished
        yield value

    def finish(self) -> Any:
        self.finished = True
        yield "end"

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        pass


class EndingInputs(CoProcessFunction):
    """Must see no record of an input behind its end."""

    def __init__(self) -> None:
        self.ended: list[int] = []

    def process_element1(self, value: Any, ctx: Any) -> Any:
        assert 0 not in self.ended
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        assert 1 not in self.ended
        yield value

    def end_input(self, input_index: int) -> Any:
        self.ended.append(input_index)
        yield "end", input_index


def test_an_object_that_was_notified_of_an_end_takes_no_part_in_an_epoch_in_which_that_has_not_come(
    tmp_path: Path,
) -> None:
    program = Program(tmp_path)
    program.collect(program.source([1, 2]).process(Ending()))
    job = Job(program.graph(), tmp_path)
    assert not job.try_epoch().failures
    assert job.run(1) == {"out": [1, 2, "end"]}


def test_an_object_that_was_notified_of_the_end_of_an_input_takes_no_part_either(tmp_path: Path) -> None:
    program = Program(tmp_path)
    first, second = program.source([1], name="first"), program.source([2, 3, 4], name="second")
    program.collect(first.connect(second).process(EndingInputs()))
    job = Job(program.graph(), tmp_path)
    assert not job.try_epoch(2).failures  # the first input ends, and the epoch is void
    outputs = job.run(1)["out"]
    assert sorted(outputs, key=str) == [("end", 0), ("end", 1), 1, 2, 3, 4]


def test_an_end_of_an_input_is_told_once_over_the_epochs(tmp_path: Path) -> None:
    program = Program(tmp_path)
    first, second = program.source([1], name="first"), program.source([2, 3, 4], name="second")
    program.collect(first.connect(second).process(EndingInputs()))
    job = Job(program.graph(), tmp_path)
    job.epoch(2)
    outputs = job.restarted().run(1)["out"]
    assert sorted(outputs, key=str) == [("end", 0), ("end", 1), 1, 2, 3, 4]


def test_between_many_subtasks_all_levels_end_in_the_epoch_after_the_last_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closings: list[ExchangeRow] = []

    def noting(rows: Sequence[ExchangeRow], seals: RowSeals | None) -> Any:
        closings.extend(row for row in rows if row.kind == PayloadKind.CLOSING)
        return record_batch(rows, seals)

    monkeypatch.setattr(levels, "MAX_CLOSING_ROWS", 0)
    monkeypatch.setattr(row_buffer, "record_batch", noting)
    program = Program(tmp_path, parallelism=2)
    source = program.source([("a", 1), ("b", 2)], [("a", 3)], name="source", timestamps=in_order())
    windows = source.key_by(lambda record: record[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    counts = windows.reduce(lambda first, second: (first[0], first[1] + second[1]))
    program.collect(counts.rebalance().process(Ending()))
    job = Job(program.graph(), tmp_path)
    job.epoch()
    assert not any(ack.finished for ack in job.acks.values())
    assert not job.try_epoch().failures  # which is void
    restarted = job.restarted()
    restarted.epoch()
    for last in (job, restarted):
        outputs = last.epoch()["out"]
        assert sorted(outputs, key=str) == [("a", 4), ("b", 2), "end", "end"]
        assert last.finished
    assert closings == []
