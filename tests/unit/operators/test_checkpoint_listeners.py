"""CheckpointListener: which functions hear of checkpoints, and of what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock._builders.keyed_functions import KeyedMap
from penstock.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CheckpointListener,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.harness import OperatorHarness
from penstock.testing.two_inputs import TwoInputHarness

if TYPE_CHECKING:
    from collections.abc import Callable

RULES = MapStateDescriptor("rules")


class Listening(CheckpointListener):
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.heard.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.heard.append(("aborted", checkpoint_id))


def listening(*kinds: type) -> Any:
    """Return a function of some kind that listens; what it does with records is of no matter."""
    methods = {name: lambda *_: None for kind in kinds for name in getattr(kind, "__abstractmethods__", ())}
    return type("Listens", (Listening, *kinds), methods)()


def identity(record: Any) -> Any:
    return record


def windowed(**functions: Any) -> OperatorHarness:
    return OperatorHarness.for_window(identity, TumblingEventTimeWindows(10, 0), **functions)


MAKERS: dict[str, tuple[Any, Callable[[Any], OperatorHarness]]] = {
    "map": (MapFunction, OperatorHarness.for_map),
    "flat_map": (FlatMapFunction, OperatorHarness.for_flat_map),
    "filter": (FilterFunction, OperatorHarness.for_filter),
    "process": (ProcessFunction, OperatorHarness.for_process),
    "keyed_process": (KeyedProcessFunction, lambda function: OperatorHarness.for_keyed_process(function, identity)),
    "keyed_map": (MapFunction, lambda function: OperatorHarness.for_keyed_process(KeyedMap(function), identity)),
    "reduce": (ReduceFunction, lambda function: OperatorHarness.for_reduce(function, identity)),
    "aggregate": (AggregateFunction, lambda function: windowed(aggregate=function)),
    "window": (ProcessWindowFunction, lambda function: windowed(function=function)),
    "co_map": (CoMapFunction, TwoInputHarness.for_co_map),
    "keyed_co_process": (
        KeyedCoProcessFunction,
        lambda function: TwoInputHarness.for_keyed_co_process(function, identity, identity),
    ),
    "broadcast": (BroadcastProcessFunction, lambda function: TwoInputHarness.for_broadcast_process(function, RULES)),
    "keyed_broadcast": (
        KeyedBroadcastProcessFunction,
        lambda function: TwoInputHarness.for_keyed_broadcast_process(function, identity, RULES),
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.behaviour(42)
def test_every_kind_of_function_can_listen(kind: str) -> None:
    base, make = MAKERS[kind]
    function = listening(base)
    with make(function) as harness:
        harness.snapshot()
        harness.notify_checkpoint_complete()
        harness.notify_checkpoint_aborted(2)
        harness.snapshot()
        harness.snapshot()
        harness.notify_checkpoint_complete()
    assert function.heard == [("complete", 1), ("aborted", 2), ("complete", 3)]


@pytest.mark.behaviour(42)
def test_both_functions_of_a_window_can_listen() -> None:
    class Adds(Listening, AggregateFunction):
        def create_accumulator(self) -> int:
            return 0

        def add(self, value: Any, accumulator: int) -> int:
            return accumulator + value

        def get_result(self, accumulator: int) -> int:
            return accumulator

        def merge(self, a: int, b: int) -> int:
            return a + b

    class Shows(Listening, ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            yield from elements

    adds, shows = Adds(), Shows()
    with windowed(aggregate=adds, function=shows) as harness:
        harness.snapshot()
        harness.notify_checkpoint_complete()
    assert adds.heard == shows.heard == [("complete", 1)]


def test_function_that_keeps_state_and_listens_acknowledges_what_its_predecessor_left() -> None:
    """The pattern that Flink has for sources that acknowledge: ids go to state, and away once they are covered."""

    class Acknowledges(MapFunction, CheckpointedFunction, CheckpointListener):
        def __init__(self) -> None:
            self.acknowledged: list[int] = []
            self.ids: list[int] = []

        def initialize_state(self, context: Any) -> None:
            self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("pending"))
            self.pending: list[Any] = list(self.state)

        def snapshot_state(self, context: Any) -> None:
            if self.ids:
                self.pending.append((context.get_checkpoint_id(), self.ids))
            self.ids = []
            self.state.update(self.pending)

        def map(self, value: Any) -> Any:
            self.ids.append(value)
            return value

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            for _, ids in [pending for pending in self.pending if pending[0] <= checkpoint_id]:
                self.acknowledged += ids
            self.pending = [pending for pending in self.pending if pending[0] > checkpoint_id]

    first, second = Acknowledges(), Acknowledges()
    before, after = OperatorHarness.for_map(first), OperatorHarness.for_map(second)
    before.process_elements([1, 2])
    taken = before.snapshot()
    after.restore(taken)
    after.process_element(3)
    after.notify_checkpoint_complete(taken.checkpoint_id)
    assert second.acknowledged == [1, 2]
    after.snapshot()
    after.notify_checkpoint_complete()
    assert second.acknowledged == [1, 2, 3]


def test_listener_needs_nothing_for_checkpoints_that_came_to_nothing() -> None:
    class Completed(MapFunction, CheckpointListener):
        def map(self, value: Any) -> Any:
            return value

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            heard.append(checkpoint_id)

    heard: list[int] = []
    with OperatorHarness.for_map(Completed()) as harness:
        harness.notify_checkpoint_aborted(1)
        harness.notify_checkpoint_complete(1)
    assert heard == [1]


def test_function_that_does_not_listen_is_notified_of_nothing() -> None:
    class Named(MapFunction):
        def map(self, value: Any) -> Any:
            return value

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            raise AssertionError

    with OperatorHarness.for_map(Named()) as harness:
        harness.snapshot()
        harness.notify_checkpoint_complete()
