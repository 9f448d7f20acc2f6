"""How the dispatches of an epoch reach its tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Never

import pytest
from tests.unit.plan.graphs import graph

from penstock._engine.plan import dispatches
from penstock._engine.plan.dispatches import pack, unpack
from penstock._engine.plan.epoch_plan import EpochPlan
from penstock._engine.plan.levels import build_plan, plan_epoch
from penstock._engine.protocol.control import (
    ChannelStatus,
    EdgeStatus,
    JobDispatch,
    LevelDispatch,
    SubtaskDispatch,
    TaskDispatch,
)
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK

JOB = JobDispatch("0" * 32, "job", "run", b"\x00\xff", None, "checkpoints")
#: Of the edge into the second level.
STATUS = EdgeStatus.of([ChannelStatus(5), ChannelStatus(7, idle=True), ChannelStatus(MAX_WATERMARK, ended=True)])


def epoch(**parts: object) -> EpochPlan:
    """Three subtasks on two slots, then five on two."""
    job = graph([3, 5], [(0, 1)])
    subtasks = {
        (vertex.id, subtask): SubtaskDispatch(vertex.id, subtask, completed_checkpoint=6)
        for vertex in job.vertices
        for subtask in range(vertex.parallelism)
    }
    common = LevelDispatch(job_attempt=0, checkpoint_id=7, level=0, inputs={0: STATUS})
    return replace(EpochPlan(7, 1, JOB, plan_epoch(build_plan(job), common, subtasks, 2, 0)), **parts)


def refuse() -> Never:
    raise AssertionError("nothing is stored")


@pytest.mark.parametrize("most", [0, 1 << 20], ids=["stored", "inline"])
def test_each_task_finds_what_it_runs(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(dispatches, "MAX_INLINE_DISPATCHES", most)
    files: dict[str, bytes] = {}
    read: list[int] = []

    def store(data: bytes) -> str:
        files["job/dispatches"] = data
        return "job/dispatches"

    def read_range(path: str, start: int, length: int) -> bytes:
        read.append(length)
        return files[path][start : start + length]

    plan = epoch(store=store)
    text = pack(plan)
    assert text.isascii()
    assert bool(files) is (most == 0)
    for number, level in enumerate(plan.levels):
        for slot, parts in enumerate(level.slots):
            task = unpack(text, JOB, (number, slot), (lambda: read_range) if files else refuse)
            assert task == TaskDispatch(JOB, replace(level, slots=()), slot, parts)
    if files:  # a task reads its level's section and its own part, and nothing else
        assert len(read) == 2 * 4
        assert sum(read[1::2]) + sum(read[0::4]) == len(files["job/dispatches"])


def test_a_level_hears_of_its_own_inputs_alone() -> None:
    first, second = epoch().levels
    assert (first.inputs, second.inputs) == ({}, {0: STATUS})


def test_what_is_the_same_for_a_whole_run_is_in_no_dispatch() -> None:
    plan = replace(epoch(), job=replace(JOB, program=b"x" * 10_000), storage_options={"s3.secret-key": "hush"})
    assert pack(plan) == pack(epoch())
    assert "hush" not in repr(plan)


@pytest.mark.parametrize("watermarks", [(3, 1, 2), (MIN_WATERMARK, MAX_WATERMARK - 1, 0), ()])
def test_the_status_of_an_edge_has_that_of_each_sender(watermarks: tuple[int, ...]) -> None:
    statuses = [ChannelStatus(watermark, idle=watermark == 1) for watermark in watermarks]
    assert EdgeStatus.of(statuses).statuses() == statuses


def test_a_sender_that_has_finished_does_not_stretch_the_others() -> None:
    assert EdgeStatus(5, (0, 2, 0), idle=(1,), ended=(2,)) == STATUS
    assert STATUS.statuses()[2].ended
