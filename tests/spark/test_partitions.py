"""Full window partitions on Spark: eight times the memory of a sort, and tasks that die in the midst of a partition."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration, Order, WatermarkStrategy
from penstock.datastream import MapPartitionFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.spark.session import SparkHandle

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

BOUND_MB, TIMES = 8, 8
RECORD_BYTES = 1_000
RECORDS = TIMES * BOUND_MB * 1_000_000 // RECORD_BYTES
#: What a worker needs beside the bound: a section of a stored result with its rows, and blocks under way.
BESIDE_MB = 40


def environment(spark: SparkHandle, **settings: str) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"execution.runtime-mode": "BATCH", **settings})
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(spark.slots)


def numbers(env: StreamExecutionEnvironment, count: int) -> Any:
    return env.from_source(NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers")


def resident_mb() -> float:
    """Return the private memory of this process."""
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_")) / 1_000


class Watching(MapPartitionFunction):
    """Emits how many records there are, whether they are in order, and by how much memory has grown meanwhile."""

    def open(self, runtime_context: Any) -> None:
        self.before_mb = resident_mb()

    def map_partition(self, values: Iterator[Any]) -> Iterator[Any]:
        count, last, most_mb, in_order = 0, "", 0.0, True
        for value in values:
            in_order &= last <= value[0]
            count, last = count + 1, value[0]
            if count % 2_000 == 1:
                most_mb = max(most_mb, resident_mb())
        yield count, in_order, most_mb - self.before_mb


@pytest.mark.behaviour(132)
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux to look at memory")
def test_a_sort_of_eight_times_its_memory_is_in_order_and_needs_no_more_than_its_memory(spark: SparkHandle) -> None:
    env = environment(spark, **{"execution.sort-partition.memory": f"{BOUND_MB} mb"})
    total = spark.slots * RECORDS
    pairs = numbers(env, total).map(lambda n: (f"{n * 2654435761 % 1_000_003:07d}", f"{n:07d}" * (RECORD_BYTES // 7)))
    ordered = pairs.rebalance().full_window_partition().sort_partition(0, Order.ASCENDING)
    watched = ordered.full_window_partition().map_partition(Watching())
    with watched.execute_and_collect() as results:
        found = list(results)
    assert sum(count for count, _, _ in found) == total
    assert all(in_order for _, in_order, _ in found)
    assert max(grown_mb for _, _, grown_mb in found) < BOUND_MB + BESIDE_MB


class FailsOnce(MapPartitionFunction):
    """Dies in the midst of its partition, once: its process, or its function alone."""

    def __init__(self, mark: str, *, is_killed: bool) -> None:
        self.mark, self.is_killed = mark, is_killed

    def map_partition(self, values: Iterator[Any]) -> Iterator[Any]:
        for count, value in enumerate(values):
            if count == 50 and value < 1_000:
                try:
                    Path(self.mark).touch(exist_ok=False)
                except FileExistsError:
                    pass
                else:
                    if self.is_killed:
                        os.kill(os.getpid(), 9)
                    raise RuntimeError("in the midst")
            yield value


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_task_that_dies_in_the_midst_of_a_partition_runs_again_and_nothing_is_lost_or_repeated(
    spark: SparkHandle, tmp_path: Path, is_killed: bool
) -> None:
    retries = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "10 ms"}
    whole = numbers(environment(spark, **retries), 4_000).rebalance().full_window_partition()
    passed = whole.map_partition(FailsOnce(str(tmp_path / "mark"), is_killed=is_killed))
    ordered = passed.rebalance().full_window_partition().sort_partition(lambda number: -number, Order.ASCENDING)
    with ordered.execute_and_collect() as results:
        found = list(results)
    assert (tmp_path / "mark").exists()
    assert sorted(found) == list(range(4_000))
    assert sum(later > earlier for earlier, later in pairwise(found)) < spark.slots
