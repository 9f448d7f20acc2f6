"""Kinds of keyed state through the runtime context of a function, in a store with room for almost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.operators.starved import OperatorHarness, starved

from penstock._engine.state.key_rows import clear_key, rows_of_key
from penstock._engine.state.kinds import registry
from penstock._engine.state.kinds.kind import StateKind, StateScope
from penstock._engine.state.table import ABSENT, MISSING
from penstock.common import Time, Types
from penstock.datastream.functions import AggregateFunction, KeyedProcessFunction
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.errors import DeclaredTypeError, StateDescriptorError, UnsupportedOperationError

if TYPE_CHECKING:
    from pathlib import Path


class Mean(AggregateFunction):
    """Its accumulators are lists that it changes, and all of them one object at first."""

    shared: list[int] = []  # noqa: RUF012 - on purpose

    def create_accumulator(self) -> Any:
        return self.shared

    def add(self, value: int, accumulator: Any) -> Any:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return sum(accumulator) / len(accumulator)

    def merge(self, a: Any, b: Any) -> Any:
        raise NotImplementedError


class Ask(KeyedProcessFunction):
    """Records are pairs of a key and a function of the state."""

    def __init__(self, descriptor: StateDescriptor, call: str) -> None:
        self.descriptor, self.call = descriptor, call

    def open(self, runtime_context: Any) -> None:
        self.state = getattr(runtime_context, self.call)(self.descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value[1](self.state)


def harness(directory: Path, descriptor: StateDescriptor, call: str) -> Any:
    return starved(OperatorHarness, directory).for_keyed_process(Ask(descriptor, call), lambda pair: pair[0])


def fold(before: list[int], more: list[int]) -> list[int]:
    before += more
    return before


def get(state: Any) -> Any:
    return state.get()


def add(state: Any, number: int) -> None:
    state.add(number)


#: By what is tested: the call, its descriptor, what writes a number, what reads, and what is read of two keys.
CASES: dict[str, tuple[str, StateDescriptor, Any, Any, Any]] = {
    "value": ("get_state", ValueStateDescriptor("x"), lambda s, n: s.update(n), lambda s: s.value(), [3, 2]),
    "list": ("get_list_state", ListStateDescriptor("x"), add, list, [[1, 3], [2]]),
    "map": ("get_map_state", MapStateDescriptor("x"), lambda s, n: s.put(n, -n), lambda s: dict(s.items()), [
        {1: -1, 3: -3}, {2: -2},
    ]),
    "reducing": ("get_reducing_state", ReducingStateDescriptor("x", max), add, get, [3, 2]),
    "folding": ("get_reducing_state", ReducingStateDescriptor("x", fold), lambda s, n: s.add([n]), get, [[1, 3], [2]]),
    "aggregating": ("get_aggregating_state", AggregatingStateDescriptor("x", Mean()), add, get, [2, 2]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_kind_belongs_to_its_key_and_goes_on_from_a_checkpoint(tmp_path: Path, case: str) -> None:
    call, descriptor, write, read, found = CASES[case]
    before = harness(tmp_path, descriptor, call)
    for number in (1, 2, 3):
        before.process_element(("odd" if number % 2 else "even", lambda state, n=number: write(state, n)))
    after = harness(tmp_path, descriptor, call)
    after.restore(before.snapshot())
    empty: Any = {"get_list_state": [], "get_map_state": {}}.get(call)
    for key in ("odd", "even", "none"):
        after.process_element((key, read))
    after.process_element(("odd", lambda state: state.clear()))
    after.process_element(("odd", read))
    assert after.values() == [*found, empty, None, empty]


@pytest.mark.parametrize(
    ("call", "descriptor", "write"),
    [
        ("get_map_state", MapStateDescriptor("x", Types.INT(), Types.INT()), lambda state: state.put(1, "a")),
        ("get_reducing_state", ReducingStateDescriptor("x", max, Types.INT()), lambda state: state.add("a")),
        ("get_aggregating_state", AggregatingStateDescriptor("x", Mean(), Types.INT()), lambda state: state.add("a")),
    ],
    ids=["map", "reducing", "aggregating"],
)
def test_declared_types_are_held(tmp_path: Path, call: str, descriptor: StateDescriptor, write: Any) -> None:
    with pytest.raises(DeclaredTypeError, match="'x'"):
        harness(tmp_path, descriptor, call).process_element(("k", write))


def test_descriptor_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"get_map_state takes a MapStateDescriptor, not ValueStateDescriptor\(.x.\)"):
        harness(tmp_path, ValueStateDescriptor("x"), "get_map_state").process_element(("k", str))


def test_state_that_was_written_as_another_kind_is_refused(tmp_path: Path) -> None:
    before = harness(tmp_path, ValueStateDescriptor("x"), "get_state")
    before.process_element(("k", lambda state: state.update(1)))
    after = harness(tmp_path, MapStateDescriptor("x"), "get_map_state")
    after.restore(before.snapshot())
    with pytest.raises(StateDescriptorError, match="declared as map state, but was written as value state"):
        after.open()


# ------------------------------------------------------------------------------------------------------ a kind more


class LastFewDescriptor(StateDescriptor):
    """Asks for the last values of each key, with the time of each."""


class LastFew(State):
    """One row for each time: what a new kind needs is its rows alone."""

    def __init__(self, scope: StateScope, most: int) -> None:
        self._pane = scope.table.pane(scope.namespace)
        self._key = scope.key
        self._most = most

    def add(self, timestamp: int, value: Any) -> None:
        address = self._key.normal, (), timestamp
        self._pane.put(address, value)
        self._pane.dirty.add(address)
        for old in sorted(self.times())[: -self._most]:
            self._pane.put((self._key.normal, (), old), ABSENT)
            self._pane.dirty.add((self._key.normal, (), old))

    def times(self) -> list[Any]:
        rows = rows_of_key(self._pane, (self._key.normal, ()))
        return [address[2] for address, _, _, _ in rows if isinstance(address, tuple)]

    def at(self, timestamp: int) -> Any:
        address = self._key.normal, (), timestamp
        value = self._pane.hot.get(address, MISSING)
        return self._pane.load(address) if value is MISSING else value

    def clear(self) -> None:
        clear_key(self._pane, (self._key.normal, ()))


class LastFewKind(StateKind[LastFewDescriptor]):
    name = "last-few"
    descriptor = LastFewDescriptor
    has_sub_keys = True

    def state(self, descriptor: LastFewDescriptor, scope: StateScope) -> LastFew:
        return LastFew(scope, 2)


def test_a_new_kind_is_a_module_and_a_line_in_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "KINDS", [*registry.KINDS, LastFewKind()])
    before = harness(tmp_path, LastFewDescriptor("x"), "state_of")
    for time in (5, 1, 9):
        before.process_element(("k", lambda state, at=time: state.add(at, str(at))))
    after = harness(tmp_path, LastFewDescriptor("x"), "state_of")
    after.restore(before.snapshot())
    after.process_element(("k", lambda state: (sorted(state.times()), state.at(9), state.at(1))))
    after.process_element(("k", lambda state: state.clear()))
    after.process_element(("k", lambda state: state.times()))
    assert after.values() == [([5, 9], "9", ABSENT), None, []]


def test_a_new_kind_that_knows_nothing_of_stamps_cannot_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "KINDS", [*registry.KINDS, LastFewKind()])
    descriptor = LastFewDescriptor("x")
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    with pytest.raises(UnsupportedOperationError, match="last-few state stays until it is cleared"):
        harness(tmp_path, descriptor, "state_of").open()
