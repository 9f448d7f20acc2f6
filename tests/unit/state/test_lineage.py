from __future__ import annotations

from typing import Literal

from penstock._engine.protocol.key_groups import key_group_range
from penstock._engine.protocol.state_handle import StateHandle, rescale
from penstock._engine.state.local.lineage import ORIGIN, steps

OWN = range(64)


def handle(checkpoint_id: int, kind: Literal["delta", "snapshot"] = "delta", groups: range = OWN) -> StateHandle:
    return StateHandle(checkpoint_id, 100 + checkpoint_id, kind, "f", None, 0, 0, 0, (groups.start, groups.stop - 1))


def test_job_without_a_snapshot_starts_from_nothing() -> None:
    assert [step.position for step in steps((), OWN)] == [ORIGIN]
    assert [step.position for step in steps((handle(1), handle(3)), OWN)] == [ORIGIN, (1, 101), (3, 103)]


def test_own_snapshot_is_the_position_at_which_it_was_written() -> None:
    way = steps((handle(4, "snapshot"), handle(5)), OWN)
    assert [step.position for step in way] == [(4, 104), (5, 105)]
    assert [len(step.handles) for step in way] == [1, 1]


def test_files_of_other_key_groups_are_one_step_together() -> None:
    left, right = handle(4, "snapshot", range(32)), handle(4, "snapshot", range(32, 64))
    way = steps((left, right, handle(5, groups=range(32, 64)), handle(6)), OWN)
    assert [len(step.handles) for step in way] == [3, 1]
    assert way[0].position not in {(4, 104), (5, 105)}
    assert way[0].position != steps((left, right), OWN)[0].position
    assert way[0].position[0] == 5


def test_rescale_gives_each_file_to_the_subtasks_that_need_it_and_no_key_group_twice() -> None:
    old = [
        (handle(4, "snapshot", groups), handle(5, groups=groups))
        for groups in (key_group_range(subtask, 3, 128) for subtask in range(3))
    ]
    for parallelism in (1, 2, 3, 7, 128):
        for subtask in range(parallelism):
            groups = key_group_range(subtask, parallelism, 128)
            lineage = rescale(old, groups)
            for kind in ("snapshot", "delta"):
                covered = [
                    group
                    for part in lineage
                    if part.kind == kind
                    for group in range(part.key_groups[0], part.key_groups[1] + 1)
                ]
                assert covered == list(groups)
