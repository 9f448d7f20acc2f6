"""Two queries of Nexmark for Structured Streaming: ``python spark_queries.py PLACE - q18=EVENTS q19=EVENTS``.

Spark reads and decodes the lines in the JVM; `transformWithState` keeps the state of each key from Python, in RocksDB
with changelog checkpoints. All files are there at the start, so there is one batch (`availableNow`): the quickest way.
"""

import sys
import traceback
from bisect import insort
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, concat_ws, from_json
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

STORE = "spark.sql.streaming.stateStore"
NAMES = ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")
TEXTS = {"channel", "url", "extra"}
BID = StructType([StructField(name, StringType() if name in TEXTS else LongType()) for name in NAMES])
RANKED = StructType([*BID.fields, StructField("rank", LongType())])
TOP = 10


class Last(StatefulProcessor):
    """Keeps the last bid of a key, and emits each that is later than the one before."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.last = handle.getValueState("last", BID)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        kept = self.last.get()
        last = None if kept is None else Row(*NAMES)(*kept)
        for row in rows:
            if last is None or row.dateTime > last.dateTime:
                last = row
                yield row
        self.last.update(tuple(last or ()))

    def close(self) -> None:
        pass


class Best(StatefulProcessor):
    """Keeps the best bids of a key; those that a new one moves get new ranks."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.best = handle.getListState("best", BID)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        best = [tuple(kept) for kept in self.best.get()]
        for row in rows:
            bid = tuple(row)
            insort(best, bid, key=lambda one: (-one[2], one[5]))
            del best[TOP:]
            first = next((place for place, one in enumerate(best) if one is bid), None)
            if first is not None:
                for place in range(first, len(best)):
                    yield Row(*RANKED.names)(*best[place], place + 1)
        self.best.put(best)

    def close(self) -> None:
        pass


def q18(bids: DataFrame) -> DataFrame:
    return bids.groupBy("bidder", "auction").transformWithState(Last(), BID, "Append", "None")


def q19(bids: DataFrame) -> DataFrame:
    return bids.groupBy("auction").transformWithState(Best(), RANKED, "Append", "None")


QUERIES = {"q18": q18, "q19": q19}


def session() -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config(f"{STORE}.rocksdb.changelogCheckpointing.enabled", "true")
        .config(f"{STORE}.providerClass", "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
        .getOrCreate()
    )


def run(spark: SparkSession, query: str, folder: str, place: str) -> None:
    event = StructType([StructField("bid", BID)])
    lines = spark.readStream.text(f"{folder}/events")
    bids = (
        lines.select(from_json("value", event).alias("event")).where(col("event.bid").isNotNull()).select("event.bid.*")
    )
    rows = QUERIES[query](bids) if query in QUERIES else bids.select("auction", "bidder", "price", "dateTime", "extra")
    (
        rows.select(concat_ws(",", *(col(name).cast("string") for name in rows.columns)).alias("value"))
        .writeStream.format("text")
        .option("path", f"{place}/out")
        .option("checkpointLocation", f"{place}/checkpoints")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def main(place: str, *tasks: str) -> None:
    spark = session()
    for number, task in enumerate(tasks):
        query, _, folder = task.partition("=")
        try:
            run(spark, query, folder, f"{place}/{number}")
            print("DONE", number, flush=True)
        except Exception:  # noqa: BLE001 - the other queries go on
            traceback.print_exc()
            print("FAILED", number, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(str(Path(sys.argv[1])), *sys.argv[3:])
