"""Wrappers that convert written values to the type that a descriptor declares; a state without a type has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.state.kinds import BroadcastState, ListState, MapState, ValueState
from penstock._engine.protocol.keys import normal_key
from penstock.common.conversion import conversion
from penstock.common.typeinfo import ListTypeInfo, MapTypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._api.state.descriptors import StateDescriptor
    from penstock._api.state.kinds import ListStateDescriptor, MapStateDescriptor
    from penstock.common.conversion import Conversion


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


class TypedValueState(ValueState[Any]):
    """One value per key."""

    __slots__ = ("_convert", "_state")

    def __init__(self, state: ValueState[Any], held: Conversion) -> None:
        self._state = state
        self._convert = held.value

    def value(self) -> Any:
        return self._state.value()

    def update(self, value: Any) -> None:
        self._state.update(self._convert(value))

    def clear(self) -> None:
        self._state.clear()


class TypedListState(ListState[Any]):
    """The list of a key or of a subtask."""

    __slots__ = ("_held", "_state")

    def __init__(self, state: ListState[Any], held: Conversion) -> None:
        self._state = state
        self._held = held

    def get(self) -> Iterable[Any]:
        return self._state.get()

    def add(self, value: Any) -> None:
        self._state.add(self._held.value(value))

    def add_all(self, values: list[Any]) -> None:
        self._state.add_all(self._held.block(list(values)))

    def update(self, values: list[Any]) -> None:
        self._state.update(self._held.block(list(values)))

    def clear(self) -> None:
        self._state.clear()


class _TypedMap:
    """A map that converts keys to the declared type both when it stores and when it looks up."""

    def __init__(
        self, state: MapState[Any, Any] | BroadcastState[Any, Any], key: Conversion | None, value: Conversion | None
    ) -> None:
        self._state = state
        self._key = key
        self._value = value

    def get(self, key: Any) -> Any:
        return self._state.get(self._typed(key))

    def contains(self, key: Any) -> bool:
        return self._state.contains(self._typed(key))

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._state.items()

    def keys(self) -> Iterable[Any]:
        return self._state.keys()

    def values(self) -> Iterable[Any]:
        return self._state.values()

    def is_empty(self) -> bool:
        return self._state.is_empty()

    def put(self, key: Any, value: Any) -> None:
        self._state.put(self._typed(key), value if self._value is None else self._value.value(value))

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        entries = dict(dict_value)
        keys, values = list(entries), list(entries.values())
        if self._key is not None:
            keys = self._key.distinct(keys, normal_key)
        self._state.put_all(zip(keys, values if self._value is None else self._value.block(values), strict=True))

    def remove(self, key: Any) -> None:
        self._state.remove(self._typed(key))

    def clear(self) -> None:
        self._state.clear()

    def _typed(self, key: Any) -> Any:
        return key if self._key is None else self._key.value(key)


class TypedMapState(_TypedMap, MapState[Any, Any]):
    """The map of a key."""


class TypedBroadcastState(_TypedMap, BroadcastState[Any, Any]):
    """A map that is the same on all subtasks."""
