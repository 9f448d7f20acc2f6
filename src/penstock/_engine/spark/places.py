"""Spark plans whose tasks run on chosen hosts.

Spark places the task of a shuffled partition anywhere. A union with a partition that has no rows, but a preferred
host, places it there: of several children that are partitioned alike, Spark reads the same partitions in one task, on
the host that most of them prefer. The task waits for that host as `spark.locality.wait` says, and runs elsewhere if the
host is gone.

Spark knows only partitions by hash to be alike. So rows name their partition by a number that has its hash.
"""

from __future__ import annotations

from array import array
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock._engine.plan.homes import ANYWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

#: A host outweighs those that have the rows of a partition, of which Spark may prefer up to five.
_WEIGHT: Final = 6
_SEED: Final = 42
_WORD: Final = 0xFFFFFFFF


def first_level(session: SparkSession, hosts: Sequence[str]) -> DataFrame:
    """Return a frame without rows that has a partition on each of some hosts."""
    schema = cast("Any", session.range(0))._jdf.schema()
    java: Any = session._jsparkSession
    return DataFrame(java.internalCreateDataFrame(_partitions(session, hosts), schema, False), session)


def next_level(frame: DataFrame, hosts: Sequence[str]) -> DataFrame:
    """Shuffle the rows of a frame, whose column `slot` has numbers of `numbers`, to partitions on some hosts."""
    session = frame.sparkSession
    shuffled: Any = frame.repartition(len(hosts), "slot")
    sql = cast("Any", session.sparkContext._jvm).org.apache.spark.sql
    rdds = getattr(getattr(sql.execution, "LogicalRDD$"), "MODULE$")
    others = rdds.fromDataset(_partitions(session, hosts), shuffled._jdf, *_flags(rdds))
    return shuffled.union(DataFrame(sql.classic.Dataset.ofRows(session._jsparkSession, others), session))


def _flags(rdds: Any) -> list[bool]:
    """Return the flags that `fromDataset` takes, all off: whether it is a stream; since 4.2 also of a checkpoint."""
    (method,) = (one for one in rdds.getClass().getMethods() if one.getName() == "fromDataset")
    return [False] * (method.getParameterCount() - 2)


def _partitions(session: SparkSession, hosts: Sequence[str]) -> Any:
    """Return an RDD without rows that has a partition on each of some hosts."""
    jvm: Any = session.sparkContext._jvm
    python = jvm.org.apache.spark.api.python.PythonUtils
    preferred = {slot: python.toSeq([host] * _WEIGHT) for slot, host in enumerate(hosts) if host != ANYWHERE}
    kind = jvm.scala.reflect.ClassTag.AnyRef()
    context = cast("Any", session.sparkContext)._jsc.sc()
    rdd = jvm.org.apache.spark.rdd.ParallelCollectionRDD
    return rdd(context, python.toSeq([]), len(hosts), python.toScalaMap(preferred), kind)


def towards(
    numbers: tuple[int, ...], batches: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a task that names partitions by their numbers where another names slots.

    Args:
        numbers: Those of the next level.
        batches: The other task.
    """
    return partial(_numbered, numbers, batches)


def _numbered(
    numbers: tuple[int, ...],
    task: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in task(batches):
        slots: list[int] = cast("Any", batch.column(0)).to_pylist()
        column = pa.py_buffer(array("i", map(numbers.__getitem__, slots)))
        first = pa.Array.from_buffers(pa.int32(), len(slots), [None, column])
        yield cast("Any", pa.RecordBatch).from_arrays([first, *cast("Any", batch).columns[1:]], batch.schema.names)


@cache
def numbers(width: int) -> tuple[int, ...]:
    """Return for each of a number of partitions the smallest integer that Spark puts there.

    Example:
        >>> numbers(4)
        (12, 6, 2, 0)
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < width:
        found.setdefault(_murmur(number) % width, number)
        number += 1
    return tuple(found[partition] for partition in range(width))


def _murmur(number: int) -> int:
    """Return Spark's hash of an integer.

    Source: org.apache.spark.unsafe.hash.Murmur3_x86_32.hashInt.
    """
    mixed = _rotated(number * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    word = _rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _WORD
    word ^= 4  # the length of an integer in bytes
    word = (word ^ word >> 16) * 0x85EBCA6B & _WORD
    word = (word ^ word >> 13) * 0xC2B2AE35 & _WORD
    word ^= word >> 16
    return word - (word >> 31 << 32)


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD
