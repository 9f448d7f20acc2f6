"""Aggregates of columns beside those of records, over the same Parquet files, in processor time.

    python benchmarks/micro/column_aggregates.py [rows] [pairs]

Sums by key in both modes, and tumbling windows. Both ways run in this process with the real driver, in turn; the
ratio is that of the medians.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.graph.chaining import build_job_graph
from penstock.common import Configuration, Duration, WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetFormat
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.in_process import InProcessEpochRunner

KEYS, WINDOW_MS = 1_000, 10_000


def sums_of_records(stream: Any) -> Any:
    return stream.key_by(lambda row: row["k"]).reduce(lambda a, b: {"k": a["k"], "v": a["v"] + b["v"]})


def sums_of_columns(stream: Any) -> Any:
    return stream.key_by("k").aggregate_batches({"v": "sum"})


def windows_of_records(stream: Any) -> Any:
    windows = stream.key_by(lambda row: row["k"]).window(TumblingEventTimeWindows(WINDOW_MS, 0))
    return windows.reduce(lambda a, b: {"k": a["k"], "v": a["v"] + b["v"]})


def windows_of_columns(stream: Any) -> Any:
    return stream.key_by("k").window(TumblingEventTimeWindows(WINDOW_MS, 0)).aggregate_batches({"v": "sum"})


def run(folder: Path, mode: str, program: Any, *, stamped: bool) -> float:
    """Run a program over the files of a folder; return the seconds of processor time."""
    with tempfile.TemporaryDirectory() as place:
        env: Any = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        env.set_runtime_mode(RuntimeExecutionMode[mode])
        source = FileSource.for_bulk_file_format(ParquetFormat(), str(folder)).build()
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "in")
        if stamped:
            bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(60))
            stream = stream.assign_timestamps_and_watermarks(bounded.with_timestamp_assigner("t"))
        program(stream).sink_to(FileSink.for_bulk_format(f"{place}/out", ParquetBulkWriters.for_schema()).build())
        runner = InProcessEpochRunner(seed=1)
        graph, environment = build_job_graph(env._stream_graph("sums")), RuntimeEnvironment(runner, 2, Path(place))
        driver, loop = assemble(graph, Configuration(env._configuration), None, environment)
        start = time.process_time()
        driver.run(loop)
        driver.result.result(0)
        runner.close()
        return time.process_time() - start


CASES = {
    "sums, streaming": ("STREAMING", sums_of_records, sums_of_columns, False),
    "sums, batch": ("BATCH", sums_of_records, sums_of_columns, False),
    "tumbling windows": ("STREAMING", windows_of_records, windows_of_columns, True),
}


def main(rows: int = 400_000, pairs: int = 3) -> None:
    with tempfile.TemporaryDirectory() as directory:
        made = np.random.default_rng(7)
        for part in range(4):
            count = rows // 4
            times = np.arange(count) * (60 * WINDOW_MS) // count
            columns = {"k": made.integers(0, KEYS, count), "v": made.integers(0, 1_000, count), "t": times}
            pq.write_table(pa.table(columns), f"{directory}/{part}.parquet", row_group_size=1 << 17)
        for name, (mode, of_records, of_columns, stamped) in CASES.items():
            folder = Path(directory)
            runs = [
                (run(folder, mode, of_records, stamped=stamped), run(folder, mode, of_columns, stamped=stamped))
                for _ in range(pairs)
            ]
            records, batches = (median(column) / rows * 1e9 for column in zip(*runs, strict=True))
            print(f"{name:18} {records:7.0f} ns by record {batches:7.0f} ns by columns {records / batches:6.1f}x")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
