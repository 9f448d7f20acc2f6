"""A finished source that is to read what is new, as the state of a checkpoint."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.coordinator.restore.test_state_assignment import graph

from penstock._engine.coordinator.checkpoints.snapshots import fresh_snapshot
from penstock._engine.coordinator.restore.reopening import reopen
from penstock._engine.protocol.control import encode
from penstock._engine.protocol.events import AddSplitsEvent, NoMoreSplitsEvent, ReaderState, encode_event
from penstock._engine.protocol.metadata import (
    JobSnapshot,
    OperatorSubtaskState,
    ReaderMessages,
    ReturnedSplits,
    SourceCoordinatorState,
)


def finished() -> JobSnapshot:
    snapshot = fresh_snapshot(graph(2))
    enumerator = SourceCoordinatorState(
        b"state",
        1,
        undelivered={0: (encode_event(AddSplitsEvent((b"late",), 3)), encode_event(NoMoreSplitsEvent()))},
        unseen=(ReaderMessages(0, (b"event",), split_requests=1), ReaderMessages(1, (), split_requests=2)),
    )
    done = tuple(OperatorSubtaskState(state=encode(ReaderState(left)), finished=True) for left in ((), (b"left",)))
    orders = replace(snapshot.operators["orders"], subtasks=done, enumerator=enumerator)
    return replace(snapshot, operators={**snapshot.operators, "orders": orders})


def test_new_readers_get_nothing_of_the_old_ones_but_their_splits_through_the_enumerator() -> None:
    again = reopen(finished(), graph(2), ["orders"])
    orders = again.snapshot.operators["orders"]
    assert again.sources == ("orders",)
    assert orders.subtasks == (OperatorSubtaskState(), OperatorSubtaskState())
    assert orders.enumerator == SourceCoordinatorState(
        b"state",
        1,
        unseen=(ReaderMessages(0, (b"event",), split_requests=0),),
        returned=(ReturnedSplits(0, (b"late",), 3), ReturnedSplits(1, (b"left",), 0)),
        reopened=True,
    )


def test_source_that_goes_on_is_left_as_it_is() -> None:
    stored = fresh_snapshot(graph(2))
    again = reopen(stored, graph(2), ["orders"])
    assert (again.snapshot, again.sources, again.unfinished) == (stored, (), ("orders",))
