"""Keyed state: updates a second, restore, and what a checkpoint writes.

    python benchmarks/state.py                                   everything, about half an hour on two cores
    python benchmarks/state.py --only updates --keys 1000000     one part

- *updates*: the job of workload (c), map → key_by → a process function that reads and writes a ValueState, with all
  keys coming round in scattered order. Whole processes at two sizes; the rate is that of the difference, so without
  start-up; with the processor time, which other work on the machine changes less. Beside it RocksDB through
  `rocksdict`, run right after: the same reads and writes on the same keys in two processes, without an engine: nothing
  is routed, pickled or checkpointed.
- *restore*: a job fills its state and is cancelled; a new process goes on from the checkpoint. Restore takes what its
  first epoch takes more than the later ones. Page cache is warm.
- *maps*: a map of 10 million entries under one key, and one entry under each of 1 million keys, each in a process of
  its own: put, get, iterate, remove, checkpoint, restore, clear, and the private memory of the process.
- *checkpoints*: bytes that one subtask writes in an epoch in which few of its keys change, over 64 epochs, deltas and
  the snapshots that cut their chain together.

How the keyed store alone does, step by step: micro/state.py.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from checkpoints import end_epoch
from environments import HERE, prepare
from figures import Figures
from measure import Run, RunError, run
from workloads import keyed_state, tally

from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.local.local_backend import LocalBackend

if TYPE_CHECKING:
    from penstock._engine.protocol.state_handle import Lineage, StateHandle

PARTS = ("updates", "restore", "checkpoints", "maps")
TIMEOUT_S = 900.0
STATE_MEMORY = 256 << 20

#: By keys: the bar in updates a second, and the rounds over all keys of the small and of the large run.
UPDATES = {1_000_000: (400_000, 4, 24), 10_000_000: (150_000, 1, 2)}
RESTORE_MB, RESTORE_BAR = 1_000, 100
EPOCHS = 64
#: What is called what, its entries, and the bars: private MiB of the process, bytes of a delta of 1,000 entries.
MAPS = {"one": ("under one key", 10_000_000), "many": ("one under each key", 1_000_000)}
MAP_MEMORY_BAR, MAP_DELTA_BAR = 400, 100_000


def measure_updates(figures: Figures, keys: int, rounds: int) -> None:
    """Add the rates at so many keys, and the memory of the workers."""
    bar, small, large = UPDATES[keys]
    systems = {system: prepare(system) for system in ("penstock", "rocksdict")}

    def once(system: str, times: int, *, sample_memory: bool = False) -> Run:
        records = times * keys
        result = run(
            system, systems[system], "keyed_state", records, (str(keys),),
            timeout_s=TIMEOUT_S, sample_memory=sample_memory,
        )  # fmt: skip
        if result.result != tally(keyed_state(records, keys)):
            reason = f"{system} gave a wrong result: {result.result}"
            raise RunError(reason)
        print(
            f"  {system}: {records:,} records in {result.seconds:.1f} s, {result.processor_seconds:.1f} s of processor "
            f"time, load {result.load:.1f}",
            flush=True,
        )
        return result

    rates: dict[str, list[float]] = {system: [] for system in systems}
    costs: dict[str, list[float]] = {system: [] for system in systems}
    for _ in range(rounds):
        for system in systems:
            less, more = once(system, small), once(system, large)
            records = more.records - less.records
            rates[system].append(records / (more.seconds - less.seconds))
            costs[system].append((more.processor_seconds - less.processor_seconds) / records * 1e6)
    ours = median(rates["penstock"])
    for system, name in (("penstock", "ValueState"), ("rocksdict", "RocksDB alone")):
        value = f"{median(rates[system]):,.0f} updates/s, {median(costs[system]):.1f} µs of processor time each"
        if system == "penstock":
            figures.add(f"{name}, {keys:,} keys", value, f"≥ {bar:,}/s", met=ours >= bar)
        else:
            figures.add(f"{name}, {keys:,} keys", value)
    peak = once("penstock", small, sample_memory=True).memory
    figures.add(
        f"Memory of a Python worker, {keys:,} keys",
        f"peak {peak['private'] >> 20} MiB private, {peak['anonymous'] >> 20} MiB of it anonymous",
    )


def measure_restore(figures: Figures) -> None:
    """Add how fast a job gets its state back."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        _restore_program("fill", directory)
        size = sum(path.stat().st_size for path in Path(directory).glob("*/shared/**/*") if path.is_file())
        first, usual = _restore_program("resume", directory)
    rate = size / 1e6 / ((first - usual) / 1000)
    figures.add(
        f"Restore of {size / 1e9:.2f} GB in {RESTORE_MB:,},000 values of 1,000 bytes, two subtasks",
        f"{rate:.0f} MB/s ({(first - usual) / 1000:.1f} s)",
        f"≥ {RESTORE_BAR} MB/s",
        met=rate >= RESTORE_BAR,
    )


def _restore_program(mode: str, directory: str) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, HERE / "restore.py", mode, directory, str(RESTORE_MB)],
        check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    words = done.stdout.split()
    return int(words[words.index("FIRST") + 1]), int(words[words.index("USUAL") + 1])


class Subtask:
    """The store of one subtask, with the driver's rule for its chain of files."""

    def __init__(self, directory: Path) -> None:
        self._files: dict[str, bytes] = {}
        self._lineage: Lineage = ()
        self._checkpoint_id = 0
        self.store = KeyedState(LocalBackend(directory / "store", range(128), 128, STATE_MEMORY), self._read)

    def _read(self, handle: StateHandle) -> bytes:
        return self._files[handle.path or ""]

    def epoch(self, keys: list[int]) -> int:
        """Count the keys up, and return the bytes of the checkpoint."""
        store, self._checkpoint_id = self.store, self._checkpoint_id + 1
        store.catch_up(self._lineage)
        pane = store.table("count").pane()
        for key in keys:
            pane.hot[key] = self._checkpoint_id
            pane.dirty.add(key)
        self._lineage = end_epoch(store, self._checkpoint_id, self._lineage, self._files.__setitem__)
        kept = {each.path for each in self._lineage}
        self._files = {name: content for name, content in self._files.items() if name in kept}
        return sum(each.size for each in self._lineage if each.checkpoint_id == self._checkpoint_id)


def measure_checkpoints(figures: Figures, keys: int = 500_000) -> None:
    """Add the bytes that epochs write which change few keys."""
    rng = random.Random(1)
    for changed in (0, 100, 1_000, 10_000, 100_000):
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
            subtask = Subtask(Path(directory))
            full = subtask.epoch(list(range(keys)))
            sizes = [subtask.epoch(rng.sample(range(keys), changed)) for _ in range(EPOCHS)]
        figures.add(
            f"Checkpoint, {changed:,} of {keys:,} keys changed",
            f"{_kb(median(sizes))} kB median, {_kb(sum(sizes) / EPOCHS)} mean, {_kb(max(sizes))} most "
            f"(all keys: {_kb(full)})",
        )


def measure_maps(figures: Figures) -> None:
    """Add what is done to maps, and in how much memory."""
    for shape, (title, entries) in MAPS.items():
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
            done = subprocess.run(
                [sys.executable, HERE / "maps.py", shape, str(entries), directory],
                check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S,
            )  # fmt: skip
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for line in lines:
            what = f"Map of {entries:,} entries {title}: {line['what']}"
            if "bytes" not in line:
                figures.add(what, f"{line['ns']:,} ns each, peak {line['peak']} MiB private")
            elif line["what"].startswith("delta of 1,000"):
                value, met = f"{line['bytes']:,} bytes", line["bytes"] <= MAP_DELTA_BAR
                figures.add(what, value, f"≤ {MAP_DELTA_BAR:,}", met=met)
            else:
                figures.add(what, f"{line['bytes']:,} bytes")
        peak = max(line.get("peak", 0) for line in lines)
        name, bar = f"Map of {entries:,} entries {title}: memory", f"≤ {MAP_MEMORY_BAR} MiB"
        figures.add(name, f"peak {peak} MiB private", bar, met=peak <= MAP_MEMORY_BAR)


def _kb(size: float) -> str:
    return f"{size / 1000:,.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--keys", type=int, choices=list(UPDATES), help="updates: one number of keys")
    parser.add_argument("--rounds", type=int, default=1, help="updates: pairs of runs for each figure (1)")
    arguments = parser.parse_args()
    figures = Figures("State")
    if arguments.only in (None, "checkpoints"):
        measure_checkpoints(figures)
    if arguments.only in (None, "maps"):
        measure_maps(figures)
    if arguments.only in (None, "restore"):
        measure_restore(figures)
    if arguments.only in (None, "updates"):
        for keys in UPDATES:
            if arguments.keys in (None, keys):
                measure_updates(figures, keys, arguments.rounds)
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())
