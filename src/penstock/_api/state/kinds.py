"""The kinds of state, as a function sees them; the engine implements them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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


class AggregatingState(MergingState[IN, OUT]):
    """One accumulator per key, to which an aggregate function adds.

    Source: org.apache.flink.api.common.state.AggregatingState.
    """


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


class ReadOnlyBroadcastState(_Lookup[K, V]):
    """The read-only view of a broadcast map for the other input.

    Source: org.apache.flink.api.common.state.ReadOnlyBroadcastState.
    """


class BroadcastState(_Table[K, V], ReadOnlyBroadcastState[K, V]):
    """The map that broadcast records fill: the same on every subtask.

    Source: org.apache.flink.api.common.state.BroadcastState.
    """


show(
    "penstock.datastream.state",
    AggregatingState,
    AppendingState,
    BroadcastState,
    ListState,
    MapState,
    MergingState,
    ReadOnlyBroadcastState,
    ReducingState,
    State,
    ValueState,
)
