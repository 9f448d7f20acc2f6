"""The sum by key over Parquet files: columns and lambdas of ours beside Spark SQL, in one program and one session.

    python benchmarks/column_sums.py [rows] [files] [rounds] [rounds with lambdas]

Spark SQL runs with adaptive execution and as many shuffle partitions as there are slots. In a round both run in turn; a
round that is not counted comes first. Times are medians and quartiles, a ratio is that of the medians. The lambdas take
much longer, so they have rounds of their own.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from figures import timed
from pyspark.sql import SparkSession

from penstock.common import WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.formats.parquet import ParquetFormat

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS, SLOTS = 1_000, 2


def stream(folder: str) -> Any:
    env: Any = StreamExecutionEnvironment.get_execution_environment().set_parallelism(SLOTS)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    source = FileSource.for_bulk_file_format(ParquetFormat(), folder).build()
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "in")


def by_columns(folder: str) -> dict[int, int]:
    results = stream(folder).key_by("k").aggregate_batches({"v": "sum"}).execute_and_collect()
    return {row["k"]: row["v_sum"] for row in results}


def by_lambdas(folder: str) -> dict[int, int]:
    reduced = stream(folder).key_by(lambda row: row["k"]).reduce(lambda a, b: {"k": a["k"], "v": a["v"] + b["v"]})
    return {row["k"]: row["v"] for row in reduced.execute_and_collect()}


def by_spark(folder: str) -> dict[int, int]:
    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", str(SLOTS))
    rows = spark.read.parquet(folder).groupBy("k").sum("v").collect()
    return {row[0]: row[1] for row in rows}


def told(seconds: list[float]) -> str:
    if len(seconds) == 1:
        return f"{seconds[0]:.2f} s"
    low, middle, high = quantiles(seconds, n=4, method="inclusive")
    return f"{middle:.2f} s ({low:.2f} to {high:.2f})"


def compare(others: str, run: Callable[[str], dict[int, int]], rounds: int, folder: str, truth: dict[int, int]) -> None:
    """Run columns and others in turn, and print their times."""
    pairs = [(timed(by_columns, folder, truth), timed(run, folder, truth)) for _ in range(rounds)]
    ours, theirs = ([pair[place] for pair in pairs] for place in range(2))
    ratio = median(theirs) / median(ours)
    print(f"columns {told(ours)}, {others} {told(theirs)}: {ratio:.2f}x of {rounds}", flush=True)


def main(rows: int = 2_000_000, files: int = 8, rounds: int = 5, rounds_with_lambdas: int = 1) -> None:
    made, expected = np.random.default_rng(7), np.zeros(KEYS, dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder:
        for part in range(files):
            keys, values = made.integers(0, KEYS, rows // files), made.integers(0, 1_000, rows // files)
            expected += np.bincount(keys, values, KEYS).astype(np.int64)
            pq.write_table(pa.table({"k": keys, "v": values}), Path(folder) / f"{part}.parquet")
        truth = {key: int(total) for key, total in enumerate(expected)}
        timed(by_columns, folder, truth)
        if rounds:
            timed(by_spark, folder, truth)
            compare("Spark SQL", by_spark, rounds, folder, truth)
        if rounds_with_lambdas:
            compare("lambdas", by_lambdas, rounds_with_lambdas, folder, truth)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
