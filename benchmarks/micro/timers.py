"""Timers of one subtask in one process, without Spark: what one costs, and what they hold in memory.

    python benchmarks/micro/timers.py TIMERS [state memory in MiB] [restore]

Each epoch sets timers for 50,000 keys at scattered times, sets a tenth of them once more, and deletes another tenth. In
the end all fire in order, in one epoch. With *restore*, they fire in two subtasks without anything local, as after a
rescaling from 1 to 2. Each step prints processor time for a timer, and the peak of private memory.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
import time
from pathlib import Path

from state_files import MAX_PARALLELISM, Checkpoints, Memory

from penstock._engine.protocol.key_groups import key_group_range

EPOCH, BATCH = 50_000, 2_048


def main(number: str, memory: str = "64", restore: str = "") -> None:
    count, memory_mib = int(number), int(memory)
    tracer = Memory()

    def tell(what: str, many: int, start: float) -> None:
        tracer.look()
        micros = (time.process_time() - start) / many * 1e6
        print(f"{what:34} {micros:6.1f} us a timer, peak {tracer.peak:4.0f} MiB", flush=True)
        tracer.peak = 0.0

    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        gc.collect()
        start = time.process_time()
        files = Checkpoints(directory, range(MAX_PARALLELISM), memory_mib)
        files.catch_up()
        deleted = set_timers(files, count)
        tell("set, a tenth twice, less a tenth", count, start)
        stores = [files]
        if restore:
            stores, roots = [], [files.lineage]
            del files
            stores = [
                Checkpoints(directory, key_group_range(one, 2, MAX_PARALLELISM), memory_mib, roots) for one in (0, 1)
            ]
        fired = 0
        for one in stores:
            if restore:
                start = time.process_time()
                one.catch_up()
                tell("restored, one of two subtasks", count // 2, start)
            start = time.process_time()
            some = fire(one)
            tell("fired in order", some, start)
            fired += some
    assert fired == count - deleted, (fired, count, deleted)


def set_timers(files: Checkpoints, count: int) -> int:
    """Set timers, and return how many of them were deleted."""
    choose, deleted = random.Random(7), 0
    timers = files.store.timers("event-time")
    for first in range(0, count, EPOCH):
        for number in range(first, min(first + EPOCH, count)):
            if number % BATCH == 0:
                files.store.free_memory()
            timer = choose.randrange(count * 10), f"session-{number}", (number, number + 7)
            assert timers.register(*timer)
            if number % 10 == 0:
                assert not timers.register(*timer)
            elif number % 10 == 1:
                timers.delete(*timer)
                deleted += 1
        files.checkpoint()
    return deleted


def fire(files: Checkpoints) -> int:
    """Fire all timers in order, and return how many there are."""
    fired, last = 0, -1
    for timestamp, *_ in files.store.timers("event-time").pop_due(1 << 60):
        files.store.free_memory_if_full()
        assert timestamp >= last
        last, fired = timestamp, fired + 1
    files.checkpoint()
    return fired


if __name__ == "__main__":
    main(*sys.argv[1:])
