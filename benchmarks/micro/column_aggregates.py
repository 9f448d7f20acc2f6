"""Aggregates of columns beside those of records, over the same Parquet files, in processor time.

    python benchmarks/micro/column_aggregates.py [rows] [pairs] [cases]

Sums by key and tumbling windows in both modes; cases are a part of the names of those to run. The files are in the
order of time, so that no record is late, and there are 60 windows of 1,000 keys. Both ways run in this process with the
real driver, in turn, and the sum of all windows is checked; the ratio is that of the medians, with quartiles of pairs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
    """Run a program over the files of a folder; return the seconds of processor time.

    Raises:
        AssertionError: A window lacks records.
    """
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
        seconds = time.process_time() - start
        if stamped:
            found = pq.ParquetDataset(f"{place}/out").read()
            [values] = set(found.column_names) & {"v", "v_sum"}
            assert pc.sum(found[values]) == pc.sum(pq.ParquetDataset(folder).read()["v"])
        return seconds


CASES = {
    "sums, streaming": ("STREAMING", sums_of_records, sums_of_columns, False),
    "sums, batch": ("BATCH", sums_of_records, sums_of_columns, False),
    "windows, streaming": ("STREAMING", windows_of_records, windows_of_columns, True),
    "windows, batch": ("BATCH", windows_of_records, windows_of_columns, True),
}


def main(rows: str = "400000", pairs: str = "3", cases: str = "") -> None:
    count = int(rows) // 4
    with tempfile.TemporaryDirectory() as directory:
        made = np.random.default_rng(7)
        for part in range(4):
            times = np.arange(part * count, (part + 1) * count) * (60 * WINDOW_MS) // (4 * count)
            columns = {"k": made.integers(0, KEYS, count), "v": made.integers(0, 1_000, count), "t": times}
            pq.write_table(pa.table(columns), f"{directory}/{part}.parquet", row_group_size=1 << 17)
        for name, (mode, of_records, of_columns, stamped) in CASES.items():
            if cases not in name:
                continue
            folder = Path(directory)
            runs = [
                (run(folder, mode, of_records, stamped=stamped), run(folder, mode, of_columns, stamped=stamped))
                for _ in range(int(pairs))
            ]
            records, batches = (median(column) / (4 * count) * 1e9 for column in zip(*runs, strict=True))
            low, _, high = quantiles([a / b for a, b in runs], n=4, method="inclusive")
            told = f"{records:7.0f} ns by record {batches:7.0f} ns by columns {records / batches:6.1f}x"
            print(f"{name:18} {told} (pairs {low:.1f} to {high:.1f})", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
