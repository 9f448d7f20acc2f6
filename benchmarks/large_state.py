"""Keyed state beyond memory: a job fills lists of rows, and is looked at from outside; a parameter is their size.

    python benchmarks/large_state.py                                           2 GB in 64 MiB, some minutes
    python benchmarks/large_state.py --gigabytes 20 --directory /data          needs five times as much of the disk

- *fill*: each record adds a row of 1,000 random bytes to the list of its key, which has ten in the end; the keys come
  scattered, 100,000 in an epoch at most. How long epochs take, by quarters of the state, and how much memory a worker
  has: private, and anonymous, which is without LMDB's pages: those are page cache that the kernel takes back.
- *savepoint*: of the running job, by REST, while records go on.
- *restore*, *rescale*: the job goes on from the savepoint with as many subtasks, and with twice as many: how long its
  first epoch takes, in which the state is brought back, and the later ones.

Each record checks that the list of its key has as many rows as it must have: a row that is lost ends the job.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path.append(str(PROJECT))

from figures import Figures  # noqa: E402 - behind the path
from tests.endurance.program_notes import ask, largest, processes, size_of  # noqa: E402
from tests.fault.processes import kill  # noqa: E402
from tests.services.process import free_port  # noqa: E402

from penstock.common import Configuration, Row, Types, WatermarkStrategy  # noqa: E402
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment  # noqa: E402
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy  # noqa: E402
from penstock.datastream.state import ListStateDescriptor  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.datastream.functions import RuntimeContext

ROW_BYTES, ROWS = 1_000, 10
#: Scatters keys; a prime, so that all of them come round.
SCATTER = 2_654_435_761
SUBTASKS = 2
SLOW_PER_S = 1_000
#: Records of an epoch while state is filled.
PER_EPOCH = 100_000
#: While state is filled, and afterwards.
INTERVALS = ("10 s", "1 s")
LATER_EPOCHS = 5
LOOK_S, END_S = 1, 60


class Add(KeyedProcessFunction):
    """Adds a row to the list of its key.

    Args:
        keys: How many there are.
    """

    def __init__(self, keys: int) -> None:
        self.keys = keys

    def open(self, runtime_context: RuntimeContext) -> None:
        row = Types.ROW_NAMED(["number", "payload"], [Types.LONG(), Types.PICKLED_BYTE_ARRAY()])
        self.rows = runtime_context.get_list_state(ListStateDescriptor("rows", row))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        rows, expected = len(self.rows.get()), value // self.keys
        if rows != expected:
            reason = f"key {ctx.get_current_key()} has {rows} rows, and had {expected}"
            raise AssertionError(reason)
        self.rows.add(Row(value, random.Random(value).randbytes(ROW_BYTES)))
        if value < 0:
            yield value


def run_job(directory: Path, keys: int, memory: str, subtasks: int, *, start: str, port: str) -> None:
    """Run the job until it is killed; slowly when it starts from a savepoint."""
    settings = {
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(directory / "savepoints"),
        "execution.checkpointing.interval": INTERVALS[bool(start)],
        "restart-strategy.type": "none",
        "penstock.state.memory": memory,
        "rest.port": port,
        "penstock.rest.token": "none",
    }
    if start:
        settings["execution.state-recovery.path"] = start
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(subtasks)
    rate = RateLimiterStrategy.per_second(SLOW_PER_S) if start else RateLimiterStrategy.per_checkpoint(PER_EPOCH)
    source = DataGeneratorSource(lambda index: index, None, rate)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.key_by(lambda number: number * SCATTER % keys, Types.LONG()).process(Add(keys)).uid("add").print()
    env.execute("large state")


class Watch:
    """A process of the job, and what is seen of it from outside; it is killed behind a ``with``.

    Args:
        directory: Of the checkpoints and savepoints.
        words: What follows the directory in the command.
    """

    def __init__(self, directory: Path, *words: object) -> None:
        self._directory, self._port = directory, free_port()
        self._program = subprocess.Popen(
            [sys.executable, __file__, "--job", directory, *map(str, words), str(self._port)],
            env={**os.environ, "PYTHONPATH": str(PROJECT / "src")},
            stdout=subprocess.DEVNULL, stderr=(directory / "log").open("ab"),
        )  # fmt: skip
        #: Milliseconds of the epochs, and the records behind each.
        self.epochs: dict[int, tuple[int, int]] = {}
        #: At most, in MB: the private memory of a worker, its anonymous memory, and that of the JVM.
        self.worker_mb = self.anonymous_mb = self.jvm_mb = 0.0

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        kill(self._program, END_S)

    def until(self, records: int = 0, epochs: int = 0) -> None:
        """Wait until the source has given so many records in this process, and so many epochs have ended."""
        while self.look() < records or len(self.epochs) < epochs:
            time.sleep(LOOK_S)

    def look(self) -> int:
        """Look at the job once; return the records that the source has given."""
        if self._program.poll() is not None:
            sys.exit((self._directory / "log").read_text()[-3000:])
        look = {"processes": processes(self._program.pid)}
        self.worker_mb = max(self.worker_mb, largest(look, "worker", "private_kib") or 0)
        self.anonymous_mb = max(self.anonymous_mb, largest(look, "worker") or 0)
        self.jvm_mb = max(self.jvm_mb, largest(look, "JVM") or 0)
        with contextlib.suppress(OSError):  # the server is not there yet
            if jobs := ask(self._port, "jobs")["jobs"]:
                return self._look_at(f"jobs/{jobs[0]['id']}")
        return 0

    def _look_at(self, job: str) -> int:
        records = max(vertex["metrics"]["write-records"] for vertex in ask(self._port, job)["vertices"])
        for one in ask(self._port, f"{job}/checkpoints")["history"]:
            if one["status"] == "COMPLETED" and not one["is_savepoint"]:
                self.epochs.setdefault(one["id"], (one["end_to_end_duration"], records))
        return records

    def memory(self) -> str:
        """Return what a worker has taken at most."""
        return f"{self.worker_mb:.0f} MB private, {self.anonymous_mb:.0f} MB anonymous"

    def savepoint(self) -> tuple[str, float]:
        """Make a savepoint; return its place and the seconds until it was there."""
        job, start = f"jobs/{ask(self._port, 'jobs')['jobs'][0]['id']}", time.monotonic()
        request = ask(self._port, f"{job}/savepoints", {"cancel-job": False})["request-id"]
        while True:
            answer: dict[str, Any] = ask(self._port, f"{job}/savepoints/{request}")
            if answer["status"]["id"] == "COMPLETED":
                seconds = time.monotonic() - start
                if "location" not in answer["operation"]:
                    sys.exit(str(answer["operation"])[:3000])
                return answer["operation"]["location"], seconds
            self.look()
            time.sleep(LOOK_S / 5)


def measure(directory: Path, gigabytes: float, memory: str, figures: Figures) -> None:
    keys = int(gigabytes * 1e9 / ROW_BYTES / ROWS)
    records = keys * ROWS
    with Watch(directory, keys, memory, SUBTASKS, "") as fill:
        start = time.monotonic()
        fill.until(records)
        figures.add(
            f"Fill, {gigabytes:g} GB in {records:,} rows",
            f"{records / (time.monotonic() - start):,.0f} rows/s with the start",
        )
        for quarter in range(4):
            low, high = records * quarter // 4, records * (quarter + 1) // 4
            times = [ms for ms, at in fill.epochs.values() if low < at <= high] or [0]
            figures.add(f"… epochs of quarter {quarter + 1}", f"median {median(times):,.0f}, most {max(times):,} ms")
        before = set(fill.epochs)
        place, seconds = fill.savepoint()
        size = size_of(Path(place.removeprefix("file:")))[0] * 1024 / 1e9
        figures.add(
            f"Savepoint of {size:.2f} GB, from the request on", f"{seconds:.1f} s, {size * 1e3 / seconds:,.0f} MB/s"
        )
        fill.until(epochs=len(before) + 2)
        during = [ms for number, (ms, _) in fill.epochs.items() if number not in before]
        figures.add("… epochs meanwhile and after it", f"most {max(during):,} ms")
        figures.add("Memory of a worker at most, of the JVM", f"{fill.memory()}; {fill.jvm_mb:.0f} MB")
        kib, files = size_of(directory / "checkpoints")
        figures.add("Checkpoint directory", f"{kib * 1024 / 1e9:.2f} GB, {files:,} files")
    for name, subtasks in (("Restore with as many subtasks", SUBTASKS), ("Rescale to twice as many", 2 * SUBTASKS)):
        with Watch(directory, keys, memory, subtasks, place) as resumed:
            resumed.until(epochs=LATER_EPOCHS + 1)
            first, *later = (ms for _, (ms, _) in sorted(resumed.epochs.items()))
            figures.add(
                name,
                f"first epoch {first / 1e3:.1f} s ({size * 1e6 / first:,.0f} MB/s), later ones {median(later):,.0f} ms",
            )
            figures.add("… memory of a worker at most", resumed.memory())


def main() -> int:
    if sys.argv[1:2] == ["--job"]:
        directory, keys, memory, subtasks, start, port = sys.argv[2:]
        run_job(Path(directory), int(keys), memory, int(subtasks), start=start, port=port)
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2, help="of keyed state (2)")
    parser.add_argument("--memory", default="64 mb", help="penstock.state.memory (64 mb)")
    parser.add_argument("--directory", help="on the disk to use; the temporary directory when left out")
    arguments = parser.parse_args()
    figures = Figures("State beyond memory")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=arguments.directory) as directory:
        free = os.statvfs(directory)
        figures.add("Free on the disk", f"{free.f_bavail * free.f_frsize / 1e9:.0f} GB")
        measure(Path(directory), arguments.gigabytes, arguments.memory, figures)
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())
