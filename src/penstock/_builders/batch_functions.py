"""Functions and aggregates of a stream over batches of columns."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar, cast

from penstock._api.functions.basic import MapFunction
from penstock._api.functions.field_key import FieldKey
from penstock._builders.checks import check_function, check_type
from penstock._engine.graph.job_graph import OperatorKind, PartitionerKind
from penstock._engine.graph.pickling import dumps_members
from penstock._engine.graph.stream_graph import Partitioning
from penstock._engine.operators.column_aggregates import KEY, PARTS, ColumnAggregates
from penstock._engine.operators.record_columns import DeclaredColumns
from penstock.common.typeinfo import RowTypeInfo, Types
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._builders.stream import DataStream, KeyedStream
    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")

BatchFormat: TypeAlias = Literal["arrow", "pandas", "polars"]
_FORMATS: Final = ("arrow", "pandas", "polars")


class BatchFunctions(Generic[T]):
    """Functions over batches of columns."""

    def map_batches(
        self,
        func: MapFunction[Any, Any] | Callable[[Any], Any],
        output_type: TypeInformation | None = None,
        batch_format: BatchFormat = "arrow",
    ) -> DataStream[Any]:
        """Make columns out of batches of columns, without a Python object for each record; ours.

        The input may be columns, such as those of Parquet files, or records, which become columns by the declared type
        of their stream or by their values. A following function of records gets dicts, or records of the output type.
        If records have timestamps, a result row has the timestamp of the input row at the same position. Watermarks
        follow the results of their batch.

        Args:
            func: Takes a ``pyarrow.RecordBatch`` or a data frame, and returns a batch, a table or a data frame; several
                of them as a list or by ``yield``; or None for no rows. Use a MapFunction for a function with resources
                to open and close.
            output_type: The type of the rows; a row type has the names and types of the columns. A batch with other
                columns ends the job.
            batch_format: The form of the function's input: "arrow", "pandas" or "polars".

        Raises:
            TypeError: The function is neither a MapFunction nor a callable.
            ValueError: The format is unknown.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
            UnsupportedOperationError: The package of the format is not installed.

        Example:
            >>> import pyarrow.compute as pc
            >>> from penstock.datastream import StreamExecutionEnvironment
            >>> env = StreamExecutionEnvironment.get_execution_environment()
            >>> orders = env.from_collection([{"price": 2, "count": 3}])
            >>> orders.map_batches(lambda b: b.append_column("sum", pc.multiply(b["price"], b["count"]))).get_name()
            'MapBatches'
        """
        check_function("func", func, MapFunction, may_yield=True)
        check_type("output_type", output_type)
        check_format("map_batches", batch_format)
        stream = cast("DataStream[T]", self)
        members = {
            "function": func,
            "batch_format": batch_format,
            "input_type": stream._declared_type(),
            "output_type": output_type,
        }
        declared = DeclaredColumns.of(output_type)
        conform = declared is None or not declared.are_complete
        return stream._transform(OperatorKind.MAP_BATCHES, "MapBatches", members, output_type, conform=conform)


def check_format(method: str, batch_format: str) -> None:
    """Raise unless a method can give its function batches in a format.

    Raises:
        ValueError: The format is unknown.
        UnsupportedOperationError: Its package is not installed.
    """
    if batch_format not in _FORMATS:
        msg = f"batch_format must be one of {', '.join(_FORMATS)}, not {batch_format!r}."
        raise ValueError(msg)
    if batch_format == "polars" and find_spec("polars") is None:
        operation = f'{method}(..., batch_format="polars")'
        raise UnsupportedOperationError(operation, "polars is not installed; install it where the job runs, too")


class KeyedBatchAggregates(Generic[T]):
    """Aggregates of columns by key."""

    def aggregate_batches(self, aggregates: Mapping[str, str | Sequence[str]]) -> DataStream[Any]:
        """Aggregate columns by key, without a Python object for each record; ours.

        In streaming mode, the end of each epoch emits the current totals of all keys that the epoch has changed; in
        batch mode each key has one result. Senders aggregate records before the shuffle as well. Nulls are ignored, as
        in SQL. A result has the key's column and one column for each aggregate, such as ``price_sum``; its timestamp is
        that of the key's newest record in the epoch.

        Args:
            aggregates: By column: "sum", "min", "max", "count" or "mean", or a list of them.

        Raises:
            ValueError: There is no such aggregate, or none at all, or a result is named as the key is.
            UnsupportedOperationError: The stream is not keyed by the name of a column, or a column is missing from its
                declared type or has an unsupported type.

        Example:
            >>> from penstock.datastream import StreamExecutionEnvironment
            >>> env = StreamExecutionEnvironment.get_execution_environment()
            >>> orders = env.from_collection([{"item": "tea", "price": 2}, {"item": "tea", "price": 3}])
            >>> orders.key_by("item").aggregate_batches({"price": ["sum", "max"]}).get_name()
            'Aggregate'
        """
        keyed = cast("KeyedStream[T, Any]", self)
        wanted = column_aggregates(keyed, aggregates)
        members = {"aggregates": wanted, "input_type": keyed._declared_type()}
        by_key = Partitioning(PartitionerKind.HASH, dumps_members("KeyBy", {"key_selector": FieldKey(KEY)}))
        attached = keyed._pipeline.attached
        edges = tuple(
            replace(attached(OperatorKind.COLUMN_PARTIALS, "partial results", members, edge), partitioning=by_key)
            for edge in keyed._edges
        )
        node = keyed._pipeline.add_operator(OperatorKind.COLUMN_TOTALS, "Aggregate", members, edges)
        return keyed._output_of(node, aggregated_type(keyed._declared_type(), wanted), conform=False)


def column_aggregates(
    keyed: KeyedStream[Any, Any], aggregates: Mapping[str, str | Sequence[str]], between: Sequence[str] = ()
) -> ColumnAggregates:
    """Return the aggregates that ``aggregate_batches`` was called with.

    Args:
        keyed: The stream.
        aggregates: As given.
        between: Columns between the key and the aggregates.

    Raises:
        ValueError: There is no such aggregate, or none at all, or a result is named as the key is.
        UnsupportedOperationError: The stream is not keyed by the name of a column.
    """
    selector = keyed._key_selector
    if not isinstance(selector, FieldKey):
        reason = 'it aggregates by a column; name it: key_by("column").aggregate_batches(...)'
        raise UnsupportedOperationError("aggregate_batches() by a function", reason)
    pairs = [
        (column, function)
        for column, functions in aggregates.items()
        for function in ([functions] if isinstance(functions, str) else functions)
    ]
    unknown = next((function for _, function in pairs if function not in PARTS), None)
    if unknown is not None or not pairs:
        found = "none" if unknown is None else repr(unknown)
        msg = f"The aggregates of a column are {', '.join(PARTS)}; got {found}."
        raise ValueError(msg)
    made = ColumnAggregates(selector.field, list(dict.fromkeys(pairs)))
    if made.key in (*between, *made.names):
        msg = f"The results have a column {made.key!r}, as the key is named; give the key another name."
        raise ValueError(msg)
    return made


def aggregated_type(
    type_info: TypeInformation | None, aggregates: ColumnAggregates, between: Sequence[str] = ()
) -> TypeInformation | None:
    """Return the type of the results of aggregates, None where the columns are not declared.

    Args:
        type_info: The type of the records.
        aggregates: The aggregates.
        between: Columns of whole numbers between the key and the aggregates.

    Raises:
        UnsupportedOperationError: The type lacks a column, or a column cannot be aggregated in that way.
    """
    if not isinstance(type_info, RowTypeInfo):
        return None
    types = dict(zip(type_info.get_field_names(), type_info.get_field_types(), strict=True))
    missing = next((name for name in (aggregates.key, *dict(aggregates.parts)) if name not in types), None)
    if missing is not None:
        operation = f"aggregate_batches() of the column {missing!r}"
        raise UnsupportedOperationError(operation, f"the records are declared to have {', '.join(types)}")
    results: list[TypeInformation] = []
    for function, places in aggregates.places:
        column, _ = aggregates.parts[places[0]]
        results.append(_result_type(function, column, types[column]))
    names = [aggregates.key, *between, *aggregates.names]
    return Types.ROW_NAMED(names, [types[aggregates.key], *[Types.LONG()] * len(between), *results])


def _result_type(function: str, column: str, type_info: TypeInformation) -> TypeInformation:
    if function == "count":
        return Types.LONG()
    if function in {"min", "max"}:
        return type_info
    if type_info in (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BOOLEAN()):
        return Types.LONG() if function == "sum" else Types.DOUBLE()
    if type_info in (Types.FLOAT(), Types.DOUBLE()):
        return Types.DOUBLE()
    if type_info == Types.BIG_DEC():
        return Types.BIG_DEC() if function == "sum" else Types.DOUBLE()
    operation = f"aggregate_batches() with {function!r} of the column {column!r}"
    raise UnsupportedOperationError(operation, f"it is declared as {type_info!r}, which is no number")
