"""State with a time to live, of all kinds, against a plain model: clocks that move, restores, other sizes, new settings."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.property.test_state_rescale import Subtasks

from penstock._engine.state.key_context import KeyContext
from penstock._engine.state.kinds.kind import StateScope
from penstock._engine.state.kinds.registry import kind_of
from penstock._engine.state.time_to_live import TimeToLive
from penstock.common import Time
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


class Collect(AggregateFunction):
    """Its accumulators are tuples of all that was added."""

    def create_accumulator(self) -> Any:
        return ()

    def add(self, value: Any, accumulator: Any) -> Any:
        return (*accumulator, value)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


def joined(before: Any, more: Any) -> Any:
    return before + more


DESCRIPTORS: dict[str, Any] = {
    "value": ValueStateDescriptor("value"),
    "list": ListStateDescriptor("list"),
    "map": MapStateDescriptor("map"),
    "reducing": ReducingStateDescriptor("reducing", joined),
    "aggregating": AggregatingStateDescriptor("aggregating", Collect()),
}
KEYS = ["a", "b", 7]
MOMENTS = [1, 5, 40, 100, 101, 350]
LIVES = st.tuples(st.sampled_from([100, 300]), st.booleans(), st.booleans())


class Entry:
    """What the model knows of one value, one entry of a map, or one item of a list."""

    def __init__(self, value: Any, stamp: int | None) -> None:
        self.value, self.stamp = value, stamp
        #: Its time has been over once, so it may have been removed, unless it was seen since.
        self.may_be_gone = False


class Model:
    """All entries by kind, key, and what they are called there; of a list they are numbered."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, Any], dict[Any, Entry]] = {}
        #: When a time to live was given to what is there, None for none.
        self.since: int | None = None

    def of(self, kind: str, key: Any) -> dict[Any, Entry]:
        return self.entries.setdefault((kind, key), {})

    def is_over(self, entry: Entry, now: int, life: Any) -> bool:
        if life is None or self.since is None:
            return False
        return max(entry.stamp or 0, self.since) + life[0] <= now

    def look(self, now: int, life: Any) -> None:
        """Note whose time is over by now."""
        for found in self.entries.values():
            for entry in found.values():
                entry.may_be_gone = entry.may_be_gone or self.is_over(entry, now, life)


class TimeToLiveMachine(RuleBasedStateMachine):
    """Functions that use states, a driver that accepts epochs or not, machines that come and go, and clocks."""

    @initialize(life=st.one_of(st.none(), LIVES), memory=st.sampled_from([1, 1 << 26]), parallelism=st.integers(1, 3))
    def begin(self, life: Any, memory: int, parallelism: int) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.machines, self.number = 0, 0
        self.memory, self.now, self.counted = memory, 1_000, 0
        self.files: dict[str, bytes] = {}
        self.checkpoint_id = 0
        self.committed, self.model = Model(), Model()
        self.life: Any = None
        self.start(parallelism, [], life)

    def start(self, parallelism: int, roots: list[Any], life: Any) -> None:
        """Start the job somewhere else."""
        self.machines += 1
        self.subtasks = Subtasks(parallelism, Path(self.directory.name) / str(self.machines), roots, self.memory)
        self.subtasks.share_files(self.files, self.checkpoint_id)
        self.life = life
        self.begin_epoch()
        for store in self.subtasks.stores:
            for kind, descriptor in DESCRIPTORS.items():
                store.table(kind, kind=kind_of(descriptor).name).life.declare(self.time_to_live())
        self.settle()

    def time_to_live(self) -> TimeToLive | None:
        if self.life is None:
            return None
        duration, renews, returns_expired = self.life
        builder = StateTtlConfig.new_builder(Time.milliseconds(duration))
        builder = builder.update_ttl_on_read_and_write() if renews else builder
        builder = builder.return_expired_if_not_cleaned_up() if returns_expired else builder
        return TimeToLive(builder.build(), lambda: self.now, self.count)

    def count(self, number: int) -> None:
        self.counted += number

    def begin_epoch(self) -> None:
        self.subtasks.catch_up()
        self.model = deepcopy(self.committed)
        self.settle()

    def settle(self) -> None:
        if (self.life is None) is not (self.model.since is None):
            self.model.since = None if self.life is None else self.now

    def look(self) -> None:
        for model in (self.model, self.committed):
            model.look(self.now, self.life)

    def state(self, kind: str, key: Any) -> Any:
        store = self.subtasks.stores[self.subtasks.owner(key)]
        store.make_room()
        context = KeyContext()
        context.key = context.normal = key
        descriptor = DESCRIPTORS[kind]
        return kind_of(descriptor).state(descriptor, StateScope(store.table(kind), context, "op"))

    # ------------------------------------------------------------------------------------------------------- functions

    @rule(kind=st.sampled_from(list(DESCRIPTORS)), key=st.sampled_from(KEYS), sub=st.integers(0, 2))
    def write(self, kind: str, key: Any, sub: int) -> None:
        self.look()
        self.number += 1
        state, entries = self.state(kind, key), self.model.of(kind, key)
        stamp = None if self.life is None else self.now
        if kind == "value":
            state.update(self.number)
            entries["it"] = Entry(self.number, stamp)
        elif kind == "map":
            state.put(sub, self.number)
            entries[sub] = Entry(self.number, stamp)
        elif kind == "list":
            self.add_to_list(state, entries, 60 * sub + 1, stamp)
        else:
            self.add(kind, state, entries, stamp)

    def add_to_list(self, state: Any, entries: dict[Any, Entry], count: int, stamp: int | None) -> None:
        values = [(self.number, place) for place in range(count)]
        state.add_all(values)
        entries |= {value: Entry(value, stamp) for value in values}

    def add(self, kind: str, state: Any, entries: dict[Any, Entry], stamp: int | None) -> None:
        value = (self.number,) if kind == "reducing" else self.number
        state.add(value)
        found, before = state.get(), entries.get("it")
        wanted = {(self.number,)}
        if before is not None and not self.model.is_over(before, self.now, self.life):
            longer = (*before.value, self.number)
            wanted = {longer, *wanted} if before.may_be_gone else {longer}
        assert found in wanted
        entries["it"] = Entry(found, stamp)

    @rule(kind=st.sampled_from(list(DESCRIPTORS)), key=st.sampled_from(KEYS), sub=st.integers(0, 2))
    def read(self, kind: str, key: Any, sub: int) -> None:
        self.look()
        state, entries = self.state(kind, key), self.model.of(kind, key)
        if kind == "map" and sub < 2:
            found = {sub: state.get(sub)} if state.contains(sub) else {}
            self.compare(found, {name: entry for name, entry in entries.items() if name == sub}, entries)
            return
        found = dict(state.items()) if kind == "map" else None
        if kind == "list":
            items = state.get()
            found = {item: item for item in items}
            assert list(found) == sorted(found)
            if self.life is None:
                assert bool(items) is bool(found)
                assert len(items) == len(found)
        if found is None:
            value = state.value() if kind == "value" else state.get()
            found = {} if value is None else {"it": value}
        self.compare(found, dict(entries), entries)

    def compare(self, found: Mapping[Any, Any], looked_at: dict[Any, Entry], entries: dict[Any, Entry]) -> None:
        """Compare what a function has got with what it may get, and note what that tells."""
        assert found.keys() <= looked_at.keys()
        for name, entry in looked_at.items():
            is_over = self.model.is_over(entry, self.now, self.life)
            if name not in found:
                assert is_over or entry.may_be_gone, (name, entry.stamp, self.now)
                del entries[name]  # what has been seen to be over does not come back
                continue
            assert found[name] == entry.value
            if is_over:
                assert self.life[2]  # expired, and still to be seen, once
                del entries[name]
            else:
                entry.may_be_gone = False
                if self.life is not None and self.life[1]:
                    entry.stamp = self.now

    @rule(kind=st.sampled_from(list(DESCRIPTORS)), key=st.sampled_from(KEYS), sub=st.integers(0, 2))
    def remove(self, kind: str, key: Any, sub: int) -> None:
        self.look()
        state = self.state(kind, key)
        if kind == "map" and sub < 2:
            state.remove(sub)
            self.model.of(kind, key).pop(sub, None)
        else:
            state.clear()
            self.model.of(kind, key).clear()

    # ----------------------------------------------------------------------------------------------------- the driver's

    @rule(by=st.one_of(st.sampled_from(MOMENTS), st.sampled_from([-50, -120, -400])))
    def move_clock(self, by: int) -> None:
        self.now = max(1, self.now + by)

    @rule(how=st.sampled_from(["delta", "delta", "snapshot", "void"]), anew=st.booleans())
    def end_epoch(self, how: str, anew: bool) -> None:
        self.look()
        for store, part in zip(self.subtasks.stores, self.subtasks.parts, strict=True):
            if how == "snapshot":
                part.cut(store)
            else:
                part.end_epoch(store, accepted=how == "delta")
        if how != "void":
            self.committed = deepcopy(self.model)
            self.checkpoint_id += 1
        if anew:
            self.start(self.subtasks.parallelism, [part.lineage for part in self.subtasks.parts], self.life)
        else:
            self.begin_epoch()

    @rule(life=st.one_of(st.none(), LIVES), parallelism=st.integers(1, 3))
    def start_otherwise(self, life: Any, parallelism: int) -> None:
        """Start from the last checkpoint with other settings, at another parallelism."""
        self.start(parallelism, [part.lineage for part in self.subtasks.parts], life)

    @rule()
    def nobody_reads_what_expires(self) -> None:
        """What has expired is gone from memory and disk after some epochs in which nobody asks for it."""
        if self.life is None:
            return
        self.now += 1_000
        for _ in range(12):  # marks leave memory, and rows the local version, when that moves
            self.end_epoch("delta", anew=False)
        for store in self.subtasks.stores:
            for table in store.tables:
                assert [row for pane in table.panes.values() for row in pane.rows()] == []
        for found in self.committed.entries.values():
            found.clear()
        self.model = deepcopy(self.committed)

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.directory.cleanup()


TimeToLiveMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
test_any_order_of_uses_clocks_and_restores_is_as_in_the_model = TimeToLiveMachine.TestCase
