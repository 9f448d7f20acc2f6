"""Levels of a job graph, and the placement of an epoch's subtasks on slots."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.plan.graphs import FORWARD, RESCALE, graph

from penstock._engine.plan.homes import ANYWHERE
from penstock._engine.plan.levels import build_plan, placement, plan_epoch
from penstock._engine.protocol.control import LevelDispatch, StopMode, SubtaskDispatch
from penstock._engine.protocol.rows import channel_number, subtask_target

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import JobGraph

COMMON = LevelDispatch(job_attempt=0, checkpoint_id=1, level=0)


def plan(
    job: JobGraph,
    *,
    slots: int = 2,
    rotation: int = 0,
    finished: set[tuple[int, int]] | None = None,
    max_time_ms: int = 0,
) -> tuple[LevelDispatch, ...]:
    dispatches = {
        (vertex.id, subtask): SubtaskDispatch(vertex.id, subtask, max_time_ms=max_time_ms if vertex.is_source else 0)
        for vertex in job.vertices
        for subtask in range(vertex.parallelism)
        if (vertex.id, subtask) not in (finished or set())
    }
    return plan_epoch(build_plan(job), COMMON, dispatches, (ANYWHERE,) * slots, rotation)


def places(level: LevelDispatch) -> list[list[tuple[int, int]]]:
    return [[(part.vertex, part.subtask) for part in slot] for slot in level.slots]


# ------------------------------------------------------------------------------------------------------------- levels


def test_a_vertex_stands_below_its_deepest_input() -> None:
    #   0 → 1 → 2 → 4
    #   3 ----------↗
    assert build_plan(graph([1] * 5, [(0, 1), (1, 2), (2, 4), (3, 4)])).level_of == (0, 1, 2, 0, 3)


def test_a_diamond_meets_below_both_of_its_sides() -> None:
    job = build_plan(graph([1] * 5, [(0, 1), (0, 2), (2, 3), (1, 4), (3, 4)]))
    assert job.levels == ((0,), (1, 2), (3,), (4,))


def test_several_sources_share_the_first_level() -> None:
    assert build_plan(graph([1, 2, 3], [(0, 2), (1, 2)])).levels == ((0, 1), (2,))


# ----------------------------------------------------------------------------------------------------------- channels


@pytest.mark.parametrize(
    ("up", "down", "receivers"),
    [
        # As Flink connects pointwise edges (EdgeManagerBuildUtil): a receiver reads a range of senders, or one.
        (2, 4, [[0, 1], [2, 3]]),
        (4, 2, [[0], [0], [1], [1]]),
        (2, 3, [[0, 1], [2]]),
        (3, 2, [[0], [1], [1]]),
        (5, 3, [[0], [1], [1], [2], [2]]),
        (3, 3, [[0], [1], [2]]),
        (1, 3, [[0, 1, 2]]),
        (3, 1, [[0], [0], [0]]),
        (4, 6, [[0, 1], [2], [3, 4], [5]]),
    ],
)
def test_a_rescale_edge_connects_neighbours(up: int, down: int, receivers: list[list[int]]) -> None:
    job = build_plan(graph([up, down], [(0, 1, RESCALE)]))
    edge = job.graph.edges[0]
    assert [list(job.receivers(edge, sender)) for sender in range(up)] == receivers
    senders = [[sender for sender in range(up) if receiver in receivers[sender]] for receiver in range(down)]
    assert [list(job.senders(edge, receiver)) for receiver in range(down)] == senders
    assert all(senders)


def test_every_pair_of_parallelisms_leaves_no_subtask_of_a_rescale_edge_alone() -> None:
    for up in range(1, 20):
        for down in range(1, 20):
            job = build_plan(graph([up, down], [(0, 1, RESCALE)]))
            reached = [receiver for sender in range(up) for receiver in job.receivers(job.graph.edges[0], sender)]
            assert set(reached) == set(range(down)), (up, down)
            assert all(job.receivers(job.graph.edges[0], sender) for sender in range(up)), (up, down)


def test_a_forward_edge_connects_equal_subtasks_and_others_all_with_all() -> None:
    job = build_plan(graph([2, 2, 3], [(0, 1, FORWARD), (1, 2)]))
    forward, all_to_all = job.graph.edges
    assert list(job.receivers(forward, 1)) == [1]
    assert list(job.senders(forward, 1)) == [1]
    assert list(job.receivers(all_to_all, 1)) == [0, 1, 2]
    assert list(job.senders(all_to_all, 2)) == [0, 1]


def test_the_channels_of_a_union_are_told_apart_by_edge_and_sender() -> None:
    job = build_plan(graph([2, 1, 2], [(0, 2), (1, 2)]))
    assert set(job.channels_into(2, 1)) == {channel_number(0, 0), channel_number(0, 1), channel_number(1, 0)}


# ---------------------------------------------------------------------------------------------------------- placement


def test_a_level_has_no_more_slots_than_subtasks_or_than_can_run_at_once() -> None:
    levels = plan(graph([1, 3, 5], [(0, 1), (1, 2)]), slots=4)
    assert [level.widths for level in levels] == [(1, 3, 4)] * 3
    assert [level.level for level in levels] == [0, 1, 2]


def test_every_subtask_runs_in_exactly_one_slot_and_rows_are_sent_there() -> None:
    job = graph([3, 1, 5, 2], [(0, 2), (1, 2), (2, 3), (0, 3)])
    levels = plan(job, slots=2)
    found = [place for level in levels for slot in places(level) for place in slot]
    assert sorted(found) == [(vertex.id, subtask) for vertex in job.vertices for subtask in range(vertex.parallelism)]
    placed = placement(build_plan(job), levels[0].running, levels[0].widths, {})
    for level in levels:
        for number, slot in enumerate(places(level)):
            for vertex, subtask in slot:
                assert placed[subtask_target(vertex, subtask)] == number


def test_equal_subtasks_of_vertices_in_one_level_share_a_slot() -> None:
    [first, _] = plan(graph([2, 2, 1], [(0, 2), (1, 2)]))
    assert places(first) == [[(0, 0), (1, 0)], [(0, 1), (1, 1)]]


def test_vertices_of_one_subtask_are_spread_over_the_slots() -> None:
    [first, _] = plan(graph([1, 1, 1, 1, 1], [(0, 4), (1, 4), (2, 4), (3, 4)]))
    assert places(first) == [[(0, 0), (2, 0)], [(1, 0), (3, 0)]]


def test_finished_subtasks_are_left_out_and_the_others_spread_anew() -> None:
    [first, second] = plan(graph([4, 2], [(0, 1)]), finished={(0, 0), (0, 2)})
    assert places(first) == [[(0, 1)], [(0, 3)]]
    assert first.running == {0: ((1, 2), (3, 4)), 1: ((0, 2),)}
    assert places(second) == [[(1, 0)], [(1, 1)]]


def test_a_level_whose_subtasks_have_all_finished_keeps_a_slot_to_carry_rows() -> None:
    levels = plan(graph([1, 1, 1, 1], [(0, 1), (1, 3), (2, 3)]), finished={(0, 0), (1, 0)})
    assert [places(level) for level in levels] == [[[(2, 0)]], [[]], [[(3, 0)]]]


def test_the_sources_of_a_slot_share_its_time() -> None:
    [first, second] = plan(graph([5, 1], [(0, 1)]), slots=2, max_time_ms=1000)
    assert [[part.max_time_ms for part in slot] for slot in first.slots] == [[334, 334, 334], [500, 500]]
    assert second.slots[0][0].max_time_ms == 0


def test_the_order_in_a_slot_rotates_from_epoch_to_epoch() -> None:
    job = graph([3, 1], [(0, 1)])
    orders = [places(plan(job, slots=1, rotation=rotation)[0])[0] for rotation in range(4)]
    assert [order[0][1] for order in orders] == [0, 1, 2, 0]
    assert all(sorted(order) == [(0, 0), (0, 1), (0, 2)] for order in orders)


# --------------------------------------------------------------------------------------------------------------- ends


def ending(
    job: JobGraph, ends: set[tuple[int, int]], *, finished: set[tuple[int, int]] | None = None, drain: bool = False
) -> dict[int, tuple[tuple[int, int], ...]]:
    dispatches = {
        (vertex.id, subtask): SubtaskDispatch(vertex.id, subtask, ends=(vertex.id, subtask) in ends)
        for vertex in job.vertices
        for subtask in range(vertex.parallelism)
        if (vertex.id, subtask) not in (finished or set())
    }
    common = replace(COMMON, stop=StopMode.DRAIN if drain else StopMode.NO)
    first, *others = [level.ending for level in plan_epoch(build_plan(job), common, dispatches, (ANYWHERE,) * 2, 0)]
    assert all(other == first for other in others)
    return first


def test_the_end_of_all_sources_ends_everything_behind_them_in_the_same_epoch() -> None:
    job = graph([2, 1, 3, 2], [(0, 2), (1, 2), (2, 3)])
    assert ending(job, {(0, 0), (0, 1), (1, 0)}) == {0: ((0, 2),), 1: ((0, 1),), 2: ((0, 3),), 3: ((0, 2),)}


def test_a_sender_that_goes_on_keeps_its_receivers_and_those_that_have_finished_do_not() -> None:
    job = graph([3, 2], [(0, 1)])
    assert ending(job, {(0, 0), (0, 2)}) == {0: ((0, 1), (2, 3))}
    assert ending(job, {(0, 0), (0, 2)}, finished={(0, 1)}) == {0: ((0, 1), (2, 3)), 1: ((0, 2),)}


def test_only_the_own_senders_of_a_pointwise_edge_count() -> None:
    assert ending(graph([3, 3, 3], [(0, 1, FORWARD), (1, 2, FORWARD)]), {(0, 1)}) == dict.fromkeys(range(3), ((1, 2),))
    assert ending(graph([4, 2], [(0, 1, RESCALE)]), {(0, 0), (0, 1)}) == {0: ((0, 2),), 1: ((0, 1),)}


def test_a_drain_ends_what_runs() -> None:
    assert ending(graph([2, 2], [(0, 1)]), set(), finished={(0, 1)}, drain=True) == {0: ((0, 1),), 1: ((0, 2),)}
