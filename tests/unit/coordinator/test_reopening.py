"""A finished source that is to read what is new, as the state of a checkpoint."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.coordinator.test_restore import graph

from penstock._engine.coordinator.reopening import reopen
from penstock._engine.coordinator.snapshots import fresh_snapshot
from penstock._engine.protocol.events import NoMoreSplits, encode_event
from penstock._engine.protocol.metadata import EnumeratorRecord, JobSnapshot, OperatorSubtask, ReaderMessages


def finished() -> JobSnapshot:
    snapshot = fresh_snapshot(graph(2))
    enumerator = EnumeratorRecord(
        b"state",
        1,
        undelivered={0: (encode_event(NoMoreSplits()),)},
        unseen=(ReaderMessages(0, (b"event",), split_requests=1), ReaderMessages(1, (), split_requests=2)),
    )
    done = tuple(OperatorSubtask(state=b"reader", finished=True) for _ in range(2))
    orders = replace(snapshot.operators["orders"], subtasks=done, enumerator=enumerator)
    return replace(snapshot, operators={**snapshot.operators, "orders": orders})


def test_requests_and_answers_of_the_old_readers_mean_nothing_to_the_new_ones() -> None:
    again = reopen(finished(), graph(2), ["orders"])
    orders = again.snapshot.operators["orders"]
    assert again.sources == ("orders",)
    assert orders.subtasks == (OperatorSubtask(), OperatorSubtask())
    assert orders.enumerator == EnumeratorRecord(
        b"state", 1, unseen=(ReaderMessages(0, (b"event",), split_requests=0),), reopened=True
    )


def test_source_that_goes_on_is_left_as_it_is() -> None:
    stored = fresh_snapshot(graph(2))
    again = reopen(stored, graph(2), ["orders"])
    assert (again.snapshot, again.sources, again.unfinished) == (stored, (), ("orders",))
