"""CheckpointedFunction: the order of its calls, what is in a checkpoint, and what other subtasks get of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock._builders.keyed_functions import KeyedMap
from penstock.datastream.functions import (
    AggregateFunction,
    CheckpointedFunction,
    CoMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import StateDescriptorError, UnpicklableStateError, UnsupportedOperationError
from penstock.testing.harness import OperatorHarness
from penstock.testing.two_inputs import TwoInputHarness

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.testing.operator_snapshot import OperatorSnapshot

KINDS = ("list", "union", "broadcast")


class Noting(CheckpointedFunction):
    """Notes its calls, and keeps a list of what `note` was called with."""

    def __init__(self, kind: str = "list") -> None:
        self.kind = kind
        self.calls: list[Any] = []

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        if self.kind == "broadcast":
            self.map = store.get_broadcast_state(MapStateDescriptor("noted"))
            self.noted = list(self.map.keys())
        else:
            get = store.get_list_state if self.kind == "list" else store.get_union_list_state
            self.state = get(ListStateDescriptor("noted"))
            self.noted = list(self.state)
        self.calls.append(("initialize", context.is_restored(), context.get_restored_checkpoint_id(), list(self.noted)))

    def snapshot_state(self, context: Any) -> None:
        self.calls.append(("snapshot", context.get_checkpoint_id(), context.get_checkpoint_timestamp()))
        if self.kind == "broadcast":
            self.map.put_all(dict.fromkeys(self.noted))
        else:
            self.state.update(self.noted)

    def open(self, runtime_context: Any) -> None:
        self.calls.append("open")

    def close(self) -> None:
        self.calls.append("close")

    def note(self, value: Any) -> Any:
        self.calls.append(value)
        self.noted.append(value)
        return value


class NotingMap(Noting, MapFunction):
    def map(self, value: Any) -> Any:
        return self.note(value)


class NotingProcess(Noting, ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield self.note(value)


class NotingKeyed(Noting, KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(10)
        yield self.note(value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.calls.append("timer")


class NotingReduce(Noting, ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return self.note(value2)


class NotingWindow(Noting, ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield self.note(next(iter(elements)))


class NotingAggregate(Noting, AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return self.note(value)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a


class NotingCoMap(Noting, CoMapFunction):
    def map1(self, value: Any) -> Any:
        return self.note(value)

    def map2(self, value: Any) -> Any:
        return self.note(value)


def first(record: Any) -> Any:
    return record


WINDOW = TumblingEventTimeWindows(10, 0)


HARNESSES: dict[type[Noting], Callable[[Any], OperatorHarness]] = {
    NotingMap: OperatorHarness.for_map,
    NotingProcess: OperatorHarness.for_process,
    NotingKeyed: lambda function: OperatorHarness.for_keyed_process(function, first),
    NotingReduce: lambda function: OperatorHarness.for_reduce(function, first),
    NotingWindow: lambda function: OperatorHarness.for_window(first, WINDOW, function=function),
    NotingAggregate: lambda function: OperatorHarness.for_window(first, WINDOW, aggregate=function),
    NotingCoMap: TwoInputHarness.for_co_map,
}


@pytest.mark.behaviour(37, 41)
def test_initialize_comes_before_open_and_snapshot_between_records_and_timers() -> None:
    function = NotingKeyed()
    with OperatorHarness.for_keyed_process(function, first) as harness:
        harness.clock.set(77)
        harness.process_elements(["a", "b"])
        harness.snapshot()
        harness.process_watermark(10)
        harness.end_input()
        harness.snapshot()
    assert function.calls == [
        ("initialize", False, None, []),
        "open",
        "a",
        "b",
        ("snapshot", 1, 77),
        "timer",
        "timer",
        ("snapshot", 2, 77),
        "close",
    ]


@pytest.mark.parametrize("make", HARNESSES)
@pytest.mark.behaviour(190)
def test_every_kind_of_function_may_keep_operator_state(make: type[Noting]) -> None:
    before = HARNESSES[make](make())
    before.process_elements(["a", "a"], timestamp=1)
    before.process_watermark(9)
    after = make()
    harness = HARNESSES[make](after)
    harness.restore(before.snapshot())
    harness.open()
    [(_, restored, _, noted), *rest] = after.calls
    assert restored
    assert set(noted) == {"a"}
    assert rest == ["open"]


def test_the_function_behind_a_keyed_map_may_too() -> None:
    function = NotingMap()
    with OperatorHarness.for_keyed_process(KeyedMap(function), first) as harness:
        harness.process_element("a")
        harness.snapshot()
    assert function.calls == [("initialize", False, None, []), "open", "a", ("snapshot", 1, 0), "close"]


def test_a_function_that_fails_to_initialize_is_closed() -> None:
    class Fails(NotingMap):
        def initialize_state(self, context: Any) -> None:
            raise ValueError("no")

    function = Fails()
    harness = OperatorHarness.for_map(function)
    with pytest.raises(ValueError, match="no"):
        harness.open()
    harness.close()
    assert function.calls == ["close"]


def snapshots(kind: str, *noted: list[Any]) -> list[OperatorSnapshot]:
    """Return the checkpoints of as many subtasks, each with what it noted."""
    taken = []
    for index, items in enumerate(noted):
        harness = OperatorHarness.for_map(NotingMap(kind), subtask_index=index, parallelism=len(noted))
        harness.process_elements(items)
        taken.append(harness.snapshot())
    return taken


def restored(kind: str, parallelism: int, *old: OperatorSnapshot) -> list[list[Any]]:
    """Return what each of the new subtasks starts from."""
    found = []
    for index in range(parallelism):
        function = NotingMap(kind)
        harness = OperatorHarness.for_map(function, subtask_index=index, parallelism=parallelism)
        harness.restore(*old)
        harness.open()
        found.append(function.noted)
    return found


def test_list_items_are_dealt_out_in_turn() -> None:
    old = snapshots("list", [1, 2, 3], [4], [], [5, 6])
    assert restored("list", 2, *old) == [[1, 3, 5], [2, 4, 6]]
    assert restored("list", 1, *old) == [[1, 2, 3, 4, 5, 6]]
    assert restored("list", 7, *old) == [[1], [2], [3], [4], [5], [6], []]


def test_list_items_stay_where_they_are_at_the_same_parallelism() -> None:
    old = snapshots("list", [1, 2, 3], [4])
    assert restored("list", 2, *old) == [[1, 2, 3], [4]]


@pytest.mark.parametrize("parallelism", [1, 3, 4, 6])
def test_every_new_subtask_sees_all_union_items_in_one_order(parallelism: int) -> None:
    old = snapshots("union", [1, 2], [3], [], [4])
    found = restored("union", parallelism, *old)
    assert found == [found[0]] * parallelism
    assert sorted(found[0]) == [1, 2, 3, 4]


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_every_new_subtask_gets_a_copy_of_broadcast_state(parallelism: int) -> None:
    old = snapshots("broadcast", [1, 2], [1, 2])
    assert restored("broadcast", parallelism, *old) == [[1, 2]] * parallelism


class Appending(MapFunction, CheckpointedFunction):
    """Uses its union list as it is, without ever putting its own items in the place of all."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("all"))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: Any) -> Any:
        self.state.add(value)
        return sorted(self.state)


def test_union_items_of_others_are_seen_and_not_saved_again() -> None:
    old: list[OperatorSnapshot] = []
    for round_ in range(4):
        new = []
        for index in range(2):
            harness = OperatorHarness.for_map(Appending(), subtask_index=index, parallelism=2)
            if old:
                harness.restore(*old)
            harness.process_element((round_, index))
            new.append(harness.snapshot())
        old = new
    harness = OperatorHarness.for_map(Appending(), subtask_index=0, parallelism=1)
    harness.restore(*old)
    harness.process_element((9, 9))
    assert harness.values() == [sorted([(round_, index) for round_ in range(4) for index in range(2)] + [(9, 9)])]


def test_unchanged_state_is_not_written_again() -> None:
    harness = OperatorHarness.for_map(NotingMap())
    harness.process_element(1)
    first_handle, second_handle = harness.snapshot().operator_state, harness.snapshot().operator_state
    assert first_handle == second_handle
    harness.process_element(2)
    assert harness.snapshot().operator_state != first_handle


def test_state_that_a_function_no_longer_asks_for_is_kept() -> None:
    [old] = snapshots("list", [1, 2])

    class Other(NotingMap):
        def initialize_state(self, context: Any) -> None:
            self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("other"))
            self.noted = []

    between = OperatorHarness.for_map(Other())
    between.restore(old)
    between.process_element(9)
    assert restored("list", 1, between.snapshot()) == [[1, 2]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_another_kind_under_one_name_is_refused(kind: str, other: str) -> None:
    [old] = snapshots(kind, [1])
    if kind == other:
        assert restored(other, 1, old) == [[1]]
        return
    with pytest.raises(StateDescriptorError, match=f"'noted' is declared as {other}.* but was written as {kind}"):
        restored(other, 1, old)


def test_an_item_that_cannot_be_pickled_is_named() -> None:
    class Silent(NotingMap):
        def map(self, value: Any) -> None:
            super().map(value)

    harness = OperatorHarness.for_map(Silent())
    harness.process_elements([1, (item for item in "x")])
    with pytest.raises(UnpicklableStateError, match=r"State 'noted' holds a generator for key 1"):
        harness.snapshot()


def test_keyed_state_may_be_asked_for_beside_it_where_there_are_keys() -> None:
    class WithKeys(NotingKeyed):
        def initialize_state(self, context: Any) -> None:
            super().initialize_state(context)
            self.last = context.get_keyed_state_store().get_state(ValueStateDescriptor("last"))

        def process_element(self, value: Any, ctx: Any) -> Any:
            yield self.last.value()
            self.last.update(value)

    with OperatorHarness.for_keyed_process(WithKeys(), lambda value: value % 2) as harness:
        harness.process_elements([1, 2, 3])
        assert harness.values() == [None, None, 1]

    class WithoutKeys(NotingMap):
        def initialize_state(self, context: Any) -> None:
            context.get_keyed_state_store().get_state(ValueStateDescriptor("last"))

    with pytest.raises(UnsupportedOperationError, match="after key_by"):
        OperatorHarness.for_map(WithoutKeys()).open()
