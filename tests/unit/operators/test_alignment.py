"""Watermark alignment: readers and splits wait for the last one of their group, and nothing waits for ever."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.aligned import WAIT, AlignedJob, LastField
from tests.kit.epochs import EpochFailedError
from tests.kit.program import Program

from penstock._engine.coordinator.epochs.acks import may_read_on
from penstock.common.time import Duration
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream.functions import ProcessFunction

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.behaviour(192)


@pytest.fixture
def aligned(tmp_path: Path) -> AlignedJob:
    return AlignedJob(tmp_path)


def times(read: list[Any]) -> list[int]:
    return [record[-1] for record in read]


def test_a_source_waits_while_it_is_ahead_of_another_one_of_its_group(aligned: AlignedJob) -> None:
    aligned.source(range(0, 100, 2)).source(range(40, 100, 2))
    assert [times(read) for read in aligned.epoch(1)] == [[0], [40]]  # at first nothing is known of the group
    behind, ahead = aligned.epoch()
    assert times(behind) == list(range(2, 54, 2))  # 52 brings a watermark of more than 39 + 10
    assert ahead == []
    behind, ahead = aligned.epoch()
    assert (behind, times(ahead)) == ([], list(range(42, 66, 2)))


def test_groups_do_not_wait_for_each_other(aligned: AlignedJob) -> None:
    aligned.source([0]).source(range(100, 200), group="other").source(range(100, 200), group="other")
    assert [len(read) for read in aligned.epoch(1)] == [1, 1, 1]
    assert [len(read) for read in aligned.epoch()] == [0, 11, 11]


def test_each_source_has_its_own_drift(aligned: AlignedJob) -> None:
    aligned.source(range(1_000), drift_ms=0).source(range(1_000), drift_ms=5).source(range(1_000), drift_ms=50)
    aligned.epoch(1)
    assert [len(read) for read in aligned.epoch()] == [1, 6, 51]


def test_a_source_that_is_alone_in_its_group_is_not_slowed_down(aligned: AlignedJob) -> None:
    aligned.source(range(1_000), drift_ms=0)
    aligned.epoch(1)
    assert len(aligned.epoch()[0]) == 999


def test_subtasks_of_one_source_wait_for_each_other(aligned: AlignedJob) -> None:
    aligned.source(range(100), range(50, 150), parallelism=2)
    aligned.epoch(1)
    assert {number for number, _ in aligned.epoch()[0]} == {0}


def test_a_split_waits_while_it_is_ahead_of_the_others_of_its_reader(aligned: AlignedJob) -> None:
    aligned.source(range(100), range(50, 150))
    (read,) = aligned.epoch()
    newest = [-1, -1]
    for split, time in read:
        if time < 100 and newest[0] < 99:
            assert time <= max(min(newest) + 10, 50) + 1, (split, time)
        newest[split] = time
    assert newest == [99, 149]  # in one epoch: the reader's own watermark counts at once


def test_a_split_waits_for_another_source(aligned: AlignedJob) -> None:
    aligned.source(range(100), range(60, 160)).source([0, 30])
    aligned.epoch(2)
    assert aligned.epoch()[0] == [(0, time) for time in range(1, 42)]  # 41 brings a watermark of more than 29 + 10


def test_a_split_near_its_own_reader_waits_for_another_source(aligned: AlignedJob) -> None:
    aligned.source(range(100), range(8, 108)).source([0, *[WAIT] * 100])
    aligned.epoch(1)
    aligned.epoch()
    assert max(time for split, time in aligned.job.outputs["0"] if split == 1) == 11  # more than -1 + 10


def test_a_reader_waits_once_the_split_that_held_it_back_has_ended(aligned: AlignedJob) -> None:
    aligned.source([53, 54, 55], []).source([20, *[WAIT] * 100])
    assert [times(read) for read in aligned.epoch(1)] == [[53], [20]]
    assert aligned.epoch() == [[], []]


def test_a_reader_that_cannot_pause_splits_fails_the_job(tmp_path: Path) -> None:
    aligned = AlignedJob(tmp_path).source(range(100), range(50, 150), pauses=False)
    with pytest.raises(EpochFailedError, match="allow-unaligned-source-splits"):
        aligned.epoch()


def test_a_reader_that_cannot_pause_splits_may_be_let_go(tmp_path: Path) -> None:
    key = "pipeline.watermark-alignment.allow-unaligned-source-splits"
    aligned = AlignedJob(tmp_path, {key: "true"}).source(range(100), range(50, 150), pauses=False)
    assert len(aligned.epoch()[0]) == 200


def test_a_source_at_its_end_holds_nothing_back(aligned: AlignedJob) -> None:
    aligned.source([0, 1]).source(range(1_000))
    assert [len(read) for read in aligned.epoch(1)] == [1, 1]
    assert [len(read) for read in aligned.epoch()] == [1, 11]
    assert [len(read) for read in aligned.epoch()] == [0, 988]


@pytest.mark.parametrize("splits", [[], [[]], [[WAIT] * 1_000]], ids=["no split", "an empty one", "without records"])
def test_a_source_without_a_watermark_holds_nothing_back(aligned: AlignedJob, splits: list[Any]) -> None:
    aligned.source(*splits, stays=True).source(range(1_000))
    aligned.epoch(1)
    assert len(aligned.epoch()[1]) == 999


def test_a_reader_that_has_read_all_its_splits_and_stays_holds_nothing_back(aligned: AlignedJob) -> None:
    aligned.source([0], stays=True).source(range(1_000))
    aligned.epoch(1)
    for _ in range(3):
        aligned.epoch()
    assert len(aligned.job.outputs["1"]) == 1_000


def test_an_idle_source_holds_nothing_back_and_counts_again_with_its_next_record(aligned: AlignedJob) -> None:
    aligned.source([0, *[WAIT] * 4, 5, *[WAIT] * 50], idle_ms=250).source(range(1_000))
    assert [len(read) for read in aligned.epoch(1)] == [1, 1]
    # It waits for 100 ms in each epoch; after the third one it is idle.
    assert [[len(read) for read in aligned.epoch(5)] for _ in range(4)] == [[0, 5], [0, 5], [0, 1], [0, 5]]
    assert times(aligned.epoch(5)[0]) == [5]
    assert aligned.epoch(5) == [[], []]


class Watermarks(ProcessFunction):
    """The watermark that each record meets, and its time."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.timer_service().current_watermark(), value[-1]


def test_a_split_that_waits_does_not_become_idle(aligned: AlignedJob) -> None:
    slow = [0, WAIT, 1, WAIT, 2, WAIT, 3, WAIT, 4, 80]  # the other one waits for it for 400 ms
    aligned.source(slow, [50, 51, 52], idle_ms=300, then=lambda stream: stream.process(Watermarks()))
    while not aligned.job.finished:
        aligned.epoch()
    assert all(watermark < time for watermark, time in aligned.job.outputs["0"])


def test_a_source_that_waits_for_its_group_does_not_call_for_the_next_epoch(aligned: AlignedJob) -> None:
    aligned.source([0, *[WAIT] * 50]).source(range(1_000))
    aligned.epoch(1)
    aligned.epoch(1_000)
    job = aligned.job
    assert not any(part.more_available for ack in job.acks.values() for part in ack.operators.values())
    assert not may_read_on(job.alignment)


def test_a_split_that_waits_for_its_own_reader_does_not_call_for_the_next_epoch(aligned: AlignedJob) -> None:
    aligned.source([0, *[WAIT] * 50], range(50, 100)).source(range(30, 90), stays=True)
    aligned.epoch()
    assert len(aligned.job.outputs["0"]) == 2
    assert not may_read_on(aligned.job.alignment)


@pytest.mark.parametrize("restarts", [False, True])
def test_what_a_source_waits_for_outlasts_a_restart(aligned: AlignedJob, *, restarts: bool) -> None:
    aligned.source([0, *[WAIT] * 50]).source(range(1_000))
    aligned.epoch(1)
    assert len(aligned.epoch()[1]) == 11
    if restarts:
        aligned.restart()
    assert aligned.epoch() == [[], []]


def test_an_alignment_of_no_source_has_no_effect_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.common.config_check._said", set())
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(LastField())
    aligned = strategy.with_watermark_alignment("group", Duration.of_millis(10))
    with caplog.at_level(logging.WARNING):
        Program(tmp_path).source([1]).assign_timestamps_and_watermarks(aligned)
    assert "only sources can pause" in caplog.text
