"""A program that asks for keyed state without a key is refused where it says so, long before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.graph.graphs import environment

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, MapFunction
from penstock.datastream.functions import ReduceFunction
from penstock.datastream.state import MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable

GREATEST = ReducingStateDescriptor("greatest", max, Types.INT())


class Echo(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Keyless(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("count"))

    def map(self, value: Any) -> Any:
        return value


def test_keyed_state_of_a_function_without_keys_is_refused() -> None:
    stream = environment().from_collection([1])
    stream.key_by(str).map(Keyless())
    with pytest.raises(UnsupportedOperationError, match="use it after key_by"):
        stream.map(Keyless())


class Device:
    def get_map_state(self) -> None: ...

    def get_state(self) -> None: ...


class TalksToADevice(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.device = Device()
        self.device.get_map_state()
        device = self.device
        device.get_state()

    def map(self, value: Any) -> Any:
        return value


class Asks(Echo):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.INT(), Types.INT()))
        self.greatest = runtime_context.get_reducing_state(GREATEST)


class Sums(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1


@pytest.mark.parametrize("function", [TalksToADevice, Asks])
def test_a_function_that_may_never_ask_for_it_is_not_refused(function: Callable[[], Any]) -> None:
    stream = environment().from_collection([1])
    made = function()
    assert stream.map(made) if isinstance(made, MapFunction) else stream.key_by(str).process(made)
    assert stream.key_by(str).reduce(Sums())
