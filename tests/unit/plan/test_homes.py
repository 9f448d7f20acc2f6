"""On a cluster subtasks return to the hosts that have their state, and only those of a lost host move."""

from __future__ import annotations

from collections import Counter

from tests.unit.plan.graphs import graph

from penstock._engine.plan.homes import ANYWHERE, Homes
from penstock._engine.plan.levels import build_plan, placement, plan_epoch
from penstock._engine.protocol.control import LevelDispatch, SubtaskDispatch
from penstock._engine.protocol.rows import subtask_target

COMMON = LevelDispatch(job_attempt=0, checkpoint_id=1, level=0)


def subtasks(*parallelisms: int) -> list[tuple[int, int]]:
    return [(vertex, one) for vertex, parallelism in enumerate(parallelisms) for one in range(parallelism)]


def seat(homes: Homes, level: list[tuple[int, int]], *hosts: str) -> dict[tuple[int, int], str]:
    assigned = homes.assign_slots(level, hosts)
    assert len(assigned.hosts) == max(1, min(len(level), len(hosts)))
    assert not Counter(assigned.hosts) - Counter(hosts)
    assert sorted(assigned.slots) == level
    return {subtask: assigned.hosts[slot] for subtask, slot in assigned.slots.items()}


def test_subtasks_return_in_whatever_order_hosts_are_listed() -> None:
    homes, level = Homes(), subtasks(6, 3, 1)
    first = seat(homes, level, "a", "a", "b", "b")
    assert set(first.values()) == {"a", "b"}
    assert seat(homes, level, "b", "a", "b", "a") == first


def test_only_the_subtasks_of_a_lost_host_move_and_return_to_their_new_hosts() -> None:
    homes, level = Homes(), subtasks(7, 2)
    before = seat(homes, level, "a", "a", "b", "b", "c", "c")
    after = seat(homes, level, "a", "a", "c", "c")
    moved = {subtask for subtask in level if before[subtask] != after[subtask]}
    assert moved == {subtask for subtask in level if before[subtask] == "b"}
    assert seat(homes, level, "c", "c", "a", "a") == after


def test_a_new_host_gets_no_more_than_its_share() -> None:
    homes, level = Homes(), subtasks(8)
    seat(homes, level, "a", "a")
    after = seat(homes, level, "a", "a", "b", "b")
    assert Counter(after.values()) == {"a": 4, "b": 4}


def test_a_level_with_few_subtasks_uses_all_hosts_and_keeps_them_when_there_are_more() -> None:
    homes, level = Homes(), subtasks(2)
    first = seat(homes, level, "a", "a", "a", "b", "b", "b")
    assert set(first.values()) == {"a", "b"}
    assert seat(homes, level, "a", "b", "c", "d") == first


def test_tasks_that_wait_for_an_executor_have_no_home_yet() -> None:
    homes, level = Homes(), subtasks(4)
    first = seat(homes, level, "a", "b", ANYWHERE, ANYWHERE)
    assert Counter(first.values()) == {"a": 1, "b": 1, ANYWHERE: 2}
    second = seat(homes, level, "a", "b", "c", "c")
    assert Counter(second.values()) == {"a": 1, "b": 1, "c": 2}
    assert all(second[subtask] == host for subtask, host in first.items() if host != ANYWHERE)


def test_a_level_without_subtasks_has_a_slot() -> None:
    assert Homes().assign_slots([], ("a", "b")).hosts in {("a",), ("b",)}


def test_tasks_know_the_slots_of_all_subtasks_to_which_rows_go_from_there_and_of_no_others() -> None:
    # From the first vertex an edge skips a level.
    job, homes = build_plan(graph([3, 5, 1, 2], [(0, 1), (1, 2), (0, 3), (2, 3)])), Homes()
    reached = [{1, 3}, {2, 3}, {3}, set[int]()]
    for hosts in (("a", "b", "c"), ("a", "c"), ("a", "c", "d", "d")):
        dispatches = {place: SubtaskDispatch(*place) for place in subtasks(3, 5, 1, 2)}
        levels = plan_epoch(job, COMMON, dispatches, hosts, 1, homes=homes)
        slots = {
            subtask_target(part.vertex, part.subtask): slot
            for level in levels
            for slot, parts in enumerate(level.slots)
            for part in parts
        }
        for level, vertices in zip(levels, reached, strict=True):
            assert len(level.hosts) == len(level.slots) == level.widths[level.level]
            assert level.placed.keys() == vertices
            placed = placement(job, level.running, level.widths, level.placed)
            assert {target: slot for target, slot in placed.items() if target >> 16 in vertices} == {
                target: slot for target, slot in slots.items() if target >> 16 in vertices
            }


def test_on_one_host_slots_follow_from_the_numbers_of_the_subtasks() -> None:
    dispatches = {place: SubtaskDispatch(*place) for place in subtasks(3)}
    (level,) = plan_epoch(build_plan(graph([3], [])), COMMON, dispatches, ("a", "a", ANYWHERE), 0, homes=Homes())
    assert level.hosts == ()
    assert level.placed == {}
