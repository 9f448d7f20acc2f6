"""What a recovered batch job still has to do: the replay of its events, and the walk from its ends to their needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.plan.graphs import FORWARD, HASH, graph

from penstock._engine.coordinator.stages.replay import RecoveredJob, replay
from penstock._engine.coordinator.stages.walk_back import walk_back
from penstock._engine.plan.levels import build_plan
from penstock._engine.protocol.job_events import (
    CoordinatorSnapshot,
    ExecutionJobVertexInitializedEvent,
    ExecutionVertexFinishedEvent,
    ExecutionVertexResetEvent,
)

Place = tuple[int, int]
#: Two sources, a join, a vertex behind it subtask by subtask, and a last one.
PLAN = build_plan(graph([2, 2, 2, 2, 2], [(0, 2), (1, 2), (2, 3, FORWARD), (3, 4)]))
ALL = [(vertex, subtask) for vertex in range(5) for subtask in range(2)]


def finished(
    place: Place, snapshot: int = 0, coordinator: CoordinatorSnapshot | None = None
) -> ExecutionVertexFinishedEvent:
    return ExecutionVertexFinishedEvent(*place, "run", (), (b"%d" % place[1],), snapshot, coordinator)


def job(*places: Place) -> RecoveredJob:
    return replay(map(finished, places), PLAN.graph)


@pytest.mark.behaviour(145)
@pytest.mark.parametrize(
    ("done", "lost", "runs", "again"),
    [
        ([], [], ALL, []),
        (ALL, ALL, [], []),
        # What finished stays finished, and only what is behind it runs.
        (ALL[:4], [], ALL[4:], []),
        (ALL[:6], ALL[:4], ALL[6:], []),  # results that all have read are not made again
        # A lost result is made again with what it needs, and so is what finished subtasks made of it.
        (ALL[:4], [(0, 1)], [(0, 0), (0, 1), *ALL[4:]], [(0, 0), (0, 1)]),  # a source starts fresh without a snapshot
        (ALL[:6], [(2, 0), (1, 1)], [(1, 0), (1, 1), *ALL[4:]], [(1, 0), (1, 1), (2, 0), (2, 1)]),
        ([*ALL[:6], (3, 0)], [(2, 1)], [(2, 1), (3, 1), *ALL[8:]], [(2, 1)]),
        ([*ALL[:8], (4, 0)], [(2, 0), (3, 0)], [(2, 0), (3, 0), *ALL[8:]], [(2, 0), (3, 0), (4, 0)]),
    ],
)
def test_only_what_unfinished_ends_need_runs(
    done: list[Place], lost: list[Place], runs: list[Place], again: list[Place]
) -> None:
    plan = walk_back(PLAN, job(*done), lambda place: place not in lost)
    assert sorted(plan.runs) == runs
    assert sorted(plan.again) == again


@given(st.sets(st.sampled_from(ALL)), st.sets(st.sampled_from(ALL)))
def test_what_runs_finds_all_that_it_reads_and_nothing_of_it_was_read_by_what_stays(
    done: set[Place], lost: set[Place]
) -> None:
    recovered = job(*done)
    before = set(recovered.finished)
    plan = walk_back(PLAN, recovered, lambda place: place not in lost)
    assert set(recovered.finished) == before - plan.again
    assert not plan.runs & recovered.finished.keys()
    assert {place for place in ALL if place[0] == 4} - recovered.finished.keys() <= plan.runs
    for edge in PLAN.graph.edges:
        for receiver in range(2):
            for sender in PLAN.senders(edge, receiver):
                place, reader = (edge.source, sender), (edge.target, receiver)
                if reader in plan.runs:
                    assert place in plan.runs or (place in recovered.finished and place not in lost)
                if place in plan.again:
                    assert reader not in recovered.finished


def test_a_vertex_with_fewer_subtasks_reads_and_is_read_as_a_whole() -> None:
    plan = build_plan(graph([2, 4, 2], [(0, 1), (1, 2, HASH)]))
    events = [ExecutionJobVertexInitializedEvent(1, (0, 2)), finished((0, 0)), finished((0, 1)), finished((1, 0))]
    recovered = replay(events, plan.graph)
    assert recovered.parallelism(1, plan.graph) == 1  # as it was decided, whatever the sizes would say now
    assert sorted(walk_back(plan, recovered, lambda _: True).runs) == [(2, 0), (2, 1)]
    assert sorted(walk_back(plan, recovered, lambda place: place[0] == 0).runs) == [(1, 0), (2, 0), (2, 1)]


# --------------------------------------------------------------------------------------------------------- the sources

SOURCE = graph([3, 1], [(0, 1)])
FIRST = CoordinatorSnapshot(1, b"first", 0, {0: (b"0",), 1: (b"1",), 2: ()})
SECOND = CoordinatorSnapshot(2, b"second", 0, {2: (b"2",)})


def done_of(*events: ExecutionVertexFinishedEvent | ExecutionVertexResetEvent) -> list[int]:
    return sorted(subtask for vertex, subtask in replay(events, SOURCE).finished if vertex == 0)


@pytest.mark.behaviour(147)
@pytest.mark.behaviour(148)
@pytest.mark.behaviour(149)
def test_a_subtask_of_a_source_counts_once_a_snapshot_has_its_splits_or_all_have_finished() -> None:
    assert done_of(finished((0, 0))) == []  # the tail: behind the last snapshot
    assert done_of(finished((0, 0), 1, FIRST)) == [0]
    assert done_of(finished((0, 0), 1, FIRST), finished((0, 1))) == [0]
    assert done_of(finished((0, 0), 1, FIRST), finished((0, 1), 1)) == [0, 1]
    assert done_of(finished((0, 0)), finished((0, 1)), finished((0, 2), 2, SECOND)) == [0, 1, 2]
    assert done_of(finished((0, 0)), finished((0, 1)), finished((0, 2))) == [
        0,
        1,
        2,
    ]
    assert done_of(finished((0, 0)), finished((0, 1)), ExecutionVertexResetEvent(((0, 0),), "lost")) == []


@pytest.mark.behaviour(148)
@pytest.mark.behaviour(150)
def test_splits_of_a_subtask_that_was_reset_are_on_their_way_to_it_again() -> None:
    events = [finished((0, 0), 1, FIRST), finished((0, 2), 2, SECOND), ExecutionVertexResetEvent(((0, 0),), "lost")]
    recovered = replay(events, SOURCE)
    assert sorted(recovered.finished) == [(0, 2)]
    assert recovered.coordinators[0].assigned == {0: (b"0",), 2: (b"2",)}
    assert done_of(*events, finished((0, 0))) == [2]  # its second run is behind the snapshot
