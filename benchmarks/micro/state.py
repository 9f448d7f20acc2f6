"""Keyed state: what an update, a delta, a catch-up and a move of the local version cost per key.

    python benchmarks/micro/state.py [keys]

Int keys in scattered order, counters as values. Times are CPU times; beside each stands its ratio to the plain dict
loop of the same run, which moves less with the machine than the figures do. Memory is private memory (RSS without
shared and mapped pages).
"""

from __future__ import annotations

import gc
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.state.keyed_store import KeyedStore
from penstock._engine.state.table import ABSENT, MISSING
from penstock._engine.state.value_state import KeyContext, StoredValueState

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.protocol.state_handle import StateHandle
    from penstock._engine.state.table import Pane

MEMORY_BYTES = 256 << 20


def private_mib() -> float:
    """Return the private memory of this process; mapped pages of the database are shared."""
    fields = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in fields if line.startswith("Private_")) / 1024


class Bench:
    """Times steps and prints them."""

    def __init__(self, keys: list[int]) -> None:
        self.keys = keys
        self.files: dict[str, bytes] = {}
        self.plain = 0.0
        self.start = private_mib()

    def timed(self, what: str, action: Callable[[], object]) -> object:
        gc.collect()
        start = time.process_time()
        result = action()
        nanoseconds = (time.process_time() - start) / len(self.keys) * 1e9
        self.plain = self.plain or nanoseconds
        print(f"{what:48} {nanoseconds:7.0f} ns a key   x {nanoseconds / self.plain:5.1f}   {private_mib():5.0f} MiB")
        return result

    def read(self, handle: StateHandle) -> bytes:
        return self.files[handle.path or ""]

    def store(self, directory: Path, name: str) -> KeyedStore:
        return KeyedStore(directory / name, range(128), 128, self.read, MEMORY_BYTES)

    def save(self, store: KeyedStore, data: bytes, kind: str, checkpoint_id: int) -> StateHandle:
        path = f"{kind}-{checkpoint_id}-{len(self.files)}"
        self.files[path] = data
        return store.describe(data, kind, checkpoint_id, checkpoint_id, path)  # type: ignore[arg-type]


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
        context.normal = key
        state.update((state.value() or 0) + 1)


def main(count: int, directory: Path) -> None:
    keys = random.Random(1).sample(range(100 * count), count)
    bench = Bench(keys)
    print(f"{count:,} int keys; private memory at the start {private_mib():.0f} MiB\n")
    bench.timed("plain dict: read, add, write", lambda: plain_loop(keys))

    first, second = bench.store(directory, "0"), bench.store(directory, "0")
    first.catch_up(())
    pane = first.table("count").pane()
    bench.timed("epoch 1: update, all keys new", lambda: update(pane, keys))
    data = bench.timed("delta of all keys", lambda: first.delta(1, 1))
    lineage = (bench.save(first, data, "delta", 1),)
    print(f"{'':48} {len(data) / count:7.1f} bytes a key")

    first.catch_up(lineage)
    bench.timed("epoch 2: update, all keys hot", lambda: update(pane, keys))
    data = bench.timed("delta of all keys", lambda: first.delta(2, 2))
    lineage += (bench.save(first, data, "delta", 2),)

    second.catch_up(lineage[:1])
    second.delta(2, 999)
    bench.timed("catch-up of another store by one delta", lambda: second.catch_up(lineage))
    context = KeyContext()
    state = StoredValueState(second.table("count"), context)
    bench.timed("epoch 3: ValueState, all keys hot", lambda: update_state(state, context, keys))
    data = bench.timed("delta of all keys", lambda: second.delta(3, 3))
    lineage += (bench.save(second, data, "delta", 3),)

    del first, pane
    bench.timed("local version moves: all keys", second._move_local)
    bench.timed("local version moves: all keys overwritten", lambda: move_again(second, keys))
    second.catch_up(lineage)
    snapshot = bench.timed("snapshot of all keys", lambda: b"".join(second.snapshot(4, 4)))
    lineage = (bench.save(second, snapshot, "snapshot", 4),)

    del second, state
    third = bench.store(directory, "1")
    bench.timed("restore of the snapshot", lambda: third.catch_up(lineage))
    bench.timed("local version moves: all keys", third._move_local)
    del third
    fourth = bench.store(directory, "1")
    bench.timed("another store starts from the local version", lambda: fourth.catch_up(lineage))
    bench.timed("epoch: update, all keys from the local version", lambda: update(fourth.table("count").pane(), keys))
    fifth = bench.store(directory, "2")
    fifth.catch_up(lineage)
    bench.timed(
        "memory with a second store: epoch and delta",
        lambda: (update(fifth.table("count").pane(), keys), fourth.delta(5, 5), fifth.delta(5, 5)),
    )
    print(f"\nprivate memory at the end, two stores of {count:,} keys: {private_mib():.0f} MiB")
    assert sum(value for _, value in fifth.table("count").pane().items()) == 4 * count


def move_again(store: KeyedStore, keys: list[int]) -> None:
    store.table("count").pane().pending.update(keys)
    store._passed.append((3, 4))
    store._move_local()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000, Path(os.path.realpath(scratch)))
