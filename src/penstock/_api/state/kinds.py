"""The kinds of state, as a function sees them: what it asks for, by which descriptor, and what it gets.

The engine implements them (`state.kinds`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._api.functions.basic import AggregateFunction, ReduceFunction, as_reduce_function
from penstock._api.state.descriptors import StateDescriptor, given
from penstock._shelf import show
from penstock.common.typeinfo import TypeInformation, Types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """Data that outlives a record, an epoch and a failure.

    Keyed state belongs to the key of the current record or timer.

    Source: org.apache.flink.api.common.state.State.
    """

    @abstractmethod
    def clear(self) -> None:
        """Delete the state of the current key."""


class ValueState(State, Generic[T]):
    """One value per key.

    Source: org.apache.flink.api.common.state.ValueState.
    """

    @abstractmethod
    def value(self) -> T | None:
        """Return the value of the current key; None when there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the value of the current key; None deletes it."""


class ValueStateDescriptor(StateDescriptor):
    """Describes a state of one value per key.

    Args:
        name: The name of the state.
        value_type_info: The type of the value; optional.

    Source: org.apache.flink.api.common.state.ValueStateDescriptor.

    Example:
        >>> ValueStateDescriptor("count").get_name()
        'count'
    """

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, value_type_info)


class AppendingState(State, Generic[IN, OUT]):
    """State to which values are added.

    Source: org.apache.flink.api.common.state.AppendingState.
    """

    @abstractmethod
    def get(self) -> OUT | None:
        """Return the result of all added values; None without any."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add a value."""


class MergingState(AppendingState[IN, OUT]):
    """State whose contents for two windows can become one.

    Source: org.apache.flink.api.common.state.MergingState.
    """


class ReducingState(MergingState[T, T]):
    """One value per key, to which a reduce function adds.

    Source: org.apache.flink.api.common.state.ReducingState.
    """


class ReducingStateDescriptor(StateDescriptor):
    """Describes a state of one value per key, to which a reduce function adds.

    Args:
        name: The name of the state.
        reduce_function: A ReduceFunction, or a callable of two values.
        type_info: The type of the value; optional.

    Raises:
        TypeError: The function is neither.

    Source: org.apache.flink.api.common.state.ReducingStateDescriptor.
    """

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        type_info: TypeInformation | None = None,
    ) -> None:
        super().__init__(name, type_info)
        self._reduce_function = as_reduce_function(reduce_function)

    def get_reduce_function(self) -> ReduceFunction[Any]:
        """Return the function."""
        return self._reduce_function


class AggregatingState(MergingState[IN, OUT]):
    """One accumulator per key, to which an aggregate function adds.

    Source: org.apache.flink.api.common.state.AggregatingState.
    """


class AggregatingStateDescriptor(StateDescriptor):
    """Describes a state of one accumulator per key, to which an aggregate function adds.

    Args:
        name: The name of the state.
        agg_function: The function.
        state_type_info: The type of the accumulator; optional.

    Raises:
        TypeError: The function is no AggregateFunction.

    Source: org.apache.flink.api.common.state.AggregatingStateDescriptor.
    """

    def __init__(
        self, name: str, agg_function: AggregateFunction[Any, Any, Any], state_type_info: TypeInformation | None = None
    ) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"agg_function must be an AggregateFunction, not {agg_function!r}."
            raise TypeError(msg)
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction[Any, Any, Any]:
        """Return the function."""
        return self._agg_function


class ListState(MergingState[T, "Iterable[T]"]):
    """One list per key.

    Source: org.apache.flink.api.common.state.ListState.
    """

    @abstractmethod
    def get(self) -> Iterable[T]:
        """Return the values in the order of their addition."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace all values by these."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Add several values."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class ListStateDescriptor(StateDescriptor):
    """Describes a state of one list per key.

    Args:
        name: The name of the state.
        elem_type_info: The type of the list's elements; optional.

    Source: org.apache.flink.api.common.state.ListStateDescriptor.
    """

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, Types.LIST(given(elem_type_info)))


class _Lookup(State, Generic[K, V]):
    """Reading a map."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value under a key; None when there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Tell whether there is a value under a key."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return the pairs of keys and values."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Return the keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Return the values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Tell whether there is nothing in it."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class _Table(_Lookup[K, V]):
    """Reading and writing a map."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Store a value under a key."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Store the values of a dict under its keys; an iterable of pairs does as well."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Delete the value under a key; without effect if there is none."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_Table[K, V]):
    """One map per key of the stream; keys and values of the map may be None.

    Source: org.apache.flink.api.common.state.MapState.
    """


class MapStateDescriptor(StateDescriptor):
    """Describes a state of one map per key, or a broadcast map.

    Args:
        name: The name of the state.
        key_type_info: The type of the map's keys; optional.
        value_type_info: The type of the map's values; optional.

    Source: org.apache.flink.api.common.state.MapStateDescriptor.
    """

    def __init__(
        self, name: str, key_type_info: TypeInformation | None = None, value_type_info: TypeInformation | None = None
    ) -> None:
        super().__init__(name, Types.MAP(given(key_type_info), given(value_type_info)))


class ReadOnlyBroadcastState(_Lookup[K, V]):
    """The read-only view of a broadcast map for the other input.

    Source: org.apache.flink.api.common.state.ReadOnlyBroadcastState.
    """


class BroadcastState(_Table[K, V], ReadOnlyBroadcastState[K, V]):
    """The map that broadcast records fill: the same on every subtask.

    Source: org.apache.flink.api.common.state.BroadcastState.
    """


class KeyedStateStore(ABC):
    """Gives access to keyed state, which belongs to the key of the current record.

    Source: org.apache.flink.api.common.state.KeyedStateStore.
    """

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return a state of one value per key."""
        return self._keyed_state("get_state", ValueStateDescriptor, state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a state of one list per key."""
        return self._keyed_state("get_list_state", ListStateDescriptor, state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return a state of one map per key."""
        return self._keyed_state("get_map_state", MapStateDescriptor, state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return a state that reduces added values to one value of the same type."""
        return self._keyed_state("get_reducing_state", ReducingStateDescriptor, state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """Return a state that aggregates added values in an accumulator."""
        return self._keyed_state("get_aggregating_state", AggregatingStateDescriptor, state_descriptor)

    @abstractmethod
    def _keyed_state(self, call: str, kind: type[StateDescriptor], descriptor: StateDescriptor) -> Any:
        """Return the state of a descriptor.

        Args:
            call: What was called for it.
            kind: The descriptors that it takes.
            descriptor: What it was given.
        """


show(
    "penstock.datastream.state",
    AggregatingState,
    AggregatingStateDescriptor,
    AppendingState,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    MergingState,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    State,
    ValueState,
    ValueStateDescriptor,
)
show("penstock.datastream.functions", KeyedStateStore)
