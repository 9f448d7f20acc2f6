from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.kit.asking import Process, timer
from tests.unit.state.checkpoints import KilledError, as_if_large, killed_while_it_moves, written_in_parts

from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.errors import StaleAttemptError

if TYPE_CHECKING:
    from penstock.testing import OperatorSnapshot

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
    """What a subtask's states and timers are, as dicts and a set."""

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

    def check(self, process: Process) -> None:
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

    def check_timers(self, process: Process) -> None:
        """Compare all timers; they are gone then."""
        found = process.fire(1_000)
        assert [time for time, _ in found] == sorted(time for time, _ in self.timers)
        assert (set(found), len(found)) == (self.timers, len(self.timers))

    def run(self, process: Process, step: tuple[Any, ...]) -> None:
        """Do one thing to the states and to the model."""
        what, *arguments = step
        getattr(self, what)(process, *arguments)

    def write(self, process: Process, descriptor: Any, key: Any, value: Any) -> None:
        name = descriptor.get_name()
        process.at(key, lambda states, _: states[name].clear() if value is None else states[name].update(value))
        self.entries[name, key] = value
        if value is None:
            del self.entries[name, key]

    def read(self, process: Process, descriptor: Any, key: Any) -> None:
        name = descriptor.get_name()
        assert process.at(key, lambda states, _: states[name].value()) == self.entries.get((name, key))

    def count(self, process: Process, descriptor: Any, batch: list[Any]) -> None:
        """Count the keys of a batch up."""
        name = descriptor.get_name()

        def up(states: Any, _: Any) -> None:
            states[name].update((states[name].value() or 0) + 1)

        process.at_each([(key, up) for key in batch])
        for key in batch:
            self.entries[name, key] = self.entries.get((name, key), 0) + 1

    def list(self, process: Process, descriptor: Any) -> None:
        """Go through a state while entries leave memory, and change what is there."""
        name, found = descriptor.get_name(), dict[Any, Any]()

        def negate(key: Any, state: Any, name: str) -> None:
            add(found, (name, key), state.value())
            state.update(-state.value())

        process.everywhere({descriptor: negate})
        assert found == {place: value for place, value in self.entries.items() if place[0] == name}
        self.entries |= {place: -value for place, value in found.items()}

    def drop(self, process: Process, descriptor: Any) -> None:
        process.everywhere({descriptor: cleared})
        self.entries = {place: value for place, value in self.entries.items() if place[0] != descriptor.get_name()}

    def put(self, process: Process, descriptor: Any, key: Any, sub: Any, value: Any) -> None:
        name = descriptor.get_name()
        process.at(key, lambda states, _: states[name].remove(sub) if value is None else states[name].put(sub, value))
        self.rows[name, key, sub] = value
        if value is None:
            del self.rows[name, key, sub]

    def look(self, process: Process, descriptor: Any, key: Any, sub: Any) -> None:
        name = descriptor.get_name()
        found = process.at(key, lambda states, _: (states[name].get(sub), sub in states[name]))
        assert found == (self.rows.get((name, key, sub)), (name, key, sub) in self.rows)

    def go_through(self, process: Process, descriptor: Any, key: Any) -> None:
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

    def clear(self, process: Process, descriptor: Any, key: Any) -> None:
        name = descriptor.get_name()
        process.at(key, lambda states, _: states[name].clear())
        assert process.at(key, lambda states, _: [sub for sub in SUBS if sub in states[name]]) == []
        self.rows = {row: value for row, value in self.rows.items() if row[:2] != (name, key)}

    def drop_maps(self, process: Process, descriptor: Any) -> None:
        process.everywhere({descriptor: cleared})
        self.rows = {row: value for row, value in self.rows.items() if row[0] != descriptor.get_name()}

    def set(self, process: Process, time: int, key: Any) -> None:
        process.at(key, timer(time, "processing"))
        self.timers.add((time, key))

    def unset(self, process: Process, time: int, key: Any) -> None:
        process.at(key, timer(time, "processing", is_set=False))
        self.timers.discard((time, key))

    def fire(self, process: Process, limit: int) -> None:
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


class Processes(RuleBasedStateMachine):
    """Epochs of one subtask, in whatever of three processes, some of them void, outdated or killed."""

    @initialize(in_parts=st.booleans(), unloads=st.booleans())
    def start(self, in_parts: bool, unloads: bool) -> None:
        self.patches = ExitStack()
        if unloads:
            self.patches.enter_context(as_if_large())
        if in_parts:
            self.patches.enter_context(written_in_parts())
        self.directory = Path(tempfile.mkdtemp())
        self.branch = 0
        self.committed = Model()
        #: All checkpoints of this branch with what they stand for; the first one is the beginning.
        self.history: list[tuple[list[OperatorSnapshot], Model]] = [([], Model())]
        self.checked: Any = None
        self.reader = Process(STATES, now_ms=BEFORE)
        self.memory = [1, 2_000, 1 << 26]
        #: By slot; made when they are first used.
        self.processes: dict[int, Process] = {}

    def begin(self, slot: int, snapshots: list[OperatorSnapshot]) -> Process:
        """Begin an epoch in a process; before the first checkpoint each epoch has a new one."""
        if slot not in self.processes or not snapshots:
            place = self.directory / str(self.branch)
            self.processes[slot] = Process(STATES, place, self.memory[slot], now_ms=BEFORE)
        self.processes[slot].begin(snapshots)
        return self.processes[slot]

    def run_epoch(self, slot: int, todo: list[Any]) -> Model:
        process, model = self.begin(slot, self.history[-1][0]), self.committed.copy()
        for step in todo:
            model.run(process, step)
        model.check(process)
        return model

    def accept(self, slot: int, model: Model, *, incremental: bool) -> None:
        self.committed = model
        self.history.append(([self.processes[slot].end(incremental=incremental)], model))

    @rule(slot=st.integers(0, 2), todo=steps)
    def accepted_epoch(self, slot: int, todo: list[Any]) -> None:
        self.accept(slot, self.run_epoch(slot, todo), incremental=True)

    @rule(slot=st.integers(0, 2), todo=steps)
    def epoch_that_cuts_the_chain(self, slot: int, todo: list[Any]) -> None:
        self.accept(slot, self.run_epoch(slot, todo), incremental=False)

    @rule(slot=st.integers(0, 2), todo=steps)
    def void_epoch(self, slot: int, todo: list[Any]) -> None:
        self.run_epoch(slot, todo)
        self.processes[slot].end()

    @rule(slot=st.integers(0, 2), todo=steps)
    def savepoint_beside_the_chain(self, slot: int, todo: list[Any]) -> None:
        self.accepted_epoch(slot, todo)
        self.processes[slot].end(incremental=False)

    @rule(slot=st.integers(0, 2), todo=steps)
    def failed_epoch(self, slot: int, todo: list[Any]) -> None:
        self.run_epoch(slot, todo)

    @rule(slot=st.integers(0, 2), todo=steps)
    def process_killed_in_an_epoch(self, slot: int, todo: list[Any]) -> None:
        self.run_epoch(slot, todo)
        del self.processes[slot]

    @rule(slot=st.integers(0, 2), writes=st.integers(0, 4), todo=steps)
    def process_killed_while_it_moves_the_version(self, slot: int, writes: int, todo: list[Any]) -> None:
        self.accepted_epoch(slot, todo)
        with killed_while_it_moves(writes), suppress(KilledError):
            self.begin(slot, self.history[-1][0])
        del self.processes[slot]

    @precondition(lambda self: len(self.history) > 1)
    @rule(slot=st.integers(0, 2), age=st.integers(1, 12), todo=steps)
    def outdated_attempt(self, slot: int, age: int, todo: list[Any]) -> None:
        snapshots, model = self.history[max(0, len(self.history) - 1 - age)]
        model = model.copy()
        try:
            process = self.begin(slot, snapshots)
            for step in todo:
                model.run(process, step)
            model.check(process)
            process.end()
        except StaleAttemptError:
            pass

    @rule(age=st.integers(0, 5))
    def job_goes_back_to_an_older_checkpoint(self, age: int) -> None:
        place = max(0, len(self.history) - 1 - age)
        del self.history[place + 1 :]
        self.committed = self.history[-1][1]
        self.branch += 1
        self.processes.clear()

    @invariant()
    def checkpoint_restores_to_what_was_committed(self) -> None:
        if hasattr(self, "history") and self.checked is not self.history[-1]:
            self.checked = self.history[-1]
            if self.checked[0]:
                self.reader.begin(self.checked[0])  # it has an epoch open, so it reads all of the checkpoint
                self.committed.check(self.reader)
                self.committed.check_timers(self.reader)

    def teardown(self) -> None:
        if hasattr(self, "history"):
            self.patches.close()
            self.processes.clear()
            shutil.rmtree(self.directory)


TestProcesses = Processes.TestCase
TestProcesses.settings = settings(max_examples=settings().max_examples * 4 // 5, stateful_step_count=30)
