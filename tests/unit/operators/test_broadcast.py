"""Broadcast functions: who may write the maps, who may read them, and keyed state beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.time_domain import TimeDomain
from penstock.errors import UnpicklableStateError, UnsupportedOperationError
from penstock.testing.harness import StreamRecord, Watermark
from penstock.testing.two_inputs import TwoInputHarness

if TYPE_CHECKING:
    from collections.abc import Callable

RULES = MapStateDescriptor("rules")
OTHER = MapStateDescriptor("other")
SEEN = ValueStateDescriptor("seen")


class Rules(BroadcastProcessFunction):
    """Broadcast records are (key, value) to store; others ask, or are a function of the context."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        if callable(value):
            yield value(ctx)
        else:
            yield value, ctx.get_broadcast_state(RULES).get(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        if callable(value):
            yield value(ctx)
        else:
            ctx.get_broadcast_state(RULES).put(*value)


class KeyedRules(KeyedBroadcastProcessFunction):
    """Counts the records of each key; broadcast records are functions of the function and the context."""

    def open(self, runtime_context: Any) -> None:
        self.context = runtime_context
        self.seen = runtime_context.get_state(SEEN)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.seen.update((self.seen.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(50)
        yield ctx.get_current_key(), self.seen.value()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return value(self, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        yield "timer", ctx.get_current_key(), self.seen.value(), dict(ctx.get_broadcast_state(RULES).items())


@dataclass(frozen=True)
class Key:
    name: str


def rules(**subtask: int) -> TwoInputHarness:
    return TwoInputHarness.for_broadcast_process(Rules(), RULES, **subtask)


def keyed(**subtask: int) -> TwoInputHarness:
    return TwoInputHarness.for_keyed_broadcast_process(KeyedRules(), lambda key: key, RULES, **subtask)


def test_what_broadcast_records_store_is_there_for_the_others() -> None:
    with rules() as harness:
        harness.process_element("a")
        harness.process_elements2([("a", 1), ("b", 2), ("a", 3)])
        harness.process_elements(["a", "b", "c"], timestamp=5)
        assert harness.output() == [
            StreamRecord(("a", None)),
            StreamRecord(("a", 3), 5),
            StreamRecord(("b", 2), 5),
            StreamRecord(("c", None), 5),
        ]


@pytest.mark.parametrize(
    "write",
    [
        lambda state: state.put("a", 1),
        lambda state: state.put_all({"a": 1}),
        lambda state: state.remove("a"),
        lambda state: state.__setitem__("a", 1),
        lambda state: state.__delitem__("a"),
    ],
)
@pytest.mark.behaviour(188)
def test_maps_have_no_method_that_writes_outside_of_broadcast_records(write: Callable[[Any], None]) -> None:
    with rules() as harness:
        harness.process_element2(("a", 0))
        with pytest.raises(AttributeError):
            harness.process_element(lambda ctx: write(ctx.get_broadcast_state(RULES)))
        harness.process_element("a")
        assert harness.values() == [("a", 0)]


def test_timers_see_maps_without_methods_that_write() -> None:
    class Writing(KeyedRules):
        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield dir(ctx.get_broadcast_state(RULES))

    writing = {"put", "put_all", "remove", "__setitem__", "__delitem__"}
    with TwoInputHarness.for_keyed_broadcast_process(Writing(), lambda key: key, RULES) as harness:
        harness.process_element("a")
        harness.clear_output()
        harness.process_watermark(50)
        harness.process_watermark2(50)
        (names,) = harness.values()
        assert writing.isdisjoint(names)


def test_the_clear_that_all_states_have_is_refused_outside_of_broadcast_records() -> None:
    with rules() as harness:
        harness.process_element2(("a", 0))
        with pytest.raises(UnsupportedOperationError, match=r"clear\(\) on the broadcast state 'rules'"):
            harness.process_element(lambda ctx: ctx.get_broadcast_state(RULES).clear())
        harness.process_element("a")
        assert harness.values() == [("a", 0)]


def test_both_sides_read_maps_the_same_way() -> None:
    def read(ctx: Any) -> Any:
        state = ctx.get_broadcast_state(RULES)
        return (
            state.get("a"),
            state["missing"],
            "a" in state,
            state.contains("b"),
            sorted(state.items()),
            sorted(state.keys()),
            sorted(state.values()),
            state.is_empty(),
            sorted(state),
        )

    with rules() as harness:
        harness.process_element2(lambda ctx: ctx.get_broadcast_state(RULES).put_all({"a": 1, "c": 2}))
        harness.clear_output()
        harness.process_element(read)
        harness.process_element2(read)
        assert (
            harness.values()
            == [(1, None, True, False, [("a", 1), ("c", 2)], ["a", "c"], [1, 2], False, ["a", "c"])] * 2
        )


@pytest.mark.parametrize(
    ("key_type", "key"), [(Types.FLOAT(), 0.1), (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]), Row(1, 2))]
)
def test_a_key_that_its_type_changes_is_found_by_both_sides_as_it_was_put(key_type: Any, key: Any) -> None:
    rules = MapStateDescriptor("rules", key_type, Types.STRING())

    def look(ctx: Any) -> Any:
        state = ctx.get_broadcast_state(rules)
        return state.get(key), state.contains(key), key in state

    def put(ctx: Any) -> Any:
        ctx.get_broadcast_state(rules).put(key, "x")
        return look(ctx)

    def remove(ctx: Any) -> Any:
        ctx.get_broadcast_state(rules).remove(key)
        return look(ctx)

    with TwoInputHarness.for_broadcast_process(Rules(), rules) as harness:
        harness.process_element2(put)
        harness.process_element(look)
        harness.process_element2(remove)
        assert harness.values() == [("x", True, True), ("x", True, True), (None, False, False)]


def test_a_writer_may_remove_while_it_iterates() -> None:
    def remove_all(ctx: Any) -> Any:
        state = ctx.get_broadcast_state(RULES)
        for key in state:
            state.remove(key)
        state.remove("not there")
        return state.is_empty()

    with rules() as harness:
        harness.process_elements2([("a", 1), ("b", 2), remove_all])
        assert harness.values() == [True]


def test_a_map_that_was_not_declared_is_refused_with_those_that_were() -> None:
    with rules() as harness:
        for process in (harness.process_element, harness.process_element2):
            with pytest.raises(UnsupportedOperationError, match=r"'other' is not supported: .*broadcast with 'rules'"):
                process(lambda ctx: ctx.get_broadcast_state(OTHER))


def test_contexts_know_the_clocks_and_the_timestamp() -> None:
    def clocks(ctx: Any) -> Any:
        return ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()

    with rules() as harness:
        harness.set_processing_time(77)
        harness.process_watermark(3)
        harness.process_watermark2(3)
        harness.process_element(clocks, timestamp=5)
        harness.process_element2(clocks, timestamp=6)
        assert harness.values() == [(5, 3, 77), (6, 3, 77)]


def test_maps_are_part_of_the_checkpoint_and_every_new_subtask_gets_them() -> None:
    old = [rules(subtask_index=index, parallelism=2) for index in range(2)]
    for harness in old:
        harness.process_elements2([("a", 1), (None, [2])])
    snapshots = [harness.snapshot() for harness in old]
    for index in range(3):
        new = rules(subtask_index=index, parallelism=3)
        new.restore(*snapshots)
        new.process_elements(["a", None])
        assert new.values() == [("a", 1), (None, [2])]


def test_a_map_with_what_cannot_be_pickled_names_the_key() -> None:
    with rules() as harness:
        harness.process_elements2([("fine", 1), ("bad", (item for item in "x"))])
        with pytest.raises(UnpicklableStateError, match=r"State 'rules' holds a .* for key 'bad'"):
            harness.snapshot()


def test_timers_see_the_maps_and_the_state_of_their_key() -> None:
    with keyed() as harness:
        harness.process_elements(["a", "b", "a"])
        harness.process_element2(lambda function, ctx: ctx.get_broadcast_state(RULES).put("x", 1))
        harness.clear_output()
        harness.process_watermark(50)
        harness.process_watermark2(60)
        assert harness.output() == [
            StreamRecord(("timer", "a", 2, {"x": 1}), 50),
            StreamRecord(("timer", "b", 1, {"x": 1}), 50),
            Watermark(50),
        ]


def test_no_key_is_at_hand_at_a_broadcast_record() -> None:
    with keyed() as harness:
        harness.process_element("a")
        for _ in range(2):
            with pytest.raises(UnsupportedOperationError, match="apply_to_keyed_state"):
                harness.process_element2(lambda function, ctx: function.seen.value())
        harness.process_element("a")
        assert harness.values() == [("a", 1), ("a", 2)]


@pytest.mark.parametrize("keys", [["a", "b", "c"], [Key("a"), ("b", 1), None]])
def test_a_broadcast_record_reaches_the_keyed_state_of_all_keys(keys: list[Any]) -> None:
    seen = []

    def visit(key: Any, state: Any) -> None:
        seen.append((key, state.value()))
        if key == keys[1]:
            state.clear()
        else:
            state.update(10)

    before = keyed()
    before.process_elements([*keys, keys[0]])
    after = keyed()
    after.restore(before.snapshot())
    after.process_element2(lambda function, ctx: ctx.apply_to_keyed_state(SEEN, visit))
    after.process_elements(keys)
    assert sorted(seen, key=repr) == sorted([(keys[0], 2), (keys[1], 1), (keys[2], 1)], key=repr)
    assert after.values() == [(keys[0], 11), (keys[1], 1), (keys[2], 11)]
    after.process_element2(lambda function, ctx: ctx.apply_to_keyed_state(SEEN, visit))
    assert sorted(seen[3:], key=repr) == sorted([(keys[0], 11), (keys[1], 1), (keys[2], 11)], key=repr)


def test_a_function_object_may_visit_the_keys() -> None:
    class Visitor:
        def process(self, key: Any, state: Any) -> None:
            state.update(100)

    with keyed() as harness:
        harness.process_element("a")
        harness.process_element2(lambda function, ctx: ctx.apply_to_keyed_state(SEEN, Visitor()))
        harness.process_element("a")
        assert harness.values() == [("a", 1), ("a", 101)]


@pytest.mark.parametrize(
    ("descriptor", "add", "read"),
    [
        (ListStateDescriptor("x"), "add", "get"),
        (MapStateDescriptor("x"), "put", "items"),
        (ReducingStateDescriptor("x", lambda a, b: a + b), "add", "get"),
    ],
)
def test_states_of_each_kind_are_reached_key_by_key(descriptor: Any, add: str, read: str) -> None:
    """Keys that are no text come as they are: what is equal to them is not enough."""

    def fill(key: Any, state: Any) -> None:
        getattr(state, add)(*((key, 1) if add == "put" else (1,)))

    found: dict[Any, Any] = {}

    def see(key: Any, state: Any) -> None:
        value = getattr(state, read)()
        found[key] = value if isinstance(value, int) else list(value)

    def gone(key: Any, state: Any) -> None:
        state.clear()

    with keyed() as harness:
        for key in ("a", "b", Row(1, "c")):
            harness.process_element(key)
        harness.process_element2(lambda function, ctx: ctx.apply_to_keyed_state(descriptor, fill))
        harness.process_element2(lambda function, ctx: ctx.apply_to_keyed_state(descriptor, see))
        assert found == {}
        harness.process_element2(
            lambda function, ctx: ctx.apply_to_keyed_state(
                SEEN, lambda key, state: fill(key, function.context.state_of(descriptor))
            )
        )
        harness.process_element2(lambda function, ctx: ctx.apply_to_keyed_state(descriptor, see))
        assert found == {
            key: 1 if isinstance(descriptor, ReducingStateDescriptor) else [(key, 1) if add == "put" else 1]
            for key in ("a", "b", Row(1, "c"))
        }
        harness.process_element2(lambda function, ctx: ctx.apply_to_keyed_state(descriptor, gone))
        found.clear()
        harness.process_element2(lambda function, ctx: ctx.apply_to_keyed_state(descriptor, see))
        assert found == {}
