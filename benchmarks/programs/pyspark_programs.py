"""(a), (b) and (j) for bare PySpark 4.3: ``python pyspark_programs.py WORKLOAD RECORDS``.

A batch job: no state that survives, no checkpoints, no event time. It shows what Spark's own Python functions cost:
with data frames in (a) and (b), with an RDD in (j).
"""

import itertools
import sys
from collections.abc import Callable, Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf


def map_filter(numbers: DataFrame, records: int) -> DataFrame:
    mapper = lambda i: i * 3 + 1  # noqa: E731
    keep = lambda x: x % 10 == 0  # noqa: E731

    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            mapped = [mapper(i) for i in batch.column(0).to_pylist()]
            yield pa.record_batch({"x": pa.array([x for x in mapped if keep(x)], pa.int64())})

    return numbers.mapInArrow(run, "x long")


def keyed_reduce(numbers: DataFrame, records: int) -> DataFrame:
    keys = [f"key-{k}" for k in range(1_000)]
    last = records // 1_000
    mapper = lambda i: (keys[i * 7919 % 1_000], 1, i)  # noqa: E731
    reducer = lambda a, b: (a[0], a[1] + b[1], a[2] + b[2])  # noqa: E731
    keep = lambda r: r[1] == last  # noqa: E731
    names = ["key", "count", "sum"]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            columns = zip(*map(mapper, batch.column(0).to_pylist()), strict=True)
            yield pa.record_batch([pa.array(column) for column in columns], names)

    def rolling(table: pa.Table) -> pa.Table:
        records = zip(*(column.to_pylist() for column in table.columns), strict=True)
        kept = [r[2] for r in itertools.accumulate(records, reducer) if keep(r)]
        return pa.table({"x": pa.array(kept, pa.int64())})

    mapped = numbers.mapInArrow(run, "key string, count long, sum long")
    return mapped.groupBy("key").applyInArrow(rolling, "x long")


def word_count(spark: SparkSession, records: int) -> tuple[int, int, int]:
    words = [f"word-{k}" for k in range(10_000)]
    counted = (
        spark.sparkContext.range(0, records, numSlices=2)
        .map(lambda i: (words[i * 7919 % 10_000], 1))
        .keyBy(lambda r: r[0])
        .reduceByKey(lambda a, b: (a[0], a[1] + b[1]), 2)
        .map(lambda kr: int(kr[1][0][5:]) * kr[1][1])
    )
    return counted.aggregate(
        (0, 0, 0), lambda t, x: (t[0] + 1, t[1] + x, t[2] + x * x), lambda a, b: (a[0] + b[0], a[1] + b[1], a[2] + b[2])
    )


def tally(numbers: DataFrame) -> tuple[int, int, int]:
    x = sf.col("x").cast("decimal(38,0)")
    return numbers.agg(sf.count("x"), sf.sum(x), sf.sum((x * x).cast("decimal(38,0)"))).first()


FRAMES: dict[str, Callable[[DataFrame, int], DataFrame]] = {each.__name__: each for each in (map_filter, keyed_reduce)}


def main(workload: str, records: int) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
        .getOrCreate()
    )
    if workload == "word_count":
        row = word_count(spark, records)
    else:
        row = tally(FRAMES[workload](spark.range(0, records, 1, 2), records))
    print("RESULT", *map(int, row))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
