"""States whose types are declared: they read as the states below them do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.protocol.tracebacks import own_lines
from penstock._engine.state.kinds.typed import TypedBroadcastState
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import BroadcastState, ValueStateDescriptor
from penstock.errors import DeclaredTypeError
from penstock.testing import OperatorHarness

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.datastream.functions import RuntimeContext


class Plain(BroadcastState[Any, Any]):
    """A map in memory."""

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        return self.entries.get(key)

    def contains(self, key: Any) -> bool:
        return key in self.entries

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self.entries.items()

    def keys(self) -> Iterable[Any]:
        return self.entries.keys()

    def values(self) -> Iterable[Any]:
        return self.entries.values()

    def is_empty(self) -> bool:
        return not self.entries

    def put(self, key: Any, value: Any) -> None:
        self.entries[key] = value

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        self.entries.update(dict_value)

    def remove(self, key: Any) -> None:
        self.entries.pop(key, None)

    def clear(self) -> None:
        self.entries.clear()


class Keeps(KeyedProcessFunction):
    """Keeps what it gets in a state of numbers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.last.update(value)


def test_a_value_of_another_type_names_the_line_that_gave_it() -> None:
    with OperatorHarness.for_keyed_process(Keeps(), lambda _: 0) as harness:
        with pytest.raises(DeclaredTypeError) as caught:
            harness.process_element("seven")
        last = own_lines(caught.value.__traceback__)[-1].tb_frame.f_code
    assert (last.co_filename, last.co_name) == (__file__, "process_element")


def test_a_broadcast_map_with_types_reads_as_one_without() -> None:
    held = TypedBroadcastState(Plain(), None, None)
    assert held.is_empty()
    held.put("a", 1)
    held.put_all({"b": 2})
    assert (held.get("a"), held.get("c"), held.contains("b"), held.contains("c")) == (1, None, True, False)
    assert (list(held.keys()), list(held.values())) == (["a", "b"], [1, 2])
    assert (list(held.items()), held.is_empty()) == ([("a", 1), ("b", 2)], False)
    held.remove("a")
    assert not held.contains("a")
    held.clear()
    assert held.is_empty()
