"""Spark DataFrames that Python functions read: each part in a task of its own, as Arrow batches.

They use the program's session, whose settings are not changed.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.pandas.types import from_arrow_schema

from penstock._engine.graph.pickling import main_classes
from penstock._engine.spark.shipping import runs_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def frame_of_parts(
    session: SparkSession, parts: Sequence[Callable[[], Iterable[pa.RecordBatch]]], schema: pa.Schema
) -> DataFrame:
    """Return a DataFrame of all parts, which are read when it is computed.

    Args:
        session: The program's session.
        parts: Functions that each return the batches of one task; they are pickled, so they should be small.
        schema: The schema of all batches.
    """
    main = main_classes()
    # Workers of another machine may have other modules by the same paths: they import what is installed there.
    folders = [str(Path(entry or ".").resolve()) for entry in sys.path] if runs_here(session) else []

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sys.path.extend(entry for entry in folders if entry not in sys.path)
        if main is not None:
            classes: dict[str, Any] = pickle.loads(main)
            vars(sys.modules["__main__"]).update(classes)
        for batch in batches:
            for number in cast("list[int]", batch.column(0).to_pylist()):
                yield from parts[number]()

    return session.range(0, len(parts), 1, len(parts)).mapInArrow(read, from_arrow_schema(schema))
