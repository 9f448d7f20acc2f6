"""Functions of a stream over batches of columns."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar, cast

from penstock._api.functions.basic import MapFunction
from penstock._builders.checks import check_function
from penstock._engine.graph.job_graph import OperatorKind
from penstock._engine.operators.record_columns import DeclaredColumns
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._builders.stream import DataStream
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

        What stands before it may be columns, as of Parquet files, or records: these become columns by the declared type
        of their stream, else by what they are. What follows may be a function of records: it gets dicts, or what the
        output type says. Where records have timestamps, a row of the result has that of the record in its place;
        watermarks come after the results of their batch.

        Args:
            func: Gets a ``pyarrow.RecordBatch``, or a data frame, and returns a batch, a table or a data frame; several
                of them as a list or by ``yield``; or None for no rows. A function that holds something open is a
                MapFunction.
            output_type: The type of the rows: of a row type the names and types of the columns. A batch with other
                columns ends the job.
            batch_format: What the function gets: "arrow", "pandas" or "polars".

        Raises:
            TypeError: The function is neither a MapFunction nor a callable.
            ValueError: There is no such format.
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
        check_function("func", func, MapFunction)
        if batch_format not in _FORMATS:
            msg = f"batch_format must be one of {', '.join(_FORMATS)}, not {batch_format!r}."
            raise ValueError(msg)
        if batch_format == "polars" and find_spec("polars") is None:
            operation = 'map_batches(..., batch_format="polars")'
            raise UnsupportedOperationError(operation, "polars is not installed; install it where the job runs, too")
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
