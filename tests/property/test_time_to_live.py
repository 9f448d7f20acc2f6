"""State with a time to live, of all kinds, against a plain model: clocks that move, restores, sizes, new settings."""

from __future__ import annotations

import os
import random
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
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

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


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
#: What the clock is moved by; times to live are 100 and 300 ms.
MOMENTS = [1, 5, 40, 40, 100, 101, 350, -50, -120, -400]
STEPS = 150
#: The campaign asks for more.
LIVES = int(os.environ.get("PENSTOCK_TTL_LIVES", "16"))
FIRST = int(os.environ.get("PENSTOCK_TEST_SEED", "0"))


class Entry:
    """What the model knows of one value, one entry of a map, or one item of a list."""

    def __init__(self, value: Any, stamp: int | None, begun: int) -> None:
        self.value, self.stamp = value, stamp
        #: The latest time at which an epoch before it has begun. A state without entries may have been given its time
        #: to live anew then, and the clock has gone back since.
        self.begun = begun
        #: The earliest time from which it counts. A stamp may be forgotten while there is no time to live: then it is
        #: the time at which one was given to all that was there.
        self.counts_from = stamp or 0
        #: Its time has been over once, so it may have been removed, unless it was seen since.
        self.may_be_gone = False

    def is_over_alone(self, now: int, life: Any) -> bool:
        """Tell whether its time is over where it is forgotten when all was given a time to live."""
        return life is not None and self.counts_from + life[0] <= now


class Model:
    """All entries by kind, key, and what they are called there; of a list they are numbered."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, Any], dict[Any, Entry]] = {}
        #: When a time to live was given to what is there, None for none.
        self.since: int | None = None

    def of(self, kind: str, key: Any) -> dict[Any, Entry]:
        return self.entries.setdefault((kind, key), {})

    def is_over(self, entry: Entry, now: int, life: Any) -> bool:
        """Tell whether the time of an entry is over in any case."""
        return life is not None and max(entry.stamp or 0, entry.begun, self.since or 0) + life[0] <= now

    def look(self, now: int, life: Any) -> None:
        """Note whose time may be over by now.

        Where the clock has gone back behind the time at which all was given a time to live, that may be forgotten of a
        state without entries, and what is written then is only as old as its stamp says.
        """
        for found in self.entries.values():
            for entry in found.values():
                if entry.is_over_alone(now, life):
                    entry.may_be_gone = True

    def settle(self, now: int, life: Any) -> None:
        """Begin or end a time to live."""
        if (life is None) is not (self.since is None):
            self.since = None if life is None else now
            for found in self.entries.values():
                for entry in found.values():
                    entry.counts_from = now

    def begin_anew(self, now: int) -> None:
        """Begin at a time at which the time to live of a subtask without entries begins, which may get others later.

        Entries without a stamp count from the earliest of these times, which matters where the clock was set back.
        """
        for found in self.entries.values():
            for entry in found.values():
                if entry.counts_from != entry.stamp:
                    entry.counts_from = min(entry.counts_from, now)


class Job:
    """Functions that use states, a driver that accepts epochs or not, machines that come and go, and clocks."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory, self.choose = directory, random.Random(seed)
        self.machines, self.number = 0, 0
        self.memory, self.now, self.counted = self.choose.choice([1, 1 << 26]), 1_000, 0
        self.files: dict[str, bytes] = {}
        self.checkpoint_id = 0
        self.committed, self.model = Model(), Model()
        self.life: Any = None
        self.begun = 0
        self.start(self.choose.randint(1, 3), [], self.some_life())

    def some_life(self) -> Any:
        """Return how long rows live, whether reads renew them, and whether what is over may be seen; or None."""
        choose = self.choose
        life = choose.choice([100, 300]), choose.random() < 0.5, choose.random() < 0.5
        return None if choose.random() < 0.2 else life

    def step(self) -> None:
        """Do one thing."""
        choose = self.choose
        use = choose.choice([self.write, self.write, self.write, self.read, self.read, self.read, self.remove])
        what = choose.random()
        if what < 0.65:
            use(choose.choice(list(DESCRIPTORS)), choose.choice(KEYS), choose.randrange(3))
        elif what < 0.8:
            self.now = max(1, self.now + choose.choice(MOMENTS))
        elif what < 0.93:
            how = choose.choice(["delta", "delta", "delta", "delta", "snapshot", "void"])
            self.end_epoch(how, then=choose.choice(["", "", "", "", "here", "elsewhere"]))
        elif what < 0.995:
            self.start_otherwise(self.some_life(), choose.randint(1, 3))
        else:
            self.nobody_reads_what_expires()

    def start(self, parallelism: int, roots: list[Any], life: Any) -> None:
        """Start the job somewhere else."""
        self.machines += 1
        self.subtasks = Subtasks(parallelism, self.directory / str(self.machines), roots, self.memory)
        self.subtasks.share_files(self.files, self.checkpoint_id)
        self.life = life
        self.begin_epoch()
        for store in self.subtasks.stores:
            for kind, descriptor in DESCRIPTORS.items():
                store.table(kind, kind=kind_of(descriptor).name).life.declare(self.time_to_live())
        self.model.settle(self.now, self.life)
        self.model.begin_anew(self.now)

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
        self.begun = self.begun if self.life is None else max(self.begun, self.now)
        self.subtasks.catch_up()
        self.model = deepcopy(self.committed)
        self.model.settle(self.now, self.life)

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

    def write(self, kind: str, key: Any, sub: int) -> None:
        self.look()
        self.number += 1
        state, entries = self.state(kind, key), self.model.of(kind, key)
        stamp = None if self.life is None else self.now
        if kind == "value":
            state.update(self.number)
            entries["it"] = Entry(self.number, stamp, self.begun)
        elif kind == "map":
            state.put(sub, self.number)
            entries[sub] = Entry(self.number, stamp, self.begun)
        elif kind == "list":
            self.add_to_list(state, entries, 60 * sub + 1, stamp)
        else:
            self.add(kind, state, entries, stamp)

    def add_to_list(self, state: Any, entries: dict[Any, Entry], count: int, stamp: int | None) -> None:
        values = [(self.number, place) for place in range(count)]
        state.add_all(values)
        entries |= {value: Entry(value, stamp, self.begun) for value in values}

    def add(self, kind: str, state: Any, entries: dict[Any, Entry], stamp: int | None) -> None:
        value = (self.number,) if kind == "reducing" else self.number
        state.add(value)
        found, before = state.get(), entries.get("it")
        wanted = {(self.number,)}
        if before is not None and not self.model.is_over(before, self.now, self.life):
            longer = (*before.value, self.number)
            wanted = {longer, *wanted} if before.may_be_gone else {longer}
        assert found in wanted
        entries["it"] = Entry(found, stamp, self.begun)

    def read(self, kind: str, key: Any, sub: int) -> None:
        self.look()
        state, entries = self.state(kind, key), self.model.of(kind, key)
        if kind == "map" and sub < 2:
            value = state.get(sub)
            found = {} if value is None else {sub: value}
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
                # It may have been seen for the last time.
                entry.may_be_gone &= entry.is_over_alone(self.now, self.life) and self.life[2]
                if self.life is not None and self.life[1]:
                    entry.stamp = entry.counts_from = self.now

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

    def end_epoch(self, how: str, then: str = "") -> None:
        self.look()
        for store, part in zip(self.subtasks.stores, self.subtasks.parts, strict=True):
            if how == "snapshot":
                part.cut(store)
            else:
                part.end_epoch(store, accepted=how == "delta")
        if how != "void":
            self.committed = deepcopy(self.model)
            self.checkpoint_id += 1
        if then:
            self.machines -= then == "here"  # another process, over what that machine has on its disk
            self.start(self.subtasks.parallelism, [part.lineage for part in self.subtasks.parts], self.life)
        else:
            self.begin_epoch()

    def start_otherwise(self, life: Any, parallelism: int) -> None:
        """Start from the last checkpoint with other settings, at another parallelism."""
        self.start(parallelism, [part.lineage for part in self.subtasks.parts], life)

    def nobody_reads_what_expires(self) -> None:
        """Expired values are gone from memory and disk after some epochs without reads."""
        if self.life is None:
            return
        self.now += 100_000
        for _ in range(12):  # marks leave memory, and rows the local version, when that moves
            self.end_epoch("delta")
        for store in self.subtasks.stores:
            for table in store.tables:
                assert [row for pane in table.panes.values() for row in pane.rows()] == []
        for found in self.committed.entries.values():
            found.clear()
        self.model = deepcopy(self.committed)


@pytest.mark.behaviour(187)
def test_any_order_of_uses_clocks_and_restores_is_as_in_the_model(tmp_path: Path) -> None:
    for seed in range(FIRST, FIRST + LIVES):
        job = Job(tmp_path / str(seed), seed)
        try:
            for _ in range(STEPS):
                job.step()
        except BaseException as error:
            error.add_note(f"in life {seed}")
            raise


@pytest.mark.behaviour(187)
def test_subtasks_without_rows_do_not_prolong_the_life_of_others(tmp_path: Path) -> None:
    job = Job(tmp_path, 0)
    job.memory = 1
    job.start(3, [], (300, False, False))
    assert [job.subtasks.owner(key) for key in ("a", 7)] == [1, 2]
    job.write("value", "a", 0)
    job.write("map", 7, 0)  # the last subtask has a local version, without values
    job.end_epoch("delta")
    job.now += 200
    job.end_epoch("delta", then="here")
    job.end_epoch("delta")
    job.start_otherwise((100, False, False), 2)
    assert job.subtasks.owner("a") == job.subtasks.owner(7)
    job.read("value", "a", 0)
