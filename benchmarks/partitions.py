"""Full window partitions: a sort beside DuckDB's, map_partition_batches beside mapInArrow, and a sort beside PyFlink's.

    python benchmarks/partitions.py [rows] [rounds] [rows of PyFlink, 0 to leave it out]

The rows are two columns, a random whole number and a float, in two Parquet files; both sides read them, and look at
each row of the result. The memory of our Python workers is that of the run that does not count.

Ours runs two subtasks in one Spark session, with 128 MiB for each sort. DuckDB has two threads
and 256 MiB, and orders all rows where ours orders each half. The function of mapInArrow is the same object. PyFlink
sorts in a process function, by a timer at the end; it runs at two sizes, and so does ours, because its start-up takes
long.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from environments import UnavailableError, prepare
from figures import Figures, timed
from measure import MemorySampler
from pyspark.sql import SparkSession

from penstock.common import Order, WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.formats.parquet import ParquetFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLOTS = 2
PROGRAM = Path(__file__).parent / "programs" / "pyflink_sort.py"


def environment() -> Any:
    env: Any = StreamExecutionEnvironment.get_execution_environment().set_parallelism(SLOTS)
    return env.set_runtime_mode(RuntimeExecutionMode.BATCH)


def stream(folder: str) -> Any:
    source = FileSource.for_bulk_file_format(ParquetFormat(), folder).build()
    return environment().from_source(source, WatermarkStrategy.no_watermarks(), "in")


def tally(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the number of rows, and whether they are in order."""
    count, last, in_order = 0, -1, True
    for batch in batches:
        keys = batch.column(0).to_numpy()
        count += len(keys)
        in_order &= last <= int(keys[0]) and bool((keys[1:] >= keys[:-1]).all())
        last = int(keys[-1])
    yield pa.table({"count": [count], "ordered": [in_order]})


def doubled(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield pa.record_batch([batch.column(0), pc.multiply(batch.column(1), 2.0)], ["k", "v"])


def summed(batch: Any) -> Any:
    return pa.table({"count": [batch.num_rows], "sum": [pc.sum(batch.column(1)).as_py()]})


def sort_of_ours(folder: str) -> tuple[int, bool]:
    ordered = stream(folder).full_window_partition().sort_partition_batches("k")
    found = list(ordered.full_window_partition().map_partition_batches(tally).execute_and_collect())
    return sum(row["count"] for row in found), all(row["ordered"] for row in found)


def sort_of_duckdb(folder: str) -> tuple[int, bool]:
    with tempfile.TemporaryDirectory() as spill:
        config = {"threads": SLOTS, "memory_limit": "256MiB", "temp_directory": spill}
        with duckdb.connect(config=config) as connection:
            query = connection.sql(f"select k, v from '{folder}/*.parquet' order by k")
            (found,) = next(tally(query.to_arrow_reader(1 << 16))).to_pylist()
    return found["count"], found["ordered"]


def map_of_ours(folder: str) -> int:
    mapped = stream(folder).full_window_partition().map_partition_batches(doubled).map_batches(summed)
    return sum(row["count"] for row in mapped.execute_and_collect())


def map_of_spark(folder: str) -> int:
    spark = SparkSession.builder.getOrCreate()
    frame = spark.read.parquet(folder).mapInArrow(doubled, "k long, v double")
    return frame.selectExpr("count(k)", "sum(v)").collect()[0][0]


def sort_of_rows(rows: int) -> float:
    """Return the seconds of a sort of tuples in Python, as PyFlink's program has it."""
    numbers = environment().from_source(NumberSequenceSource(0, rows - 1), WatermarkStrategy.no_watermarks(), "in")
    pairs = numbers.map(lambda number: (number * 2654435761 % 1_000_003, number))
    ordered = pairs.full_window_partition().sort_partition(0, Order.ASCENDING)
    start = time.perf_counter()
    counts = list(ordered.full_window_partition().map_partition(count_in_order).execute_and_collect())
    seconds = time.perf_counter() - start
    if sum(counts) != rows:
        sys.exit("the sort of rows is wrong")
    return seconds


def count_in_order(values: Iterator[tuple[int, int]]) -> Iterator[int]:
    count, last = 0, -1
    for key, _ in values:
        if key < last:
            msg = "not in order"
            raise ValueError(msg)
        count, last = count + 1, key
    yield count


def sort_of_pyflink(rows: int) -> float:
    found = prepare("pyflink")
    start = time.perf_counter()
    variables = {**os.environ, **found.variables}
    told = subprocess.run(
        [found.python, PROGRAM, str(rows)], env=variables, check=True, capture_output=True, text=True
    ).stdout
    seconds = time.perf_counter() - start
    if f"RESULT {rows}" not in told:
        sys.exit("PyFlink's sort is wrong")
    return seconds


def compare(
    ours: Callable[[str], Any], theirs: Callable[[str], Any], rounds: int, folder: str, expected: Any
) -> tuple[float, float, list[float], int]:
    """Run both in turn.

    Returns:
        Their times in the median, how many times as fast ours is in each round, and the private memory of the largest
        of our Python workers, in bytes.
    """
    with MemorySampler(os.getpid()) as memory:
        timed(ours, folder, expected)
    timed(theirs, folder, expected)
    pairs = [(timed(ours, folder, expected), timed(theirs, folder, expected)) for _ in range(rounds)]
    middles = [median(pair[place] for pair in pairs) for place in range(2)]
    return middles[0], middles[1], [theirs / ours for ours, theirs in pairs], memory.peaks["private"]


def main(rows: int = 20_000_000, rounds: int = 3, flink_rows: int = 200_000) -> int:
    figures = Figures("Full window partitions")
    made = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as folder:
        for part in range(SLOTS):
            size = rows // SLOTS
            columns = {"k": made.integers(0, 1 << 40, size), "v": made.random(size)}
            pq.write_table(pa.table(columns), Path(folder) / f"{part}.parquet", row_group_size=1 << 18)
        for what, ours, theirs, expected, bar in (
            ("sort_partition_batches beside DuckDB", sort_of_ours, sort_of_duckdb, (rows, True), 0.3),
            ("map_partition_batches beside mapInArrow", map_of_ours, map_of_spark, rows, 0.7),
        ):
            own, other, ratios, memory = compare(ours, theirs, rounds, folder, expected)
            told = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            value = f"{told} x: {own:.1f} beside {other:.1f} s in the median"
            figures.add(f"{what}, {rows:,} rows", value, f"{bar}", met=median(ratios) >= bar)
            figures.add("the same, largest Python worker", f"{memory >> 20} MiB private", "1024", met=memory < 1 << 30)
    if flink_rows:
        own = 10 * flink_rows / (sort_of_rows(12 * flink_rows) - sort_of_rows(2 * flink_rows))
        try:
            other = flink_rows / (sort_of_pyflink(2 * flink_rows) - sort_of_pyflink(flink_rows))
        except (UnavailableError, subprocess.CalledProcessError) as error:
            figures.add("sort_partition of tuples beside PyFlink", f"not measured: {error}")
        else:
            told = f"{own / other:.0f} x: {own / 1e3:,.0f} k beside {other / 1e3:,.1f} k rows/s, slopes"
            figures.add(
                f"sort_partition of tuples beside PyFlink, {flink_rows:,} rows", told, "10", met=own >= 10 * other
            )
    return figures.show()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
