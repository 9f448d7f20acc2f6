"""What may stand before what has finished: Flink's VertexFinishedStateChecker, rule by rule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock._engine.coordinator.checkpoints.snapshots import fresh_snapshot
from penstock._engine.coordinator.restore.finished import Extent, extents
from penstock._engine.coordinator.restore.state_assignment import assign_state
from penstock._engine.graph.job_graph import (
    JobEdge,
    JobGraph,
    JobVertex,
    OperatorNode,
    PartitionerKind,
)
from penstock._engine.operators.factories.functions import MapFactory
from penstock._engine.operators.factories.sources_and_sinks import SourceFactory
from penstock._engine.protocol.metadata import JobSnapshot, OperatorSubtaskState
from penstock._engine.protocol.rows import MAX_WATERMARK
from penstock.errors import FinishedOperatorError, MixedChainError, RestoreError

if TYPE_CHECKING:
    from penstock._engine.operators.operator_factory import OperatorFactory

POINTWISE, ALL_TO_ALL = PartitionerKind.RESCALE, PartitionerKind.REBALANCE
RUNNING, PARTLY, FINISHED = Extent.RUNNING, Extent.PARTLY, Extent.FINISHED
#: How many of two subtasks have finished.
COUNTS = {RUNNING: 0, PARTLY: 1, FINISHED: 2}


def node(uid: str, kind: type[OperatorFactory] = MapFactory, parent: int | None = None) -> OperatorNode:
    return OperatorNode(uid, f"name of {uid}", kind, b"", parent)


def job(*partitioners: PartitionerKind, parallelism: int = 2) -> JobGraph:
    """Two vertices with these edges between them."""
    return JobGraph(
        "job",
        (
            JobVertex(0, "before", (node("before", SourceFactory),), parallelism, 128),
            JobVertex(1, "behind", (node("behind"),), parallelism, 128),
        ),
        tuple(JobEdge(number, 0, 0, None, 1, number, kind) for number, kind in enumerate(partitioners)),
    )


def stored(graph: JobGraph, **finished: Extent) -> JobSnapshot:
    """A checkpoint of a job, in which some operators have finished; those that are not named were not there."""
    snapshot = fresh_snapshot(graph)
    operators = {
        uid: replace(
            snapshot.operators[uid],
            subtasks=tuple(OperatorSubtaskState(finished=index < COUNTS[extent]) for index in range(2)),
        )
        for uid, extent in finished.items()
    }
    return replace(snapshot, operators=operators)


@pytest.mark.parametrize(
    ("before", "behind", "edges", "reason"),
    [
        (RUNNING, RUNNING, [ALL_TO_ALL], None),
        (PARTLY, RUNNING, [ALL_TO_ALL], None),
        (FINISHED, RUNNING, [ALL_TO_ALL], None),
        (FINISHED, PARTLY, [ALL_TO_ALL], None),
        (FINISHED, FINISHED, [POINTWISE], None),
        (RUNNING, FINISHED, [POINTWISE], "all of it has to have finished"),
        (PARTLY, FINISHED, [POINTWISE], "all of it has to have finished"),
        (RUNNING, PARTLY, [ALL_TO_ALL], "it sends to all subtasks"),
        (PARTLY, PARTLY, [ALL_TO_ALL], "it sends to all subtasks"),
        (RUNNING, PARTLY, [POINTWISE], "subtasks of it have to have finished"),
        (PARTLY, PARTLY, [POINTWISE], None),
        (PARTLY, PARTLY, [POINTWISE, ALL_TO_ALL], "it sends to all subtasks"),
    ],
)
@pytest.mark.behaviour(17, 18, 19)
def test_what_may_stand_before_what_has_finished(
    before: Extent, behind: Extent, edges: list[PartitionerKind], reason: str | None
) -> None:
    graph = job(*edges)
    snapshot = stored(graph, before=before, behind=behind)
    if reason is None:
        assert extents(snapshot, graph, "chk-7") == [before, behind]
        return
    with pytest.raises(FinishedOperatorError, match=reason) as caught:
        extents(snapshot, graph, "chk-7")
    assert f"'name of behind' (uid 'behind') is {behind}" in str(caught.value)
    assert "'name of before' (uid 'before')" in str(caught.value)


def test_new_operator_counts_as_running() -> None:
    graph = job(POINTWISE)
    assert extents(stored(graph, before=FINISHED), graph, "chk-7") == [FINISHED, RUNNING]
    with pytest.raises(FinishedOperatorError):
        extents(stored(graph, behind=FINISHED), graph, "chk-7")


@pytest.mark.behaviour(20)
def test_operators_of_one_vertex_have_finished_to_one_extent() -> None:
    graph = job()
    chain = replace(graph.vertices[0], operators=(*graph.vertices[0].operators, node("next", parent=0)))
    found = stored(graph, before=FINISHED, behind=PARTLY)
    snapshot = replace(found, operators={"before": found.operators["before"], "next": found.operators["behind"]})
    with pytest.raises(MixedChainError, match="'before' is finished, 'next' is partly finished"):
        extents(snapshot, replace(graph, vertices=(chain,)), "chk-7")


@pytest.mark.behaviour(7)
def test_finished_operator_has_no_state_left_at_another_parallelism() -> None:
    graph = job(POINTWISE, parallelism=3)
    snapshot = stored(job(POINTWISE), before=FINISHED, behind=FINISHED)
    assignment = assign_state(snapshot, graph, "chk-7", ignore_unclaimed=False, stops=False).snapshot
    assert assignment.finished
    assert assignment.operators["behind"].subtasks == (OperatorSubtaskState(finished=True),) * 3
    assert all(part.watermark == MAX_WATERMARK for vertex in assignment.vertices for part in vertex.subtasks)


@pytest.mark.behaviour(15)
def test_all_subtasks_of_a_partly_finished_vertex_run_again_when_the_job_has_changed() -> None:
    snapshot = stored(job(POINTWISE), before=PARTLY, behind=PARTLY)
    assignment = assign_state(snapshot, job(POINTWISE, parallelism=3), "chk-7", ignore_unclaimed=False, stops=False)
    assert not any(part.finished for vertex in assignment.snapshot.vertices for part in vertex.subtasks)
    assert not any(part.finished for one in assignment.snapshot.operators.values() for part in one.subtasks)


def test_job_that_was_stopping_is_not_fitted_to_another_form() -> None:
    snapshot = stored(job(POINTWISE), before=RUNNING, behind=RUNNING)
    with pytest.raises(RestoreError, match="Start it once as it was"):
        assign_state(snapshot, job(POINTWISE, parallelism=3), "chk-7", ignore_unclaimed=False, stops=True)


def test_other_edges_are_another_form_of_the_job() -> None:
    snapshot = stored(job(POINTWISE), before=PARTLY, behind=RUNNING)
    same = assign_state(snapshot, job(POINTWISE), "chk-7", ignore_unclaimed=False, stops=False)
    other = assign_state(snapshot, job(ALL_TO_ALL), "chk-7", ignore_unclaimed=False, stops=False)
    assert any(part.finished for part in same.snapshot.operators["before"].subtasks)
    assert not any(part.finished for part in other.snapshot.operators["before"].subtasks)
