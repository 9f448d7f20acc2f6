"""Spark DataFrames that Python functions read: each part in a task of its own, as Arrow batches.

They use the program's session, whose settings are not changed.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import pickle
import re
import secrets
import sys
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, MapType, NullType, StringType, StructField, StructType

from penstock._engine.caches.files import read_cached
from penstock._engine.caches.frames import FILE_BYTES, parquet_bytes
from penstock._engine.graph.pickling import main_classes
from penstock._engine.spark.session import users_session
from penstock._engine.spark.shipping import runs_here
from penstock._engine.spark.words import worker_error
from penstock._engine.storage.local import LocalStorage
from penstock._engine.storage.opening import open_storage
from penstock._formats.arrow_misfits import MisfitError
from penstock._formats.arrow_widening import cast_column
from penstock._formats.frame_types import nullable
from penstock.errors import BatchColumnsError, CheckpointStorageError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark import SparkContext, StatusTracker
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

    from penstock._engine.caches.files import CachedFile
    from penstock._engine.storage.checkpoint_storage import FileStorage
    from penstock._engine.storage.run_files import RunFiles

#: The longest wait for the tasks of a cancelled writing; Spark kills their processes after two seconds.
_TASKS_END_S: Final = 8.0
_LOOK_S: Final = 0.05
#: The rows of a batch that Python reads for Spark.
_ROWS: Final = 16_384


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the columns of a DataFrame; moments without a zone have none there, which Spark 4.1 has to be told."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


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

    return session.range(0, len(parts), 1, len(parts)).mapInArrow(read, spark_schema(schema))


def columns_of(frame: object) -> pa.Schema:
    """Return the columns of a DataFrame that is handed in.

    Raises:
        TypeError: It is no DataFrame of Spark.
        UnsupportedOperationError: It is of Spark Connect, a streaming one, of a session that was stopped, or has
            columns that Arrow cannot have.
    """
    operation = "from_dataframe()"
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        reason = "Penstock runs beside a Spark driver, and this DataFrame is on a server; write it as Parquet there"
        raise UnsupportedOperationError(f"{operation} with Spark Connect", f"{reason}, and read that by a FileSource")
    if not isinstance(frame, DataFrame):
        msg = f"{operation} takes a DataFrame of Spark, not {type(frame).__module__}.{type(frame).__qualname__}."
        raise TypeError(msg)
    if frame.sparkSession.sparkContext._jsc is None:
        raise UnsupportedOperationError(operation, "the session of the DataFrame was stopped; make it in one that runs")
    if frame.isStreaming:
        raise UnsupportedOperationError(operation, "it is a streaming DataFrame, which has no end; read its source")
    if not frame.columns:
        raise UnsupportedOperationError(operation, "it has no columns; select one")
    repeated = _repeated(frame.schema)
    if repeated is not None:
        raise UnsupportedOperationError(operation, f"two columns have the name {repeated!r}; rename one of them")
    try:
        zones = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
        return nullable(cast("Any", to_arrow_schema)(_with_types(frame.schema), **zones))
    except PySparkException as error:
        reason = f"a column has a type that Arrow does not have; cast it ({error})"
        raise UnsupportedOperationError(operation, reason) from error


def _with_types(columns: StructType) -> StructType:
    """Return columns with text in place of parts without a type, which `array()` and `map()` have."""
    kinds = [(one.name, one.dataType) for one in columns.fields]
    return StructType(
        [StructField(name, kind if isinstance(kind, NullType) else _without_void(kind)) for name, kind in kinds]
    )


def _without_void(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _without_void(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_without_void(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_without_void(kind.keyType), _without_void(kind.valueType))
    return StringType() if isinstance(kind, NullType) else kind


def _repeated(kind: DataType) -> str | None:
    """Return a name that two columns have, or two fields within one of them; None without any."""
    if isinstance(kind, StructType):
        names = [name for name, count in Counter(kind.names).items() if count > 1]
        return names[0] if names else _first(_repeated(field.dataType) for field in kind.fields)
    if isinstance(kind, MapType):
        return _repeated(kind.keyType) or _repeated(kind.valueType)
    return _repeated(kind.elementType) if isinstance(kind, ArrayType) else None


def _first(names: Iterable[str | None]) -> str | None:
    return next((name for name in names if name is not None), None)


class FrameWriting:
    """Writes a DataFrame as Parquet files, by tasks, once.

    Args:
        frame: The DataFrame.
        files: Where.
    """

    def __init__(self, frame: DataFrame, files: RunFiles) -> None:
        self._frame = frame
        self._files = files
        self._group = f"penstock-{secrets.token_hex(8)}"
        self._cancelled = threading.Event()

    def run(self) -> list[str]:
        """Write it, and return the full paths in the order of its partitions.

        After an error no task of it runs any more, so what they have written can be deleted.
        """
        files, names = self._files, self._frame.columns

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return written(batches, files, names)

        context = self._frame.sparkSession.sparkContext
        # Before the flag is read: so `cancel` reaches either the flag or the group.
        context.setJobGroup(self._group, "a DataFrame is written for a job", interruptOnCancel=False)
        try:
            self._check()
            # By place: Spark finds no column whose name has a dot, or differs from another one in its case alone.
            numbered = _castable(self._frame.toDF(*map(str, range(len(names)))))
            rows = numbered.mapInArrow(write, "name string").collect()
        except PythonException as error:
            self._await_tasks(context)
            raise worker_error(error, context.pythonExec) from error
        except BaseException:
            self._await_tasks(context)
            raise
        storage = files.open()
        return [storage.full_path(row.name) for row in rows]

    def cancel(self) -> None:
        """Stop it from another thread; before it has begun, it does not begin."""
        self._cancelled.set()
        context: Any = self._frame.sparkSession.sparkContext
        # Future jobs too: a plan may run several, and may not have its next one yet.
        context._jsc.sc().cancelJobGroupAndFutureJobs(self._group)

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise CancelledError

    def _await_tasks(self, context: SparkContext) -> None:
        """Wait some seconds for tasks that outlive their job: Spark first asks their processes to end."""
        deadline = time.monotonic() + _TASKS_END_S
        with contextlib.suppress(Exception):  # Spark itself may have ended
            tracker = context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
            stages: list[int] = [stage for job in jobs if job is not None for stage in cast("Any", job).stageIds]
            while time.monotonic() < deadline and any(_runs(tracker, stage) for stage in stages):
                time.sleep(_LOOK_S)


def _castable(frame: DataFrame) -> DataFrame:
    """Return a DataFrame whose columns of arrays and maps without a type are of text."""
    if "void" not in frame.schema.simpleString():
        return frame
    return frame.select([frame[field.name].cast(field.dataType) for field in _with_types(frame.schema).fields])


def _runs(tracker: StatusTracker, stage: int) -> bool:
    info = tracker.getStageInfo(stage)
    return info is not None and info.numActiveTasks > 0


def written(batches: Iterator[pa.RecordBatch], files: RunFiles, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Write the batches of one task to files, and yield their names; a task that runs twice writes other files.

    Args:
        batches: The batches.
        files: Where.
        columns: The names of the columns in the files.

    Raises:
        CheckpointStorageError: This host does not have the directory.
    """
    storage, attempt = files.open(), secrets.token_hex(8)
    if (reason := storage.why_absent()) is not None:
        raise CheckpointStorageError(files.url, reason)
    waiting: list[Any] = []
    size = count = 0
    for batch in chain(batches, [None]):
        if batch is not None and batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if waiting and (batch is None or size >= FILE_BYTES):
            name = f"{files.prefix}-{attempt}-{count}.parquet"
            table = cast("Any", pa.Table).from_batches(waiting).rename_columns(list(columns))
            storage.put(name, parquet_bytes(table.cast(nullable(table.schema))))
            yield cast("Any", pa.RecordBatch).from_pydict({"name": [name]})
            waiting, size, count = [], 0, count + 1


def frame_of_files(
    storage: FileStorage, options: Mapping[str, str], files: Sequence[CachedFile], schema: pa.Schema
) -> DataFrame:
    """Return a DataFrame of the Parquet files of a stream.

    Spark reads them itself where they are on a disk and have the same columns; else Python does, and converts.

    Args:
        storage: Where they are.
        options: With which tasks open it.
        files: The files.
        schema: The columns of all of them.

    Raises:
        UnsupportedOperationError: Spark has no type for a column, or does not tell two of them apart.
    """
    try:
        return _frame_of(storage, options, files, schema)
    except PySparkException as error:
        reason = f"Spark cannot have such columns; convert or rename them before ({error})"
        raise UnsupportedOperationError("to_dataframe()", reason) from error


def _frame_of(
    storage: FileStorage, options: Mapping[str, str], files: Sequence[CachedFile], schema: pa.Schema
) -> DataFrame:
    session, columns = users_session(), spark_schema(schema)
    alike = all(cast("Any", pa.ipc).read_schema(pa.py_buffer(file.schema)).equals(schema) for file in files)
    if files and alike and isinstance(storage, LocalStorage):
        paths = [re.sub(r"([\\*?\[\]{}])", r"\\\1", storage.full_path(file.name)) for file in files]
        return session.read.schema(columns).parquet(*paths)
    if not files:
        return session.createDataFrame([], columns)
    parts = [partial(_rows_of, storage.url, dict(options), file, schema) for file in files]
    return frame_of_parts(session, parts, schema)


def _rows_of(url: str, options: dict[str, str], file: CachedFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, with the columns of all files."""
    data: Any = io.BytesIO(read_cached(open_storage(url, options), file))
    table: Any = pq.read_table(data)  # pyright: ignore[reportUnknownMemberType]
    there: dict[str, Any] = dict(zip(table.schema.names, table.columns, strict=True))
    arrays: Any = [
        pa.nulls(table.num_rows, column.type) if column.name not in there else _as(column, there[column.name])
        for column in cast("Any", schema)
    ]
    yield from pa.table(arrays, schema=schema).to_batches(_ROWS)


def _as(field: Any, column: Any) -> Any:
    """Return a column as one of a type that it is narrower than.

    Raises:
        BatchColumnsError: A value would be changed.
    """
    try:
        return cast_column(column, field.type)
    except MisfitError as error:
        reason = f"{field.name!r} is {column.type} here and {field.type} in other parts of the stream: {error}"
        way_out = "convert them in a map() before, or declare the type of the records"
        raise BatchColumnsError((field.name,), f"{reason}; {way_out}") from error
