"""State with a time to live, of all kinds, against a plain model: clocks that move, restores, sizes, new settings."""

from __future__ import annotations

import os
import random
from contextlib import nullcontext
from copy import copy
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.asking import Subtasks, owner
from tests.unit.state.checkpoints import as_if_large

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
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from penstock.testing import OperatorSnapshot


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


KINDS = ["value", "list", "map", "reducing", "aggregating"]


def descriptors(life: Any) -> list[Any]:
    """Return a state of each kind, named like it, all with one time to live or with none."""
    made = [
        ValueStateDescriptor("value"),
        ListStateDescriptor("list"),
        MapStateDescriptor("map"),
        ReducingStateDescriptor("reducing", joined),
        AggregatingStateDescriptor("aggregating", Collect()),
    ]
    if life is not None:
        duration, renews, returns_expired = life
        builder = StateTtlConfig.new_builder(Time.milliseconds(duration))
        builder = builder.update_ttl_on_read_and_write() if renews else builder
        builder = builder.return_expired_if_not_cleaned_up() if returns_expired else builder
        for descriptor in made:
            descriptor.enable_time_to_live(builder.build())
    return made


KEYS = ["a", "b", 7]


def it(value: Any) -> dict[Any, Any]:
    return {} if value is None else {"it": value}


def items(state: Any) -> dict[Any, Any]:
    found = list(state.get())
    assert found == sorted(set(found))
    return {item: item for item in found}


#: What a state has, by the names that the model gives it.
READS: dict[str, Callable[[Any], dict[Any, Any]]] = {
    "value": lambda state: it(state.value()),
    "list": items,
    "map": lambda state: dict(state.items()),
    "reducing": lambda state: it(state.get()),
    "aggregating": lambda state: it(state.get()),
}
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

    def copied(self) -> Model:
        model = Model()
        model.since = self.since
        model.entries = {
            place: {name: copy(entry) for name, entry in found.items()} for place, found in self.entries.items()
        }
        return model

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

    def start_fresh(self, now: int) -> None:
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
        self.memory, self.now = self.choose.choice([1, 1 << 26]), 1_000
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
            use(choose.choice(KINDS), choose.choice(KEYS), choose.randrange(3))
        elif what < 0.8:
            self.pass_time(choose.choice(MOMENTS))
        elif what < 0.93:
            how = choose.choice(["delta", "delta", "delta", "delta", "snapshot", "void"])
            self.end_epoch(how, then=choose.choice(["", "", "", "", "here", "elsewhere"]))
        elif what < 0.995:
            self.start_otherwise(self.some_life(), choose.randint(1, 3))
        else:
            self.nobody_reads_what_expires()

    def pass_time(self, milliseconds: int) -> None:
        self.now = max(1, self.now + milliseconds)
        self.subtasks.jump_to(self.now)

    def start(self, parallelism: int, snapshots: list[OperatorSnapshot], life: Any) -> None:
        """Start the job somewhere else."""
        self.machines += 1
        place = self.directory / str(self.machines)
        self.subtasks = Subtasks(descriptors(life), parallelism, place, self.memory, self.now)
        self.snapshots = snapshots
        self.life = life
        self.begin_epoch()
        self.model.start_fresh(self.now)

    def begin_epoch(self) -> None:
        self.begun = self.begun if self.life is None else max(self.begun, self.now)
        self.subtasks.begin(self.snapshots)
        self.model = self.committed.copied()
        self.model.settle(self.now, self.life)

    def look(self) -> None:
        for model in (self.model, self.committed):
            model.look(self.now, self.life)

    def at(self, kind: str, key: Any, what: Callable[[Any], Any]) -> Any:
        """Return what something gives that is done to the state of a key."""
        return self.subtasks.at(key, lambda states, _: what(states[kind]))

    # ------------------------------------------------------------------------------------------------------- functions

    def write(self, kind: str, key: Any, sub: int) -> None:
        self.look()
        self.number += 1
        number, entries = self.number, self.model.of(kind, key)
        stamp = None if self.life is None else self.now
        if kind == "value":
            self.at(kind, key, lambda state: state.update(number))
            entries["it"] = Entry(number, stamp, self.begun)
        elif kind == "map":
            self.at(kind, key, lambda state: state.put(sub, number))
            entries[sub] = Entry(number, stamp, self.begun)
        elif kind == "list":
            values = [(number, place) for place in range(60 * sub + 1)]
            self.at(kind, key, lambda state: state.add_all(values))
            entries |= {value: Entry(value, stamp, self.begun) for value in values}
        else:
            self.add(kind, key, entries, stamp)

    def add(self, kind: str, key: Any, entries: dict[Any, Entry], stamp: int | None) -> None:
        value = (self.number,) if kind == "reducing" else self.number

        def add(state: Any) -> Any:
            state.add(value)
            return state.get()

        found, before = self.at(kind, key, add), entries.get("it")
        wanted = {(self.number,)}
        if before is not None and not self.model.is_over(before, self.now, self.life):
            longer = (*before.value, self.number)
            wanted = {longer, *wanted} if before.may_be_gone else {longer}
        assert found in wanted
        entries["it"] = Entry(found, stamp, self.begun)

    def read(self, kind: str, key: Any, sub: int) -> None:
        self.look()
        entries = self.model.of(kind, key)
        if kind == "map" and sub < 2:
            value = self.at(kind, key, lambda state: state.get(sub))
            found = {} if value is None else {sub: value}
            self.compare(found, {name: entry for name, entry in entries.items() if name == sub}, entries)
            return
        self.compare(self.at(kind, key, READS[kind]), dict(entries), entries)

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
        if kind == "map" and sub < 2:
            self.at(kind, key, lambda state: state.remove(sub))
            self.model.of(kind, key).pop(sub, None)
        else:
            self.at(kind, key, lambda state: state.clear())
            self.model.of(kind, key).clear()

    # ----------------------------------------------------------------------------------------------------- the driver's

    def end_epoch(self, how: str, then: str = "") -> None:
        self.look()
        snapshots = self.subtasks.end(incremental=how != "snapshot")
        if how != "void":
            self.committed, self.snapshots = self.model.copied(), snapshots
        if then:
            self.machines -= then == "here"  # another process, over what that machine has on its disk
            self.start(self.subtasks.parallelism, self.snapshots, self.life)
        else:
            self.begin_epoch()

    def start_otherwise(self, life: Any, parallelism: int) -> None:
        """Start from the last checkpoint with other settings, at another parallelism."""
        self.start(parallelism, self.snapshots, life)

    def nobody_reads_what_expires(self) -> None:
        """Expired values leave the state after some epochs without reads: none is there where all that is there lives.

        So they have left the files and the disk, too.
        """
        if self.life is None:
            return
        self.pass_time(100_000)
        for _ in range(12):  # marks leave memory, and rows the local version, when that moves
            self.end_epoch("delta")
        for found in self.committed.entries.values():
            found.clear()
        self.machines -= self.choose.choice([0, 1])
        self.start_otherwise(None, self.subtasks.parallelism)
        for key in KEYS:
            for kind in KINDS:
                assert self.at(kind, key, READS[kind]) == {}


@pytest.mark.behaviour(187)
def test_any_order_of_uses_clocks_and_restores_is_as_in_the_model(tmp_path: Path) -> None:
    for seed in range(FIRST, FIRST + LIVES):
        try:
            with as_if_large() if seed % 2 else nullcontext():
                job = Job(tmp_path / str(seed), seed)
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
    assert [owner(key, 3) for key in ("a", 7)] == [1, 2]
    job.write("value", "a", 0)
    job.write("map", 7, 0)  # the last subtask has a local version, without values
    job.end_epoch("delta")
    job.pass_time(200)
    job.end_epoch("delta", then="here")
    job.end_epoch("delta")
    job.start_otherwise((100, False, False), 2)
    assert owner("a", 2) == owner(7, 2)
    job.read("value", "a", 0)
