from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.state.checkpoints import ABSENT, Checkpoints, as_if_large, contents, read, write

from penstock._engine.operators.windows.window_strategy import ReducePanes
from penstock._engine.state.key_rows import clear_key, present_keys, rows_of_key
from penstock._engine.state.local import local_version, moves
from penstock._engine.state.local.environment import LmdbEnvironment
from penstock._engine.state.rows import key_at
from penstock.errors import StaleAttemptError

if TYPE_CHECKING:
    from penstock._engine.protocol.state_handle import Lineage
    from penstock._engine.state.memory_store import MemoryStore

KEYS = [0, 1, -1, 2**70, "a", "b" * 600, b"t\x01n"]
NAMESPACES = [(), (0, 10), (10, 20)]
TIMES = [-3, 0, 5, 10]

keys, namespaces, times = st.sampled_from(KEYS), st.sampled_from(NAMESPACES), st.sampled_from(TIMES)
#: Keys and namespaces of rows with sub-keys; some share a beginning, as stored keys of one pane do.
owners = st.tuples(st.sampled_from(["a", "aa", "b" * 600, 1, b"t\x01n"]), st.sampled_from([(), (0, 10), (-5, 1)]))
subs = st.sampled_from([None, 0, -1, 2**70, "", "s", "x" * 300, b"t\x01n"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), namespaces, keys, st.integers(0, 9)),
        st.tuples(st.just("write"), namespaces, keys, st.just(ABSENT)),
        st.tuples(st.just("read"), namespaces, keys),
        st.tuples(st.just("count"), namespaces, st.lists(keys, max_size=8)),
        st.tuples(st.just("list"), namespaces),
        st.tuples(st.just("drop"), namespaces),
        st.tuples(st.just("put"), namespaces, owners, subs, st.one_of(st.integers(0, 9), st.just(ABSENT))),
        st.tuples(st.just("look"), namespaces, owners, subs),
        st.tuples(st.just("go_through"), namespaces, owners),
        st.tuples(st.just("clear"), namespaces, owners),
        st.tuples(st.just("drop_maps"), namespaces),
        st.tuples(st.just("set"), times, keys, namespaces),
        st.tuples(st.just("unset"), times, keys, namespaces),
        st.tuples(st.just("fire"), times),
    ),
    max_size=12,
)


def kept_beside(address: Any) -> list[Any]:
    """Return what may be kept beside a row: its key and sub-key, or nothing where they are short ints or strs."""
    is_narrow = address[0] in {"a", "aa", 1} and not (isinstance(address[2], bytes) or address[2] == "x" * 300)
    return [(None, [address[2]]), None] if is_narrow else [(None, [address[2]])]


class Model:
    """What a store holds, as a dict and a set."""

    def __init__(
        self,
        entries: dict[Any, Any] | None = None,
        timers: set[Any] | None = None,
        rows: dict[Any, Any] | None = None,
    ) -> None:
        self.entries: dict[Any, Any] = dict(entries or {})
        self.timers: set[Any] = set(timers or ())
        #: Of the table whose rows have sub-keys.
        self.rows: dict[Any, Any] = dict(rows or {})

    def copy(self) -> Model:
        return Model(self.entries, self.timers, self.rows)

    def check(self, store: MemoryStore) -> None:
        assert contents(store) == self.entries
        assert contents(store, "maps") == self.rows
        timers = store.timers("event")
        assert {(time, (key, namespace) if namespace else key) for (key, namespace, time), _ in timers.rows()} == (
            self.timers
        )
        assert timers.next() == min((time for time, _ in self.timers), default=None)

    def run(self, store: MemoryStore, step: tuple[Any, ...]) -> None:
        """Do one thing to a store and to the model."""
        what, *arguments = step
        store.make_room()
        getattr(self, what)(store, *arguments)

    def write(self, store: MemoryStore, namespace: Any, key: Any, value: Any) -> None:
        write(store.table("count").pane(namespace), key, value)
        self.entries[key, namespace] = value
        if value is ABSENT:
            del self.entries[key, namespace]

    def read(self, store: MemoryStore, namespace: Any, key: Any) -> None:
        assert read(store.table("count").pane(namespace), key) == self.entries.get((key, namespace), ABSENT)

    def count(self, store: MemoryStore, namespace: Any, batch: list[Any]) -> None:
        """Count the keys of a batch up as operators do it: marked when the loop is through."""
        pane = store.table("count").pane(namespace)
        ReducePanes(lambda before, more: before + more).add_all(pane, batch, iter([1] * len(batch)))
        for key in batch:
            self.entries[key, namespace] = self.entries.get((key, namespace), 0) + 1

    def list(self, store: MemoryStore, namespace: Any) -> None:
        """Go through a pane while entries leave memory."""
        found: dict[Any, Any] = {}
        for normal, _, value in store.table("count").pane(namespace).entries():
            store.make_room()
            assert normal not in found
            found[normal] = value
        assert found == {key: value for (key, place), value in self.entries.items() if place == namespace}

    def drop(self, store: MemoryStore, namespace: Any) -> None:
        store.table("count").drop(namespace)
        self.entries = {place: value for place, value in self.entries.items() if place[1] != namespace}

    def put(self, store: MemoryStore, namespace: Any, owner: Any, sub: Any, value: Any) -> None:
        pane, address = store.table("maps").pane(namespace), (*owner, sub)
        pane.put(address, value, None if value is ABSENT else (None, [sub]), None if value is ABSENT else 7)
        pane.dirty.add(address)
        self.rows[address, namespace] = value
        if value is ABSENT:
            del self.rows[address, namespace]

    def look(self, store: MemoryStore, namespace: Any, owner: Any, sub: Any) -> None:
        address = (*owner, sub)
        found = read(store.table("maps").pane(namespace), address)
        assert found == self.rows.get((address, namespace), ABSENT)

    def go_through(self, store: MemoryStore, namespace: Any, owner: Any) -> None:
        """Go through the rows of a key while entries leave memory and others are written."""
        pane = store.table("maps").pane(namespace)
        found: dict[Any, Any] = {}
        for address, value, original, stamp in rows_of_key(pane, owner):
            store.make_room()
            pane.put(("other", (), len(found)), 1)
            pane.dirty.add(("other", (), len(found)))
            self.rows[("other", (), len(found)), namespace] = 1
            assert address not in found
            assert original in kept_beside(address)
            assert stamp == 7
            found[address] = value
        assert found == {
            address: value
            for (address, place), value in self.rows.items()
            if place == namespace and address[:2] == owner
        }
        assert sorted(map(repr, {key for key, _ in present_keys(pane)})) == sorted(
            map(repr, {key_at(address) for address, place in self.rows if place == namespace})
        )

    def clear(self, store: MemoryStore, namespace: Any, owner: Any) -> None:
        clear_key(store.table("maps").pane(namespace), owner)
        self.rows = {row: value for row, value in self.rows.items() if row[1] != namespace or row[0][:2] != owner}

    def drop_maps(self, store: MemoryStore, namespace: Any) -> None:
        store.table("maps").drop(namespace)
        self.rows = {place: value for place, value in self.rows.items() if place[1] != namespace}

    def set(self, store: MemoryStore, time: int, key: Any, namespace: Any) -> None:
        store.timers("event").register(time, key, namespace)
        self.timers.add((time, (key, namespace) if namespace else key))

    def unset(self, store: MemoryStore, time: int, key: Any, namespace: Any) -> None:
        store.timers("event").delete(time, key, namespace)
        self.timers.discard((time, (key, namespace) if namespace else key))

    def fire(self, store: MemoryStore, limit: int) -> None:
        fired = [
            (time, (key, namespace) if namespace else key)
            for time, key, namespace, _ in store.timers("event").pop_due(limit)
        ]
        due = {timer for timer in self.timers if timer[0] <= limit}
        assert [time for time, _ in fired] == sorted(time for time, _ in due)
        assert (set(fired), len(fired)) == (due, len(due))
        self.timers -= due


class KilledError(Exception):
    """The process ends here."""


class Processes(RuleBasedStateMachine):
    """Epochs of one subtask, in whatever of three processes, some of them void, outdated or killed."""

    @initialize(in_parts=st.booleans(), unloads=st.booleans())
    def start(self, in_parts: bool, unloads: bool) -> None:
        self.patches = ExitStack()
        if unloads:
            self.patches.enter_context(as_if_large())
        self.patch = self.patches.enter_context(pytest.MonkeyPatch.context())
        if in_parts:  # as large versions are written
            self.patch.setattr(local_version, "_MANY_PAGES", 0)
            self.patch.setattr(local_version, "_MOST_CHANGES", 2)
            self.patch.setattr(moves, "_BATCH", 2)
        self.directory = Path(tempfile.mkdtemp())
        self.branch = 0
        self.checkpoints = Checkpoints()
        self.committed = Model()
        #: All lineages of this branch with what they stand for.
        self.history: list[tuple[Lineage, int, Model]] = [((), 0, Model())]
        self.memory = [1, 2_000, 1 << 26]
        self.stores = [self.new_store(slot) for slot in range(3)]

    def new_store(self, slot: int) -> MemoryStore:
        return self.checkpoints.keyed_store(self.directory / str(self.branch), self.memory[slot])

    def run_epoch(self, slot: int, todo: list[Any]) -> Model:
        store, model = self.stores[slot], self.committed.copy()
        store.catch_up(self.checkpoints.lineage)
        for step in todo:
            model.run(store, step)
        model.check(store)
        return model

    def accept(self, model: Model) -> None:
        self.committed = model
        self.history.append((self.checkpoints.lineage, self.checkpoints.checkpoint_id, model))

    @rule(slot=st.integers(0, 2), todo=steps)
    def accepted_epoch(self, slot: int, todo: list[Any]) -> None:
        model = self.run_epoch(slot, todo)
        self.checkpoints.end_epoch(self.stores[slot])
        self.accept(model)

    @rule(slot=st.integers(0, 2), todo=steps)
    def epoch_that_cuts_the_chain(self, slot: int, todo: list[Any]) -> None:
        model = self.run_epoch(slot, todo)
        self.checkpoints.cut(self.stores[slot])
        self.accept(model)

    @rule(slot=st.integers(0, 2), todo=steps)
    def void_epoch(self, slot: int, todo: list[Any]) -> None:
        self.run_epoch(slot, todo)
        self.checkpoints.end_epoch(self.stores[slot], accepted=False)

    @rule(slot=st.integers(0, 2), todo=steps)
    def savepoint_beside_the_chain(self, slot: int, todo: list[Any]) -> None:
        model = self.run_epoch(slot, todo)
        store = self.stores[slot]
        self.checkpoints.end_epoch(store)
        b"".join(store.snapshot(self.checkpoints.checkpoint_id, next(self.checkpoints.tokens)))
        self.accept(model)

    @rule(slot=st.integers(0, 2), todo=steps)
    def failed_epoch(self, slot: int, todo: list[Any]) -> None:
        self.run_epoch(slot, todo)

    @rule(slot=st.integers(0, 2), todo=steps)
    def process_killed_in_an_epoch(self, slot: int, todo: list[Any]) -> None:
        self.run_epoch(slot, todo)
        self.stores[slot] = self.new_store(slot)

    @rule(slot=st.integers(0, 2), writes=st.integers(0, 4), todo=steps)
    def process_killed_while_it_moves_the_version(self, slot: int, writes: int, todo: list[Any]) -> None:
        self.accepted_epoch(slot, todo)
        write, left = LmdbEnvironment.write, iter(range(writes))

        def killed(environment: LmdbEnvironment, action: Any) -> Any:
            if next(left, None) is None:
                raise KilledError
            return write(environment, action)

        with pytest.MonkeyPatch.context() as patch, suppress(KilledError):
            patch.setattr(LmdbEnvironment, "write", killed)
            self.stores[slot].catch_up(self.checkpoints.lineage)
        self.stores[slot] = self.new_store(slot)

    @precondition(lambda self: len(self.history) > 1)
    @rule(slot=st.integers(0, 2), age=st.integers(1, 12), todo=steps)
    def outdated_attempt(self, slot: int, age: int, todo: list[Any]) -> None:
        lineage, _, model = self.history[max(0, len(self.history) - 1 - age)]
        store, model = self.stores[slot], model.copy()
        try:
            store.catch_up(lineage)
            for step in todo:
                model.run(store, step)
            model.check(store)
            store.delta(999, next(self.checkpoints.tokens))
        except StaleAttemptError:
            pass

    @rule(age=st.integers(0, 5))
    def job_goes_back_to_an_older_checkpoint(self, age: int) -> None:
        place = max(0, len(self.history) - 1 - age)
        del self.history[place + 1 :]
        self.checkpoints.lineage, self.checkpoints.checkpoint_id, self.committed = self.history[-1]
        self.branch += 1
        self.stores = [self.new_store(slot) for slot in range(3)]

    @invariant()
    def checkpoint_restores_to_what_was_committed(self) -> None:
        if hasattr(self, "checkpoints"):
            store = self.checkpoints.memory_store()
            store.catch_up(self.checkpoints.lineage)
            self.committed.check(store)

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            self.patches.close()
            self.stores.clear()
            shutil.rmtree(self.directory)


TestProcesses = Processes.TestCase
TestProcesses.settings = settings(max_examples=settings().max_examples * 4 // 5, stateful_step_count=30)
