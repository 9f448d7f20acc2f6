"""What a DataFrame costs that is handed in: written once by Spark, and read; beside reading the same Parquet directly.

    python -m benchmarks.dataframes [rows]

The jobs sum a column by key, and take turns; the first turn warms Spark up and does not count. The third way is what a
program would do without ``from_dataframe``: ``df.write.parquet``, then read that. Shown are medians of seconds.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._engine.spark.session import users_session
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.formats.parquet import ParquetFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.datastream import DataStream

_TURNS = 3


def _summed(place: Path, source: Callable[[StreamExecutionEnvironment], DataStream[Any]]) -> tuple[float, int]:
    """Return the seconds of a job, and the sum of its results."""
    configuration = Configuration.from_dict({"execution.checkpointing.dir": str(place / "checkpoints")})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2).set_runtime_mode(RuntimeExecutionMode.BATCH)
    begin = time.perf_counter()
    with source(env).key_by("kind").aggregate_batches({"id": "sum"}).execute_and_collect() as records:
        total = sum(record["id_sum"] for record in records)
    return time.perf_counter() - begin, total


def main(rows: int = 10_000_000) -> None:
    """Measure, and print one line for each way."""
    session = users_session()
    frame = session.range(0, rows, 1, 8).selectExpr("id", "id % 1000 AS kind", "CAST(id % 77 AS DOUBLE) AS price")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        frame.write.parquet(str(place / "files"))

        def written_before(env: StreamExecutionEnvironment) -> DataStream[Any]:
            frame.write.mode("overwrite").parquet(str(place / "again"))
            again = FileSource.for_bulk_file_format(ParquetFormat(), str(place / "again")).build()
            return env.from_source(again, WatermarkStrategy.no_watermarks(), "again")

        files = FileSource.for_bulk_file_format(ParquetFormat(), str(place / "files")).build()
        ways: dict[str, Callable[[StreamExecutionEnvironment], DataStream[Any]]] = {
            "Parquet": lambda env: env.from_source(files, WatermarkStrategy.no_watermarks(), "files"),
            "DataFrame": lambda env: env.from_dataframe(frame),
            "written by Spark's writer before": written_before,
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(_TURNS):
            for name, source in ways.items():
                took, total = _summed(place, source)
                assert total == rows * (rows - 1) // 2, f"{name} has lost or repeated something"
                if turn:
                    seconds[name].append(took)
        medians = {name: statistics.median(all_turns) for name, all_turns in seconds.items()}
        for name, median in medians.items():
            times = median / medians["Parquet"]
            print(f"{name:<33} {median:6.2f} s, {rows / median / 1e6:5.2f} million rows/s, {times:.1f} x Parquet")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
