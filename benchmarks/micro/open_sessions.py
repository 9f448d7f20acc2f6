"""Open sessions of one subtask in one process without Spark: processor time of a record, and private memory.

    python benchmarks/micro/open_sessions.py RECORDS OPEN [state memory in MiB] [restore]

Each record begins a session of its own, and so many are open at a time; the rest fires at the end. The window operator
gets batches of 2,048 records, and an epoch has 50,000 of them, with a checkpoint. With *restore*, the second half runs
from the files of the first one in two subtasks without anything local, as after a rescaling from 1 to 2.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from state_files import MAX_PARALLELISM, Checkpoints, Memory

from penstock._engine.operators.batch import RowBatch
from penstock._engine.protocol.key_groups import key_group, key_group_range
from penstock.common import Time
from penstock.datastream.window import EventTimeSessionWindows
from penstock.testing import OperatorHarness

if TYPE_CHECKING:
    from penstock._engine.protocol.state_handle import Lineage

EPOCH, BATCH = 50_000, 2_048
#: Records of one millisecond.
DENSITY = 100


class Subtask:
    """A window operator over a store of its own."""

    def __init__(self, directory: Path, place: tuple[int, int], opened: int, memory_mib: int, roots: Any) -> None:
        self.groups = key_group_range(*place, MAX_PARALLELISM)
        files = self.files = Checkpoints(directory, self.groups, memory_mib, roots)

        class Harness(OperatorHarness):
            def _keyed_state(self) -> Any:
                return files.store

        windows = EventTimeSessionWindows.with_gap(Time.milliseconds(opened // DENSITY))
        harness = Harness.for_window(str, windows, reduce=lambda one, other: one + other)
        harness.open()
        self.operator = harness._operator
        files.catch_up()
        self.fired = 0

    def run(self, first: int, last: int) -> None:
        for start in range(first, last, EPOCH):
            numbers = range(start, min(start + EPOCH, last))
            if len(self.groups) < MAX_PARALLELISM:
                numbers = [one for one in numbers if key_group(str(one), MAX_PARALLELISM) in self.groups]
            for at in range(0, len(numbers), BATCH):
                some = list(numbers[at : at + BATCH])
                self.process(RowBatch(some, [one // DENSITY for one in some], [(len(some), some[-1] // DENSITY)]))
            self.files.checkpoint()

    def process(self, batch: RowBatch) -> None:
        self.operator.free_memory()
        for _, out in self.operator.process(batch, 0):
            self.fired += len(out)

    def end(self) -> None:
        self.process(RowBatch([], None, [(0, 1 << 40)]))
        self.files.checkpoint()


def main(records: str, opened: str, memory: str = "64", restore: str = "") -> None:
    total, half = int(records), int(records) // 2
    tracer = Memory()

    def tell(what: str, count: int, start: float) -> None:
        tracer.look()
        micros = (time.process_time() - start) / count * 1e6
        print(f"{what:34} {micros:6.1f} us a record, peak {tracer.peak:4.0f} MiB", flush=True)
        tracer.peak = 0.0

    with tempfile.TemporaryDirectory() as place:
        run = Path(place), int(opened), int(memory)

        def subtask(index: int, parallelism: int, roots: list[Lineage] | None) -> Subtask:
            return Subtask(run[0], (index, parallelism), run[1], run[2], roots)

        gc.collect()
        start = time.process_time()
        one = subtask(0, 1, None)
        one.run(0, half if restore else total)
        tell(f"{total:,} records, {run[1]:,} open", half if restore else total, start)
        fired = 0
        if restore:
            roots, fired = [one.files.lineage], one.fired
            del one
            for index in range(2):
                start = time.process_time()
                part = subtask(index, 2, roots)
                tell(f"restored, subtask {index} of 2", half // 2, start)
                start = time.process_time()
                part.run(half, total)
                tell("second half of the records", half // 2, start)
                start = time.process_time()
                part.end()
                tell("all sessions fire", total // 2, start)
                fired += part.fired
                del part
        else:
            start = time.process_time()
            one.end()
            tell("those that are open fire", total, start)
            fired = one.fired
    assert fired == total, fired


if __name__ == "__main__":
    main(*sys.argv[1:])
