from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.state.checkpoints import ABSENT, MAX_PARALLELISM, Checkpoints, as_if_large, contents, write

from penstock._engine.protocol.key_groups import key_group, key_group_range, subtask_of_key_group
from penstock._engine.protocol.state_handle import rescale
from penstock._engine.state.key_rows import clear_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock._engine.protocol.state_handle import Lineage

parallelisms = st.sampled_from([1, 2, 3, 7])
keys = st.one_of(st.integers(-50, 50), st.text("abc", max_size=2))
namespaces = st.sampled_from([(), (0, 10)])
epochs = st.lists(
    st.tuples(
        st.lists(st.tuples(namespaces, keys, st.one_of(st.integers(0, 9), st.just(ABSENT))), max_size=30),
        st.sets(st.sampled_from([(0, 10)])),
        st.sets(st.tuples(st.integers(0, 9), keys)),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(autouse=True, scope="module")
def _unloads() -> Iterator[None]:
    with as_if_large():
        yield


class Subtasks:
    """All subtasks of one operator at one parallelism."""

    def __init__(self, parallelism: int, directory: Path, roots: list[Lineage], memory_bytes: int) -> None:
        self.parallelism = parallelism
        self.parts = [
            Checkpoints(key_group_range(subtask, parallelism, MAX_PARALLELISM)) for subtask in range(parallelism)
        ]
        self.stores = [
            part.keyed_store(directory / f"{parallelism}-{subtask}", memory_bytes)
            for subtask, part in enumerate(self.parts)
        ]
        for part in self.parts:
            part.lineage = rescale(roots, part.key_groups)

    def share_files(self, files: dict[str, bytes], checkpoint_id: int) -> None:
        for part in self.parts:
            part.files, part.checkpoint_id = files, checkpoint_id
            part.tokens = iter(range(1 + checkpoint_id * 1_000_000 + part.key_groups.start, 10**12, 1_000))

    def owner(self, key: Any) -> int:
        return subtask_of_key_group(key_group(key, MAX_PARALLELISM), self.parallelism, MAX_PARALLELISM)

    def catch_up(self) -> None:
        for store, part in zip(self.stores, self.parts, strict=True):
            store.catch_up(part.lineage)

    def drop(self, namespaces: set[Any]) -> None:
        for store in self.stores:
            for namespace in namespaces:
                store.table("count").drop(namespace)

    def write(self, writes: list[Any]) -> None:
        for namespace, key, value in writes:
            write(self.stores[self.owner(key)].table("count").pane(namespace), key, value)
            maps = self.stores[self.owner(key)].table("maps").pane()
            if value is ABSENT:
                clear_key(maps, (key, ()))
            else:
                maps.put((key, (), value % 3), value)
                maps.dirty.add((key, (), value % 3))

    def flip(self, changes: set[Any], timers: set[Any]) -> None:
        for time, key in changes:
            domain = self.stores[self.owner(key)].timers("event")
            (domain.delete if (time, key) in timers else domain.register)(time, key)

    def end_epoch(self, *, cut: bool) -> None:
        for store, part in zip(self.stores, self.parts, strict=True):
            (part.cut if cut else part.end_epoch)(store)

    def make_room(self) -> None:
        for store in self.stores:
            store.make_room()

    def check(self, entries: dict[Any, Any], timers: set[Any], maps: dict[Any, Any]) -> None:
        for subtask, store in enumerate(self.stores):
            assert contents(store) == {
                place: value for place, value in entries.items() if self.owner(place[0]) == subtask
            }
            assert {address: value for (address, _), value in contents(store, "maps").items()} == {
                address: value for address, value in maps.items() if self.owner(address[0]) == subtask
            }
            assert {(time, key) for (key, _, time), _ in store.timers("event").rows()} == {
                (time, key) for time, key in timers if self.owner(key) == subtask
            }


@settings(max_examples=settings().max_examples // 2)
@given(
    jobs=st.lists(st.tuples(parallelisms, epochs, st.sampled_from([1, 3_000, 1 << 26])), min_size=2, max_size=3),
)
def test_rescaled_state_is_the_same_state(tmp_path_factory: pytest.TempPathFactory, jobs: list[Any]) -> None:
    entries: dict[Any, Any] = {}
    timers: set[Any] = set()
    maps: dict[Any, Any] = {}
    files: dict[str, bytes] = {}
    roots: list[Lineage] = []
    checkpoint_id = 0
    for run, (parallelism, todo, memory_bytes) in enumerate(jobs):
        subtasks = Subtasks(parallelism, tmp_path_factory.mktemp(f"run-{run}"), roots, memory_bytes)
        subtasks.share_files(files, checkpoint_id)
        for writes, drops, changes, cut in todo:
            subtasks.catch_up()
            subtasks.check(entries, timers, maps)
            subtasks.drop(drops)
            subtasks.make_room()
            subtasks.write(writes)
            subtasks.make_room()
            subtasks.flip(changes, timers)
            subtasks.make_room()
            subtasks.end_epoch(cut=cut)
            entries = {place: value for place, value in entries.items() if place[1] not in drops}
            entries |= {(key, namespace): value for namespace, key, value in writes}
            entries = {place: value for place, value in entries.items() if value is not ABSENT}
            timers ^= changes
            for _, key, value in writes:
                if value is ABSENT:
                    maps = {address: kept for address, kept in maps.items() if address[0] != key}
                else:
                    maps[key, (), value % 3] = value
            checkpoint_id += 1
        roots = [part.lineage for part in subtasks.parts]
    final = Subtasks(5, tmp_path_factory.mktemp("final"), roots, 1 << 26)
    final.share_files(files, checkpoint_id)
    final.catch_up()
    final.check(entries, timers, maps)
