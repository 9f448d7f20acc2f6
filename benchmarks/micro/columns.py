"""What columns spare from Parquet to Parquet: the same job by batches of columns and by records, in processor time.

    python benchmarks/micro/columns.py [rows] [pairs]

Both run in this process with the real driver, one after the other in turn; the ratio is that of the medians.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.graph.chaining import build_job_graph
from penstock.common.configuration import Configuration
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetFormat
from penstock.testing.in_process import InProcessEpochRunner


class ByRecord(ParquetFormat):
    """Reads the same files, and never gives columns."""

    gives_batches = False


def run(parquet: ParquetFormat, folder: Path, *, keyed: bool) -> float:
    """Copy the files of a folder; return the seconds of processor time."""
    with tempfile.TemporaryDirectory() as place:
        env: Any = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        stream = env.from_source(
            FileSource.for_bulk_file_format(parquet, str(folder)).build(), WatermarkStrategy.no_watermarks(), "in"
        )
        stream = stream.key_by("word") if keyed else stream
        stream.sink_to(FileSink.for_bulk_format(f"{place}/out", ParquetBulkWriters.for_schema()).build())
        runner = InProcessEpochRunner(seed=1)
        graph, environment = build_job_graph(env._stream_graph("copy")), RuntimeEnvironment(runner, 2, Path(place))
        driver, loop = assemble(graph, Configuration(env._configuration), None, environment)
        start = time.process_time()
        driver.run(loop)
        driver.result.result(0)
        runner.close()
        return time.process_time() - start


def main(rows: int = 400_000, pairs: int = 5) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for part in range(4):
            numbers = range(part, rows, 4)
            columns = {"id": list(numbers), "word": [f"w{number % 1000}" for number in numbers]}
            columns |= {"price": [number / 7 for number in numbers], "text": [f"row {number}" for number in numbers]}
            pq.write_table(pa.table(columns), f"{directory}/{part}.parquet", row_group_size=50_000)
        for keyed in (False, True):
            runs = [
                (run(ByRecord(), Path(directory), keyed=keyed), run(ParquetFormat(), Path(directory), keyed=keyed))
                for _ in range(pairs)
            ]
            records, batches = (median(column) / rows * 1e9 for column in zip(*runs, strict=True))
            ratios = sorted(a / b for a, b in runs)
            name = "by a named key" if keyed else "chained"
            print(
                f"{name:16} {records:7.0f} ns by record {batches:7.0f} ns by columns {records / batches:6.1f}x "
                f"(pairs {ratios[0]:.1f} to {ratios[-1]:.1f})"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
