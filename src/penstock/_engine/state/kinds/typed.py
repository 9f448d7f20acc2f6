"""Wrappers that convert written values to the type that a descriptor declares; a state without a type has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock._api.state.kinds import BroadcastState, ListState, MapState, ValueState
from penstock._engine.protocol.keys import normal_key
from penstock.common.conversion import conversion, taking
from penstock.common.typeinfo import ListTypeInfo, MapTypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._api.state.descriptors import StateDescriptor
    from penstock._api.state.kinds import ListStateDescriptor, MapStateDescriptor
    from penstock.common.conversion import Conversion

#: The methods of maps that are attributes.
_METHODS: Final = ("clear", "contains", "get", "is_empty", "items", "keys", "put", "remove", "values")


def typed_value(state: ValueState[Any], descriptor: StateDescriptor, operator: str) -> ValueState[Any]:
    """Return a value state that converts values to the declared type."""
    held = conversion(descriptor.type_info, _named(descriptor.get_name(), operator))
    return state if held is None else TypedValueState(state, held)


def typed_list(state: ListState[Any], descriptor: ListStateDescriptor, operator: str) -> ListState[Any]:
    """Return a list state that converts items to the declared type."""
    declared = descriptor.type_info
    element = declared.elem_type if isinstance(declared, ListTypeInfo) else declared
    held = conversion(element, f"An item of {_named(descriptor.get_name(), operator, 's')}")
    return state if held is None else TypedListState(state, held)


def typed_map(state: MapState[Any, Any], descriptor: MapStateDescriptor, operator: str) -> MapState[Any, Any]:
    """Return a map state that converts keys and values to the declared types."""
    key, value = _parts(descriptor, operator)
    return state if key is None and value is None else TypedMapState(state, key, value)


def typed_broadcast(
    state: BroadcastState[Any, Any], descriptor: MapStateDescriptor, operator: str
) -> BroadcastState[Any, Any]:
    """Return a broadcast state that converts keys and values to the declared types."""
    key, value = _parts(descriptor, operator)
    return state if key is None and value is None else TypedBroadcastState(state, key, value)


def _parts(descriptor: MapStateDescriptor, operator: str) -> tuple[Conversion | None, Conversion | None]:
    declared = descriptor.type_info
    assert isinstance(declared, MapTypeInfo)
    name = _named(descriptor.get_name(), operator, "s")
    return conversion(declared.key_type, f"A key of {name}"), conversion(declared.value_type, f"A value of {name}")


def _named(state: str, operator: str, letter: str = "S") -> str:
    return f"{letter}tate {state!r} of {operator!r}"


# The methods are attributes: what reads is the state's own method, what writes a compiled function before it. They run
# for each record, so there is no further call between them and the program.


class TypedValueState(ValueState[Any]):
    """One value per key."""

    __slots__ = ("clear", "update", "value")

    def __init__(self, state: ValueState[Any], held: Conversion) -> None:
        self.value = state.value
        self.update = taking(state.update, held)
        self.clear = state.clear


class TypedListState(ListState[Any]):
    """The list of a key or of a subtask."""

    __slots__ = ("_held", "_state", "add", "clear", "get")

    def __init__(self, state: ListState[Any], held: Conversion) -> None:
        self._state = state
        self._held = held
        self.get = state.get
        self.add = taking(state.add, held)
        self.clear = state.clear

    def add_all(self, values: list[Any]) -> None:
        self._state.add_all(self._held.block(list(values)))

    def update(self, values: list[Any]) -> None:
        self._state.update(self._held.block(list(values)))


class _TypedMap:
    """A map that converts keys to the declared type both when it stores and when it looks up."""

    def __init__(
        self, state: MapState[Any, Any] | BroadcastState[Any, Any], key: Conversion | None, value: Conversion | None
    ) -> None:
        self._state = state
        self._key = key
        self._value = value
        self.get = taking(state.get, key)
        self.contains = taking(state.contains, key)
        self.put = taking(state.put, key, value)
        self.remove = taking(state.remove, key)
        self.items = state.items
        self.keys = state.keys
        self.values = state.values
        self.is_empty = state.is_empty
        self.clear = state.clear

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        entries = dict(dict_value)
        keys, values = list(entries), list(entries.values())
        if self._key is not None:
            keys = self._key.distinct(keys, normal_key)
        self._state.put_all(zip(keys, values if self._value is None else self._value.block(values), strict=True))


class TypedMapState(_TypedMap, MapState[Any, Any]):
    """The map of a key."""

    __slots__ = _METHODS


class TypedBroadcastState(_TypedMap, BroadcastState[Any, Any]):
    """A map that is the same on all subtasks."""

    __slots__ = _METHODS
