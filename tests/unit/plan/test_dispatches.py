"""How the dispatches of an epoch reach its tasks."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Never

import pytest
from tests.unit.plan.graphs import graph

from penstock._engine.plan import dispatches
from penstock._engine.plan.dispatches import pack, unpack
from penstock._engine.plan.epoch_plan import EpochPlan
from penstock._engine.plan.homes import ANYWHERE
from penstock._engine.plan.levels import build_plan, plan_epoch
from penstock._engine.protocol.control import (
    ChannelStatus,
    EdgeStatus,
    JobDispatch,
    LevelDispatch,
    OperatorRestore,
    SubtaskDispatch,
    TaskDispatch,
)
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

JOB = JobDispatch("0" * 32, "job", "run", b"\x00\xff", None, "checkpoints", b"key")
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
    return replace(EpochPlan(7, 1, JOB, plan_epoch(build_plan(job), common, subtasks, (ANYWHERE,) * 2, 0)), **parts)


def refuse() -> Never:
    raise AssertionError("nothing is stored")


@pytest.mark.parametrize(("size", "stored"), [(100 << 10, False), (200 << 10, True)])
def test_dispatches_above_256_kb_are_stored_and_tasks_get_their_path(size: int, stored: bool) -> None:
    plan, files = epoch(), list[bytes]()
    first = plan.levels[0]
    restore = {"op-0": OperatorRestore(state=random.Random(1).randbytes(size))}
    (part, *others), *slots = first.slots
    first = replace(first, slots=((replace(part, operators=restore), *others), *slots))
    text = pack(replace(plan, levels=(first, *plan.levels[1:]), store=stored_in(files)))
    assert bool(files) is stored
    assert len(text) < (1 << 10 if stored else 256 << 10)


@pytest.mark.parametrize("limit", ["MAX_INLINE_DISPATCHES", "MAX_INLINE_TOGETHER"])
@pytest.mark.parametrize("most", [0, 1 << 20], ids=["stored", "inline"])
def test_each_task_finds_what_it_runs(monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    monkeypatch.setattr(dispatches, limit, most)
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


OTHERS = {
    "of another key": {"job": replace(JOB, dispatch_key=b"another")},
    "of another attempt": {"attempt": 2},
    "of another epoch": {"checkpoint_id": 6},
    "of another start": {"levels": tuple(replace(level, job_attempt=1) for level in epoch().levels)},
}


@pytest.mark.parametrize("other", OTHERS)
def test_no_other_file_is_taken_for_the_dispatches(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    monkeypatch.setattr(dispatches, "MAX_INLINE_DISPATCHES", 0)
    files: list[bytes] = []
    texts = [pack(epoch(store=stored_in(files), **parts)) for parts in ({}, OTHERS[other])]
    with pytest.raises(CorruptCheckpointError, match=r"file 1.*it was replaced"):
        unpack(texts[0], JOB, (0, 0), lambda: lambda _, start, length: files[1][start : start + length])


def test_a_part_is_good_in_its_place_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatches, "MAX_INLINE_DISPATCHES", 0)
    files: list[bytes] = []
    text = pack(epoch(store=stored_in(files)))
    read: list[tuple[int, int]] = []

    def read_range(_: str, start: int, length: int) -> bytes:
        read.append((start, length))
        return files[0][start : start + length]

    for slot in (0, 1):
        unpack(text, JOB, (0, slot), lambda: read_range)
    _, (first, length), _, (second, _) = read

    def moved(_: str, start: int, size: int) -> bytes:
        return read_range(_, second if start == first else start, length if start == first else size)

    with pytest.raises(CorruptCheckpointError, match="it was replaced"):
        unpack(text, JOB, (0, 0), lambda: moved)


def stored_in(files: list[bytes]) -> Callable[[bytes], str]:
    def store(data: bytes) -> str:
        files.append(data)
        return f"file {len(files)}"

    return store


def test_a_level_learns_of_its_own_inputs_alone() -> None:
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
