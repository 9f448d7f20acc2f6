from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._engine.coordinator.checkpoints.snapshots import fresh_snapshot, state_files
from penstock._engine.coordinator.restore.origin import own_files
from penstock._engine.coordinator.restore.state_assignment import StateAssignment, assign_state
from penstock._engine.graph.job_graph import JobGraph, JobVertex, OperatorNode
from penstock._engine.operators.factories.keyed import KeyedProcessFactory
from penstock._engine.operators.factories.sources_and_sinks import SinkWriterFactory, SourceFactory
from penstock._engine.protocol.control import decode, encode
from penstock._engine.protocol.events import (
    AddSplitsEvent,
    EndOfInputEvent,
    NoMoreSplitsEvent,
    ReaderState,
    SourceEventWrapper,
    decode_event,
    encode_event,
)
from penstock._engine.protocol.key_groups import key_group_range
from penstock._engine.protocol.metadata import (
    JobSnapshot,
    OperatorSubtaskState,
    OutstandingCommit,
    ReaderMessages,
    ReturnedSplits,
    SourceCoordinatorState,
    VertexSubtaskState,
)
from penstock._engine.protocol.paths import checkpoint_of
from penstock._engine.protocol.state_handle import StateHandle, StateMode, StatePart
from penstock.errors import MaxParallelismError, ParallelismLimitError, UnclaimedStateError

PATH = "job/chk-7"


def graph(parallelism: int, *, max_parallelism: int = 128, is_set: bool = False, uid: str = "counts") -> JobGraph:
    source = OperatorNode("orders", "Source: orders", SourceFactory, b"")
    counts = OperatorNode(uid, "Count", KeyedProcessFactory, b"")
    return JobGraph(
        "orders",
        (
            JobVertex(0, "Source: orders", (source,), parallelism, 128),
            JobVertex(1, "Count", (counts,), parallelism, max_parallelism, is_set),
        ),
        (),
    )


def handle(number: int, groups: range, kind: Literal["delta", "snapshot"] = "delta") -> StateHandle:
    return StateHandle(
        number, number, kind, f"{number}-{groups.start}", None, 10, 1, 0, (groups.start, groups.stop - 1)
    )


def stored(parallelism: int) -> JobSnapshot:
    """A checkpoint in which each subtask of the keyed operator has a snapshot and a delta."""
    snapshot = fresh_snapshot(graph(parallelism))
    subtasks = []
    for index in range(parallelism):
        groups = key_group_range(index, parallelism, 128)
        subtasks.append(OperatorSubtaskState((handle(3, groups, "snapshot"), handle(5, groups))))
    counts = replace(snapshot.operators["counts"], subtasks=tuple(subtasks))
    readers = tuple(
        OperatorSubtaskState(state=encode(ReaderState((b"split-%d" % index,), 2))) for index in range(parallelism)
    )
    undelivered = {0: (encode_event(AddSplitsEvent((b"late",), 3)), encode_event(NoMoreSplitsEvent()))}
    enumerator = SourceCoordinatorState(b"state", 1, undelivered, (ReaderMessages(1, (), 1),))
    orders = replace(snapshot.operators["orders"], subtasks=readers, enumerator=enumerator)
    return replace(snapshot, operators={"orders": orders, "counts": counts})


def assignment(snapshot: JobSnapshot, job: JobGraph, *, ignore: bool = False, stops: bool = False) -> StateAssignment:
    return assign_state(snapshot, job, PATH, ignore_unclaimed=ignore, stops=stops)


def fit(snapshot: JobSnapshot, job: JobGraph) -> JobSnapshot:
    return assignment(snapshot, job).snapshot


def test_unchanged_job_goes_on_with_everything_as_it_was() -> None:
    before = replace(stored(2), outstanding=(OutstandingCommit("counts", 6, ()),))
    subtask = VertexSubtaskState(watermark=99, finished=True)
    before = replace(before, vertices=(replace(before.vertices[0], subtasks=(subtask,) * 2), before.vertices[1]))
    assert fit(before, graph(2)) == before


@given(st.lists(st.integers(1, 16), min_size=1, max_size=3), st.integers(1, 16))
def test_each_key_group_is_read_once_from_each_kind_of_file_in_order(parallelisms: list[int], first: int) -> None:
    snapshot = stored(first)
    for parallelism in parallelisms:
        snapshot = fit(snapshot, graph(parallelism))
    for index, subtask in enumerate(snapshot.operators["counts"].subtasks):
        own = list(key_group_range(index, parallelisms[-1], 128))
        for kind in ("snapshot", "delta"):
            ranges = [range(one.key_groups[0], one.key_groups[1] + 1) for one in subtask.lineage if one.kind == kind]
            assert sorted(group for groups in ranges for group in groups) == own
        for group in own:
            having = [one.kind for one in subtask.lineage if one.key_groups[0] <= group <= one.key_groups[1]]
            assert having == ["snapshot", "delta"]


def test_splits_of_readers_and_those_on_the_way_go_back_when_the_parallelism_changes() -> None:
    orders = fit(stored(2), graph(3)).operators["orders"]
    returned = (
        ReturnedSplits(0, (b"split-0",), 2),
        ReturnedSplits(0, (b"late",), 3),
        ReturnedSplits(1, (b"split-1",), 2),
    )
    assert orders.enumerator == SourceCoordinatorState(b"state", 1, returned=returned)
    assert all(subtask.state is None for subtask in orders.subtasks)


def source_event(name: str) -> bytes:
    return encode_event(SourceEventWrapper(name.encode()))


def is_event(event: bytes) -> bool:
    return isinstance(decode_event(event), SourceEventWrapper)


def with_events(parallelism: int, *, ends: bool = False) -> JobSnapshot:
    """A checkpoint in which each reader is to hear of two events and has sent two."""
    snapshot = stored(parallelism)
    orders = snapshot.operators["orders"]
    split, end = encode_event(AddSplitsEvent((b"late",), 3)), encode_event(EndOfInputEvent())
    undelivered = {
        index: (source_event(f"{index}a"), split, source_event(f"{index}b"), *((end,) if ends else ()))
        for index in range(parallelism)
    }
    unseen = tuple(ReaderMessages(index, (b"%dx" % index, b"%dy" % index), 1) for index in range(parallelism))
    changed = replace(orders, enumerator=SourceCoordinatorState(b"state", 1, undelivered, unseen))
    return replace(snapshot, operators={**snapshot.operators, "orders": changed})


@given(st.integers(1, 5), st.lists(st.integers(1, 6), min_size=1, max_size=3), st.booleans())
def test_source_events_on_the_way_outlive_changes_of_the_parallelism(
    first: int, parallelisms: list[int], ends: bool
) -> None:
    snapshot = with_events(first, ends=ends)
    for parallelism in parallelisms:
        snapshot = fit(snapshot, graph(parallelism))
    record = snapshot.operators["orders"].enumerator
    assert record is not None
    last, end = parallelisms[-1], encode_event(EndOfInputEvent())
    to_readers = [
        event for index in sorted(record.undelivered) for event in record.undelivered[index] if is_event(event)
    ]
    sent = [name for message in record.unseen for name in message.events]
    assert sorted(to_readers) == sorted(source_event(f"{index}{part}") for index in range(first) for part in "ab")
    assert sorted(sent) == sorted(f"{index}{part}".encode() for index in range(first) for part in "xy")
    for index in range(first):  # in the order in which they were sent, and to and from subtasks that are there
        assert to_readers.index(source_event(f"{index}a")) < to_readers.index(source_event(f"{index}b"))
        assert sent.index(f"{index}x".encode()) < sent.index(f"{index}y".encode())
    assert {*record.undelivered, *(message.subtask for message in record.unseen)} <= set(range(last))
    if ends and set(parallelisms) != {first}:
        assert all(end in record.undelivered[index] for index in range(last))


def test_state_of_an_operator_that_is_gone_is_refused_by_its_uid() -> None:
    with pytest.raises(UnclaimedStateError, match=r"'counts'.*orders, other"):
        fit(stored(2), graph(2, uid="other"))


def test_operator_state_is_claimed_shared_out_and_copied_like_keyed_state() -> None:
    parts = (StatePart("waiting", StateMode.LIST, 0, 3),)
    lists = StateHandle(6, 6, "operator", "other/shared/lists", None, 10, 3, 0, (0, -1), parts)
    counts = stored(1).operators["counts"]
    counts = replace(counts, subtasks=(OperatorSubtaskState(operator_state=(lists,)),))
    before = replace(stored(1), operators={**stored(1).operators, "counts": counts})
    assert state_files(before) == {"other/shared/lists"}
    [(path, _)] = own_files(before, "mine", 9, inside=True)[1]
    assert path == "other/shared/lists"
    with pytest.raises(UnclaimedStateError, match="'counts'"):
        fit(before, graph(1, uid="other"))
    after = fit(before, graph(2)).operators["counts"].subtasks
    assert [[list(part.places()) for one in subtask.operator_state for part in one.parts] for subtask in after] == [
        [[0, 2]],
        [[1]],
    ]


def test_state_of_an_operator_that_is_gone_is_dropped_when_told_so() -> None:
    found = assignment(stored(2), graph(2, uid="other"), ignore=True)
    snapshot = found.snapshot
    assert found.dropped == {"counts": "Count"}
    assert snapshot.operators.keys() == {"orders", "other"}
    assert snapshot.operators["orders"].subtasks == stored(2).operators["orders"].subtasks


def test_other_number_of_key_groups_is_refused_with_both_numbers_and_the_uid() -> None:
    with pytest.raises(MaxParallelismError, match=r"'counts'.*max parallelism 64.*Set the max parallelism to 128"):
        fit(stored(2), graph(2, max_parallelism=64, is_set=True))


def test_number_of_key_groups_is_taken_over_where_the_program_has_set_none() -> None:
    found = assignment(stored(2), graph(3, max_parallelism=64))
    assert [vertex.max_parallelism for vertex in found.graph.vertices] == [128, 128]
    assert found.snapshot.operators["counts"].max_parallelism == 128
    assert len(found.snapshot.operators["counts"].subtasks) == 3


def test_more_subtasks_than_key_groups_are_refused_with_both_numbers() -> None:
    with pytest.raises(ParallelismLimitError, match=r"'counts'.*parallelism 200.*128"):
        fit(stored(2), graph(200, max_parallelism=512))


def test_other_number_of_key_groups_is_fine_without_keyed_state() -> None:
    found = assignment(fresh_snapshot(graph(2)), graph(200, max_parallelism=512))
    assert found.graph.vertices[1].max_parallelism == 512


@pytest.mark.parametrize(("before", "now"), [(3, 1), (2, 5), (4, 3)])
def test_each_state_of_a_writer_goes_to_one_subtask_whatever_the_parallelism(before: int, now: int) -> None:
    def job(parallelism: int) -> JobGraph:
        writer = OperatorNode("target", "Sink", SinkWriterFactory, b"")
        return JobGraph("orders", (JobVertex(0, "Sink", (writer,), parallelism, 128),), ())

    snapshot = fresh_snapshot(job(before))
    parts = tuple(OperatorSubtaskState(state=encode([b"%d-a" % index, b"%d-b" % index])) for index in range(before))
    target = replace(snapshot.operators["target"], subtasks=parts)
    assignment = fit(replace(snapshot, operators={"target": target}), job(now))
    states = [part.state for part in assignment.operators["target"].subtasks]
    items = [item for state in states if state is not None for item in decode(state, list[bytes])]
    assert sorted(items) == sorted(b"%d-%s" % (index, name) for index in range(before) for name in (b"a", b"b"))
    assert len(states) == now


def test_files_of_another_job_get_names_of_this_ones_next_checkpoint() -> None:
    counts = stored(1).operators["counts"]
    lineage = (replace(counts.subtasks[0].lineage[0], path="other/shared/a"), counts.subtasks[0].lineage[1])
    lineage = (lineage[0], replace(lineage[1], path="mine/shared/b"))
    snapshot = replace(stored(1), operators={"counts": replace(counts, subtasks=(OperatorSubtaskState(lineage),))})
    owned, copies = own_files(snapshot, "mine", 9, inside=True)
    [(path, copy)] = copies
    assert (path, checkpoint_of(copy)) == ("other/shared/a", 9)
    assert state_files(owned) == {copy, "mine/shared/b"}
    _, copies = own_files(snapshot, "mine", 9, inside=False)
    assert len({copy for _, copy in copies}) == 2
