"""The entries of a savepoint's states, each a small value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock._api.time_domain import TimeDomain


@dataclass(frozen=True, slots=True)
class KeyedEntry:
    """One key of a keyed state.

    Attributes:
        key: The key. If the state does not store keys, it is an equal value, such as a tuple for a named tuple.
        value: The value, whose form depends on the kind of the state.
        window: Start and end in milliseconds for state of windows; () elsewhere.

    Example:
        >>> KeyedEntry("a", 7)
        KeyedEntry(key='a', value=7, window=())
    """

    key: Any
    value: Any
    window: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MapEntry(KeyedEntry):
    """One entry of the map of one key.

    Attributes:
        map_key: The key of the entry in the map.

    Example:
        >>> MapEntry("ada", 7, map_key="logins")
        MapEntry(key='ada', value=7, window=(), map_key='logins')
    """

    map_key: Any = None


@dataclass(frozen=True, slots=True)
class TimerEntry:
    """One pending timer.

    Attributes:
        key: Its key.
        timestamp: The time at which it fires, in epoch milliseconds.
        domain: The clock of the timer.
        window: Start and end in milliseconds for timers of windows; () elsewhere.
    """

    key: Any
    timestamp: int
    domain: TimeDomain = TimeDomain.EVENT_TIME
    window: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ListItem:
    """One item of an operator list or union list.

    Attributes:
        subtask: The subtask that it belonged to.
        value: The item.
    """

    subtask: int
    value: Any


@dataclass(frozen=True, slots=True)
class BroadcastEntry:
    """One entry of a broadcast state.

    Attributes:
        key: The key.
        value: The value.
    """

    key: Any
    value: Any


@dataclass(frozen=True, slots=True)
class SplitEntry:
    """One split that a source has given to a reader.

    Attributes:
        subtask: The reader.
        split: The split, with the position that it was read up to.
        has_arrived: Whether the reader has it; False on the way to the reader, or back to the enumerator.
    """

    subtask: int
    split: Any
    has_arrived: bool
