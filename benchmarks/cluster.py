"""What a cluster costs: epochs, throughput and large state on two isolated hosts of one core each, on this machine.

    python benchmarks/cluster.py                    all of it, about twenty minutes
    python benchmarks/cluster.py --only epoch       an empty epoch beside the bare Spark job of its shape, there
    python benchmarks/cluster.py --only keyed       a keyed job there beside the same one in `local[2]`, in turn
    python benchmarks/cluster.py --only state       1 GB of keyed state beside 10 MB; a host with half of it is lost

The cluster is that of the tests (`tests/cluster/standalone.py`). Checkpoints go to a directory that hosts share. For
the state both jobs have as many keys, and change as many small values in each epoch; the payloads, which make the
difference, are written before, and a snapshot of them has been made when the measurement begins.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from epoch import Shape, measure  # noqa: E402
from figures import Figures  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from tests.cluster.standalone import Standalone  # noqa: E402

from penstock._engine.spark.executors import executors_of, listed, slots_of  # noqa: E402
from penstock._engine.spark.session import get_session  # noqa: E402
from penstock.common import Configuration, WatermarkStrategy  # noqa: E402
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment  # noqa: E402
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy  # noqa: E402
from penstock.datastream.state import ValueStateDescriptor  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.functions import RuntimeContext

PARALLELISM = 2
PARTS = ("epoch", "keyed", "state")
KEYS = 16_384
#: Changes of an epoch.
CHANGES = 2_048
LITTLE_MB, MUCH_MB = 10, 1_000
#: Beyond the epochs that write the payloads: those up to the first snapshot.
WARM_UP = 20
MEASURED = 40
#: Records of the keyed job, and its keys.
RECORDS = (1_000_000, 16_000_000)
KEYED_KEYS = 100_000
PAIRS = 5
PATIENCE_S = 900


class Remember(KeyedProcessFunction):
    """Keeps a payload for each key, once, and a count that changes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def open(self, runtime_context: RuntimeContext) -> None:
        self.payload = runtime_context.get_state(ValueStateDescriptor("payload"))
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[int]:
        if value < KEYS:
            self.payload.update(random.Random(value).randbytes(self.size))
        self.count.update((self.count.value() or 0) + 1)
        return ()


@dataclass
class Watched:
    """A running job, and the time of each of its epochs."""

    client: Any
    epochs: list[int] = field(default_factory=list[int])

    @property
    def view(self) -> Any:
        return self.client._driver.view

    def await_epochs(self, number: int) -> None:
        """Wait until so many epochs were seen."""
        deadline, last = time.monotonic() + PATIENCE_S, -1
        while len(self.epochs) < number:
            view = self.view
            if view.progress.epochs != last:
                last = view.progress.epochs
                self.epochs.append(view.last_interval_ms)
            if time.monotonic() > deadline or self.client._driver.result.done():
                sys.exit(f"the job did not come to {number} epochs: {view.failures}")
            time.sleep(0.01)


def remembering(directory: Path, size: int) -> StreamExecutionEnvironment:
    """Return the job with keyed state."""
    settings = {"execution.checkpointing.dir": str(directory / "checkpoints"), "penstock.rest.enabled": "false"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(PARALLELISM)
    source = DataGeneratorSource(lambda index: index, None, RateLimiterStrategy.per_checkpoint(CHANGES))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda number: number % KEYS).process(Remember(size)).print()
    return env


def state(figures: Figures, cluster: Standalone) -> None:
    """Measure epochs with little and with much state, then the loss of a host."""
    found: dict[int, list[int]] = {}
    for turn, megabytes in enumerate((LITTLE_MB, MUCH_MB, LITTLE_MB)):  # what changes meanwhile is in both
        env = remembering(cluster.shared / f"state-{turn}", megabytes * 1_000_000 // KEYS)
        job = Watched(env.execute_async(f"state-{turn}"))
        before = KEYS // CHANGES + WARM_UP
        job.await_epochs(before + MEASURED)
        found.setdefault(megabytes, []).extend(job.epochs[before:])
        if megabytes == MUCH_MB:
            recover(figures, cluster, job, megabytes)
        job.client.cancel().result()
    little, much = found[LITTLE_MB], found[MUCH_MB]
    for name, of in (("median", median), ("mean", mean)):
        ratio = of(much) / of(little)
        value = f"{ratio:.2f} × ({of(much):.0f} beside {of(little):.0f} ms)"  # noqa: RUF001
        figures.add(f"Epoch with 1 GB of keyed state to one with 10 MB, {name} of {MEASURED}", value, "≤ 1.2",
                    met=ratio <= 1.2)  # fmt: skip


def recover(figures: Figures, cluster: Standalone, job: Watched, megabytes: int) -> None:
    """Lose a host, and take the time until an epoch counts again."""
    read, epochs = job.view.restored_bytes, job.view.progress.epochs
    lost = time.monotonic()
    cluster.lose_host(cluster.hosts[0])
    cluster.add_host()
    while job.view.progress.epochs <= epochs + 1:  # the first one may have been at its end
        if time.monotonic() - lost > PATIENCE_S:
            sys.exit("the job did not go on")
        time.sleep(0.05)
    seconds, restored = time.monotonic() - lost, job.view.restored_bytes - read
    spark = get_session(PARALLELISM)
    while len(listed(spark.session.sparkContext)) < PARALLELISM:  # the next job is to have both hosts
        time.sleep(0.5)
    most = megabytes / 2 / 100 + 30
    value = f"{seconds:.0f} s until a second epoch had counted; {restored / 1e6:.0f} MB read from checkpoints"
    figures.add("A host with half of 1 GB is lost", value, f"≤ {most:.0f} s", met=seconds <= most)


def epochs(figures: Figures, epochs: int) -> None:
    """Measure empty epochs."""
    spark = get_session(PARALLELISM)
    hosts = slots_of(spark, executors_of(spark), None, PARALLELISM)
    timings = measure(Shape(2, PARALLELISM), spark, epochs, hosts=hosts)
    ratio = median(each.whole / each.bare for each in timings)
    whole, bare = (median(values) * 1000 for values in zip(*((one.whole, one.bare) for one in timings), strict=True))
    value = f"{ratio:.2f} × ({whole:.0f} beside {bare:.0f} ms)"  # noqa: RUF001
    figures.add("Empty epoch, two levels, to the bare job there", value, "≤ 1.05", met=ratio <= 1.05)


def keyed(figures: Figures, cluster: Standalone, pairs: int) -> None:
    """Measure the throughput of a keyed job in turn there and in `local[2]`."""
    masters = cluster.url, f"local[{PARALLELISM}]"
    for master in masters:  # what is made once, such as the archive of the JVM's classes, is made here
        run(cluster, master, RECORDS[0])
    took: dict[tuple[str, int], list[float]] = {}
    for _ in range(pairs):
        for records in RECORDS:
            for master in masters:
                took.setdefault((master, records), []).append(run(cluster, master, records))
        print("  " + ", ".join(f"{records:,} on {where}: {of[-1]:.1f} s" for (where, records), of in took.items()))
    there, here = (rate(took[master, RECORDS[0]], took[master, RECORDS[1]]) for master in masters)
    value = f"{there / here:.2f} × ({there:,.0f} beside {here:,.0f} records/s; medians of {pairs} runs)"  # noqa: RUF001
    figures.add("Keyed job on two hosts of one core to local[2]", value, "≥ 0.9", met=there / here >= 0.9)


def rate(fewer: list[float], more: list[float]) -> float:
    """Return the records a second of what a larger job does more than a smaller one, from the seconds of their runs."""
    return (RECORDS[1] - RECORDS[0]) / (median(more) - median(fewer))


def run(cluster: Standalone, master: str, records: int) -> float:
    """Run the keyed job; return its seconds."""
    with tempfile.TemporaryDirectory(dir=cluster.shared) as place:
        variables = {
            **cluster.environment(),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_MASTER": master,
            "TMPDIR": place,
            "PENSTOCK_EXECUTION__CHECKPOINTING__DIR": f"{place}/checkpoints",
            "PENSTOCK_REST__ENABLED": "false",
        }
        program = Path(__file__).with_name("programs") / "penstock_programs.py"
        start = time.monotonic()
        command = [sys.executable, str(program), "keyed_state", str(records), str(KEYED_KEYS)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode != 0:
            sys.exit(done.stderr[-4000:])
        return time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--epochs", type=int, default=40, help="empty epochs that count (40)")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of the keyed job ({PAIRS})")
    arguments = parser.parse_args()
    figures = Figures("On a cluster of two hosts")
    wanted = PARTS if arguments.only is None else (arguments.only,)
    with Standalone() as cluster:
        if "keyed" in wanted:  # while no session has the cores
            keyed(figures, cluster, arguments.pairs)
        if "epoch" in wanted or "state" in wanted:
            os.environ.update(cluster.environment())
            os.environ.update(PYSPARK_PYTHON=sys.executable, TMPDIR=str(cluster.shared))
            tempfile.tempdir = None  # what is in TMPDIR now counts
            builder = SparkSession.builder.master(cluster.url)
            # The functions of the bare job are in a module beside this one.
            session = builder.config("spark.executorEnv.PYTHONPATH", str(Path(__file__).parent)).getOrCreate()
            if "epoch" in wanted:
                epochs(figures, arguments.epochs)
            if "state" in wanted:
                state(figures, cluster)
            session.stop()
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())
