"""Keyed state: what an update, a delta, a catch-up and a move of the local version cost per key.

    python benchmarks/micro/state.py [keys]

Int keys in scattered order, counters as values. Times are CPU times; beside each stands its ratio to the plain dict
loop of the same run, which moves less with the machine than the figures do. Memory is private memory (RssAnon).
"""

from __future__ import annotations

import gc
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from penstock._engine.state.key_context import KeyContext
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.kinds.value import StoredValueState
from penstock._engine.state.local.local_backend import LocalBackend
from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.protocol.state_handle import Lineage, StateHandle
    from penstock._engine.state.table import Pane

MEMORY_BYTES = 256 << 20


def private_mib() -> float:
    """Return the private memory of this process: without mapped files, so without pages of the local version."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024


class Bench:
    """Times steps and prints them."""

    def __init__(self, keys: list[int]) -> None:
        self.keys = keys
        self.files: dict[str, bytes] = {}
        self.plain = 0.0

    def timed(self, what: str, action: Callable[[], Any]) -> Any:
        gc.collect()
        start = time.process_time()
        result = action()
        nanoseconds = (time.process_time() - start) / len(self.keys) * 1e9
        self.plain = self.plain or nanoseconds
        print(f"{what:48} {nanoseconds:7.0f} ns a key   x {nanoseconds / self.plain:5.1f}   {private_mib():5.0f} MiB")
        return result

    def read(self, handle: StateHandle) -> bytes:
        return self.files[handle.path or ""]

    def store(self, directory: Path, name: str) -> KeyedState:
        return KeyedState(LocalBackend(directory / name, range(128), 128, MEMORY_BYTES), self.read)

    def save(
        self, store: KeyedState, data: bytes, kind: Literal["delta", "snapshot"], checkpoint_id: int
    ) -> StateHandle:
        path = f"{kind}-{checkpoint_id}-{len(self.files)}"
        self.files[path] = data
        return store.describe(data, kind, checkpoint_id, checkpoint_id, path)


def plain_loop(keys: list[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return counts


def update(pane: Pane, keys: list[int]) -> None:
    hot, mark, load = pane.hot, pane.dirty.add, pane.load
    for key in keys:
        value = hot.get(key, MISSING)
        if value is MISSING:
            value = load(key)
        hot[key] = 1 if value is ABSENT else value + 1
        mark(key)


def update_state(state: StoredValueState, context: KeyContext, keys: list[int]) -> None:
    for key in keys:
        context.normal = context.key = key
        state.update((state.value() or 0) + 1)


def in_memory(bench: Bench, directory: Path) -> tuple[KeyedState, Lineage]:
    """Three epochs, the third in another store, as Spark hands subtasks around."""
    keys = bench.keys
    first, second = bench.store(directory, "0"), bench.store(directory, "0")
    first.catch_up(())
    pane = first.table("count").pane()
    bench.timed("epoch 1: update, all keys new", lambda: update(pane, keys))
    data = bench.timed("delta of all keys", lambda: first.delta(1, 1))
    print(f"{'':48} {len(data) / len(keys):7.1f} bytes a key")
    lineage = (bench.save(first, data, "delta", 1),)
    first.catch_up(lineage)
    bench.timed("epoch 2: update, all keys hot", lambda: update(pane, keys))
    data = bench.timed("delta of all keys", lambda: first.delta(2, 2))
    second.catch_up(lineage)
    second.delta(2, 999)
    lineage += (bench.save(first, data, "delta", 2),)
    bench.timed("catch-up of another store by one delta", lambda: second.catch_up(lineage))
    context = KeyContext()
    state = StoredValueState(second.table("count"), context)
    bench.timed("epoch 3: ValueState, all keys hot", lambda: update_state(state, context, keys))
    data = bench.timed("delta of all keys", lambda: second.delta(3, 3))
    lineage += (bench.save(second, data, "delta", 3),)
    return second, lineage


def on_disk(bench: Bench, store: KeyedState, lineage: Lineage, directory: Path) -> Lineage:
    """The local version, and a snapshot that replaces the chain."""
    keys = bench.keys
    bench.timed("local version moves: all keys new", store._move)
    store.catch_up(lineage)
    update(store.table("count").pane(), keys)
    lineage += (bench.save(store, store.delta(4, 4), "delta", 4),)
    bench.timed("local version moves: all keys again", store._move)
    store.catch_up(lineage)
    snapshot = bench.timed("snapshot of all keys", lambda: b"".join(store.snapshot(5, 5)))
    lineage = (bench.save(store, snapshot, "snapshot", 5),)
    restored = bench.store(directory, "1")
    bench.timed("restore of the snapshot", lambda: restored.catch_up(lineage))
    restored._move()
    return lineage


def two_subtasks(bench: Bench, lineage: Lineage, directory: Path) -> None:
    """Memory of a process that runs two subtasks; the first starts from its local version."""
    keys = bench.keys
    before = private_mib()
    cold, loaded = bench.store(directory, "1"), bench.store(directory, "2")
    bench.timed("another store starts from the local version", lambda: cold.catch_up(lineage))
    bench.timed("epoch: update, all keys from the local version", lambda: update(cold.table("count").pane(), keys))
    loaded.catch_up(lineage)
    update(loaded.table("count").pane(), keys)
    for store in (cold, loaded):
        store.delta(6, 6)
    print(f"\nprivate memory of two stores of {len(keys):,} keys, all changed: {private_mib() - before:.0f} MiB")
    print(f"private memory of the process, the benchmark's own keys and files included: {private_mib():.0f} MiB")
    assert sum(value for _, value in loaded.table("count").pane().items()) == 5 * len(keys)


def main(count: int, directory: Path) -> None:
    bench = Bench(random.Random(1).sample(range(100 * count), count))
    bench.timed("plain dict: read, add, write", lambda: plain_loop(bench.keys))
    store, lineage = in_memory(bench, directory)
    lineage = on_disk(bench, store, lineage, directory)
    del store
    two_subtasks(bench, lineage, directory)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000, Path(os.path.realpath(scratch)))
