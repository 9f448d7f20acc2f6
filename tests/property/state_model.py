"""A function's states and timers as dicts and a set, and what is done to both in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from tests.kit.asking import timer

from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor

if TYPE_CHECKING:
    from tests.kit.asking import Process, Subtasks

#: Of whatever type, and of one beginning, as stored keys have.
KEYS = [0, 1, -1, 2**70, "a", "aa", "b" * 600, ("t", 1)]
SUBS = [None, 0, -1, 2**70, "", "s", "x" * 300, ("t", 1)]
TIMES = [-3, 0, 5, 10]
#: Before all timers.
BEFORE = -100
COUNT, OTHER = ValueStateDescriptor("count"), ValueStateDescriptor("other")
MAPS, SEEN = MapStateDescriptor("maps"), MapStateDescriptor("seen")
STATES = (COUNT, OTHER, MAPS, SEEN)

keys, times, values = st.sampled_from(KEYS), st.sampled_from(TIMES), st.sampled_from([COUNT, OTHER])
maps = st.sampled_from([MAPS, SEEN])
subs = st.sampled_from(SUBS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), values, keys, st.integers(0, 9)),
        st.tuples(st.just("write"), values, keys, st.none()),
        st.tuples(st.just("read"), values, keys),
        st.tuples(st.just("count"), values, st.lists(keys, max_size=8)),
        st.tuples(st.just("list"), values),
        st.tuples(st.just("drop"), values),
        st.tuples(st.just("put"), maps, keys, subs, st.one_of(st.integers(0, 9), st.none())),
        st.tuples(st.just("fill"), maps, keys, st.integers(0, 9)),
        st.tuples(st.just("look"), maps, keys, subs),
        st.tuples(st.just("go_through"), maps, keys),
        st.tuples(st.just("clear"), maps, keys),
        st.tuples(st.just("drop_maps"), maps),
        st.tuples(st.just("set"), times, keys),
        st.tuples(st.just("unset"), times, keys),
        st.tuples(st.just("fire"), times),
    ),
    max_size=12,
)


class Model:
    """What the states and timers of a function are: of one subtask, or of all."""

    def __init__(
        self,
        entries: dict[Any, Any] | None = None,
        timers: set[Any] | None = None,
        rows: dict[Any, Any] | None = None,
    ) -> None:
        #: By state and key; of maps by state, key and key in the map.
        self.entries: dict[Any, Any] = dict(entries or {})
        self.rows: dict[Any, Any] = dict(rows or {})
        self.timers: set[Any] = set(timers or ())

    def copy(self) -> Model:
        return Model(self.entries, self.timers, self.rows)

    def check(self, process: Process | Subtasks) -> None:
        entries: dict[Any, Any] = {}
        rows: dict[Any, Any] = {}

        def of_value(key: Any, state: Any, name: str) -> None:
            add(entries, (name, key), state.value())

        def of_map(key: Any, state: Any, name: str) -> None:
            for sub, value in state.items():
                add(rows, (name, key, sub), value)

        process.everywhere({COUNT: of_value, OTHER: of_value, MAPS: of_map, SEEN: of_map})
        assert entries == self.entries
        assert rows == self.rows

    def check_timers(self, process: Process | Subtasks) -> None:
        """Compare all timers; they are gone then."""
        found = process.fire(1_000)
        assert [time for time, _ in found] == sorted(time for time, _ in self.timers)
        assert (set(found), len(found)) == (self.timers, len(self.timers))

    def run(self, process: Process | Subtasks, step: tuple[Any, ...]) -> None:
        """Do one thing to the states and to the model."""
        what, *arguments = step
        getattr(self, what)(process, *arguments)

    def write(self, process: Process | Subtasks, descriptor: Any, key: Any, value: Any) -> None:
        name = descriptor.get_name()
        process.at(key, lambda states, _: states[name].clear() if value is None else states[name].update(value))
        self.entries[name, key] = value
        if value is None:
            del self.entries[name, key]

    def read(self, process: Process | Subtasks, descriptor: Any, key: Any) -> None:
        name = descriptor.get_name()
        assert process.at(key, lambda states, _: states[name].value()) == self.entries.get((name, key))

    def count(self, process: Process | Subtasks, descriptor: Any, batch: list[Any]) -> None:
        """Count the keys of a batch up."""
        name = descriptor.get_name()

        def up(states: Any, _: Any) -> None:
            states[name].update((states[name].value() or 0) + 1)

        process.at_each([(key, up) for key in batch])
        for key in batch:
            self.entries[name, key] = self.entries.get((name, key), 0) + 1

    def list(self, process: Process | Subtasks, descriptor: Any) -> None:
        """Go through a state while entries leave memory, and change what is there."""
        name, found = descriptor.get_name(), dict[Any, Any]()

        def negate(key: Any, state: Any, name: str) -> None:
            add(found, (name, key), state.value())
            state.update(-state.value())

        process.everywhere({descriptor: negate})
        assert found == {place: value for place, value in self.entries.items() if place[0] == name}
        self.entries |= {place: -value for place, value in found.items()}

    def drop(self, process: Process | Subtasks, descriptor: Any) -> None:
        process.everywhere({descriptor: cleared})
        self.entries = {place: value for place, value in self.entries.items() if place[0] != descriptor.get_name()}

    def put(self, process: Process | Subtasks, descriptor: Any, key: Any, sub: Any, value: Any) -> None:
        name = descriptor.get_name()
        process.at(key, lambda states, _: states[name].remove(sub) if value is None else states[name].put(sub, value))
        self.rows[name, key, sub] = value
        if value is None:
            del self.rows[name, key, sub]

    def fill(self, process: Process | Subtasks, descriptor: Any, key: Any, value: int) -> None:
        """Give a map all its rows at once."""
        name, rows = descriptor.get_name(), dict.fromkeys(SUBS, value)
        process.at(key, lambda states, _: states[name].put_all(rows))
        self.rows |= {(name, key, sub): value for sub in SUBS}

    def look(self, process: Process | Subtasks, descriptor: Any, key: Any, sub: Any) -> None:
        name = descriptor.get_name()
        found = process.at(key, lambda states, _: (states[name].get(sub), sub in states[name]))
        assert found == (self.rows.get((name, key, sub)), (name, key, sub) in self.rows)

    def go_through(self, process: Process | Subtasks, descriptor: Any, key: Any) -> None:
        """Go through the map of a key while another one is written."""
        name = descriptor.get_name()
        other = (SEEN if descriptor is MAPS else MAPS).get_name()

        def through(states: Any, _: Any) -> Any:
            found: list[Any] = []
            for sub, value in states[name].items():
                states[other].put(("other", len(found)), 1)
                found.append((sub, value))
            return found

        found = process.at(key, through)
        assert len(found) == len(dict(found))
        assert dict(found) == {sub: value for (of, at, sub), value in self.rows.items() if (of, at) == (name, key)}
        self.rows |= {(other, key, ("other", number)): 1 for number in range(len(found))}

    def clear(self, process: Process | Subtasks, descriptor: Any, key: Any) -> None:
        name = descriptor.get_name()
        process.at(key, lambda states, _: states[name].clear())
        assert process.at(key, lambda states, _: [sub for sub in SUBS if sub in states[name]]) == []
        self.rows = {row: value for row, value in self.rows.items() if row[:2] != (name, key)}

    def drop_maps(self, process: Process | Subtasks, descriptor: Any) -> None:
        process.everywhere({descriptor: cleared})
        self.rows = {row: value for row, value in self.rows.items() if row[0] != descriptor.get_name()}

    def set(self, process: Process | Subtasks, time: int, key: Any) -> None:
        process.at(key, timer(time, "processing"))
        self.timers.add((time, key))

    def unset(self, process: Process | Subtasks, time: int, key: Any) -> None:
        process.at(key, timer(time, "processing", is_set=False))
        self.timers.discard((time, key))

    def flip(self, process: Process | Subtasks, time: int, key: Any) -> None:
        """Delete a timer that is set, or set it."""
        (self.unset if (time, key) in self.timers else self.set)(process, time, key)

    def fire(self, process: Process | Subtasks, limit: int) -> None:
        fired = process.fire(limit)
        due = {timer for timer in self.timers if timer[0] <= limit}
        assert [time for time, _ in fired] == sorted(time for time, _ in due)
        assert (set(fired), len(fired)) == (due, len(due))
        self.timers -= due


def add(found: dict[Any, Any], place: Any, value: Any) -> None:
    """Note what is at a place, which must come once."""
    assert place not in found
    found[place] = value


def cleared(key: Any, state: Any, name: str) -> None:
    state.clear()
