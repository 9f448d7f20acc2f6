"""The latency job for Structured Streaming: python spark_latency.py PORT DIRECTORY SECONDS INTERVAL_MS OPERATOR.

Spark's socket source, a stateful operator in Python with a counter for each key, and Spark's file sink, whose files
count once their batch stands in the sink's log. OPERATOR is `transformWithState` (rows, RocksDB with changelog
checkpoints), or `applyInPandasWithState` (a data frame for each key and batch, Spark's default state store).
"""

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, split
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

KEYS = 1_000
OUTPUT = StructType([StructField(name, LongType()) for name in ("number", "created", "seen")])
COUNT = StructType([StructField("seen", LongType())])


class Count(StatefulProcessor):
    """Counts the records of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", COUNT)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = self.seen.get()
        seen = before[0] if before is not None else 0
        for row in rows:
            seen += 1
            yield Row(number=row.number, created=row.created, seen=seen)
        self.seen.update((seen,))

    def close(self) -> None:
        pass


def count(key: Any, frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Count the records of one key in one batch."""
    (seen,) = state.get if state.exists else (0,)
    for frame in frames:
        yield frame.assign(seen=range(seen + 1, seen + len(frame) + 1))[["number", "created", "seen"]]
        seen += len(frame)
    state.update((seen,))


def session() -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )


def counted(records: DataFrame, operator: str) -> DataFrame:
    by_key = records.withColumn("key", col("number") % KEYS).groupBy("key")
    if operator == "applyInPandasWithState":
        return by_key.applyInPandasWithState(count, OUTPUT, COUNT, "append", GroupStateTimeout.NoTimeout)
    return by_key.transformWithState(Count(), OUTPUT, "Append", "None")


def main(port: int, directory: Path, seconds: float, interval_ms: int, operator: str) -> None:
    spark = session()
    if operator == "transformWithState":
        provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
    fields = split(col("value"), ",")
    records = lines.select(fields[0].cast("long").alias("number"), fields[1].cast("long").alias("created"))
    query = (
        counted(records, operator)
        .writeStream.format("csv")
        .option("path", str(directory / "out"))
        .option("checkpointLocation", str(directory / "checkpoints"))
        .trigger(processingTime=f"{interval_ms} milliseconds")
        .start()
    )
    end = time.monotonic() + seconds
    while time.monotonic() < end and query.isActive:
        query.awaitTermination(1)
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    print("PROGRESS", query.lastProgress.json if query.lastProgress else "", flush=True)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
