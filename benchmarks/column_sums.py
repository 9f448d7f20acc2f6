"""The sum by key over Parquet files: columns and lambdas of ours beside Spark SQL, in one program and one session.

    python benchmarks/column_sums.py [rows] [files] [rounds]

Spark SQL runs with adaptive execution and as many shuffle partitions as there are slots. A round that is not
counted comes first; a ratio is that of the medians. The lambdas run once, because they take much longer.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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


def timed(run: Callable[[str], dict[int, int]], folder: str, expected: dict[int, int]) -> float:
    start = time.perf_counter()
    found = run(folder)
    seconds = time.perf_counter() - start
    if found != expected:
        sys.exit(f"{run.__name__} has a wrong result")
    return seconds


def main(rows: int = 2_000_000, files: int = 8, rounds: int = 5) -> None:
    made, expected = np.random.default_rng(7), np.zeros(KEYS, dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder:
        for part in range(files):
            keys, values = made.integers(0, KEYS, rows // files), made.integers(0, 1_000, rows // files)
            np.add.at(expected, keys, values)
            pq.write_table(pa.table({"k": keys, "v": values}), Path(folder) / f"{part}.parquet")
        truth = {key: int(total) for key, total in enumerate(expected)}
        runs = [(timed(by_columns, folder, truth), timed(by_spark, folder, truth)) for _ in range(rounds + 1)][1:]
        lambdas = timed(by_lambdas, folder, truth)
    columns, spark = (median(each) for each in zip(*runs, strict=True))
    print(f"columns {columns:.2f} s, Spark SQL {spark:.2f} s ({spark / columns:.2f}x), lambdas {lambdas:.2f} s", end="")
    print(f" ({lambdas / columns:.1f}x)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
