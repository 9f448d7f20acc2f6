"""DataFrames: what a stream writes for one, by one subtask and by two, and what a stream of one gives through Spark."""

from __future__ import annotations

import datetime as dt
import tempfile
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tests.values.paths.columnar_files import schema_of
from tests.values.paths.columns import agree, bare
from tests.values.same import same
from tests.values.table import NotAskedError, Outcome, Path, each
from tests.values.values import FIELD

from penstock._engine.caches.frames import FrameSink
from penstock._engine.caches.frames import schema_of as frame_schema_of
from penstock._formats.arrow_misfits import misfits
from penstock._formats.arrow_values import array_of, arrow_array
from penstock._formats.frame_types import nullable, of_files, of_frames
from penstock._formats.parquet import unwritable_column
from penstock.common.columns import records_of
from penstock.errors import BatchColumnsError
from penstock.testing.connector_contexts import TestWriterContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.values.values import Value

_NAMES = count()


def _written(url: str, parts: Sequence[list[dict[str, Any]]]) -> list[Any]:
    """Write parts by a subtask each, and return the records of the DataFrame of all."""
    from penstock._engine.spark.frames import _rows_of

    files: list[Any] = []
    for part in parts:
        sink = FrameSink(url, f"writing{next(_NAMES)}", None)
        writer = sink.create_writer(TestWriterContext())
        writer.write_all(part)
        writer.flush(True)
        files += [file for block in writer.prepare_commit() for file in block.files]
        writer.close()
    schema = frame_schema_of([file.schema for file in files], None)
    return [record for file in files for batch in _rows_of(url, {}, file, schema) for record in records_of(batch)]


def _to_dataframe(value: Value) -> Callable[[list[dict[str, Any]]], list[Any]]:
    del value

    def there_and_back(records: list[dict[str, Any]]) -> list[Any]:
        with tempfile.TemporaryDirectory() as url:
            outcomes: list[Outcome] = []
            for parts in ([records], [[one] for one in records]):
                try:
                    outcomes.append(_written(url, parts))
                except Exception as error:  # noqa: BLE001 - it is judged
                    outcomes.append(error)
        alone, apart = outcomes
        if not agree(alone, apart):
            msg = f"parallelism 2 gives {apart!r:.300}, and 1 {alone!r:.300}"
            raise AssertionError(msg)
        if isinstance(alone, Exception):
            raise alone
        return alone

    return there_and_back


def _collide(kind: Any) -> bool:
    """Tell whether a struct in a type has names that Spark takes for one, as it ignores their case."""
    fields = [kind.field(place) for place in range(kind.num_fields)]
    return len({field.name.casefold() for field in fields}) < len(fields) or any(_collide(one.type) for one in fields)


def _column(value: Value) -> Any:
    """Return a column of a DataFrame with a value.

    Raises:
        NotAskedError: Spark has none.
    """
    from pyspark.errors import PySparkException

    from penstock._engine.spark.frames import spark_schema

    if {FIELD} != set().union(*value.records):
        raise NotAskedError
    found = [one[FIELD] for one in value.records]
    try:
        try:
            array = arrow_array(found, schema_of(value).field(FIELD).type)
        except NotAskedError:
            array = array_of(found)
        table = of_frames(pa.table({FIELD: array}))
        schema = nullable(of_files(table.schema))
        spark_schema(schema)
    except (BatchColumnsError, PySparkException, *misfits()) as error:
        raise NotAskedError from error
    # Spark takes times of day, and gives none back; it has no scales below 0; and DataFrames pass through Parquet.
    if any(kind in str(schema) for kind in ("time64", "time32", ", -")) or unwritable_column(schema):
        raise NotAskedError
    if _collide(schema.field(FIELD).type):
        raise NotAskedError
    return table.column(FIELD).cast(schema.field(FIELD).type).combine_chunks()


def _from_dataframe(values: Sequence[Value]) -> Iterable[Outcome]:
    """Run one job of a DataFrame with a column for each value, and one that makes a DataFrame of it again."""
    from penstock._engine.spark.frames import spark_schema
    from penstock._engine.spark.session import users_session
    from penstock.common import Configuration
    from penstock.datastream import StreamExecutionEnvironment

    outcomes: dict[int, Outcome] = {}
    columns: dict[str, Any] = {}
    for place, value in enumerate(values):
        try:
            columns[f"c{place}"] = _column(value)
        except NotAskedError as error:
            outcomes[place] = error
    most = max(map(len, columns.values()))
    padded = {name: pa.concat_arrays([one, pa.nulls(most - len(one), one.type)]) for name, one in columns.items()}
    table = pa.table({"row": range(most)} | padded)
    frame = users_session().createDataFrame(table, spark_schema(table.schema)).coalesce(1)
    with tempfile.TemporaryDirectory() as url:
        options = Configuration.from_dict({"execution.checkpointing.dir": url})
        env = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(1)
        with env.from_dataframe(frame).map(lambda row: row.as_dict()).execute_and_collect() as found:
            records = sorted(found, key=lambda one: one["row"])
        back, given = (one.toArrow().sort_by("row") for one in (env.from_dataframe(frame).to_dataframe(), frame))
    for place, value in enumerate(values):
        name = f"c{place}"
        if name in columns:
            one, other = back.column(name).to_pylist(), given.column(name).to_pylist()
            kept = [{FIELD: _in_utc(record[name])} for record in records[: len(value.records)]]
            outcomes[place] = kept if same(bare(one), bare(other)) else AssertionError(f"{one!r} is not {other!r}")
    return [outcomes[place] for place in range(len(values))]


def _in_utc(part: Any) -> Any:
    """Return a value with moments in UTC in place of the session's zone."""
    if isinstance(part, dict):
        return {name: _in_utc(one) for name, one in part.items()}
    if isinstance(part, list):
        return [_in_utc(one) for one in part]
    return part.astimezone(dt.UTC) if isinstance(part, dt.datetime) and part.tzinfo else part


PATHS = (
    Path(
        "Columns, to_dataframe",
        "Files for a DataFrame of a stream without a type, by one subtask and two.",
        each(_to_dataframe),
    ),
    Path("Columns, from_dataframe", "Columns of a Spark DataFrame, as rows.", _from_dataframe, in_every_run=False),
)
