"""Functions of a stream over many records at once: batches of columns, and all records of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from penstock._api.connectors.topology import CheckpointFunction
from penstock._api.functions.basic import MapFunction
from penstock._builders.checks import check_format, check_function, check_type
from penstock._engine.operators.columnar.record_columns import DeclaredColumns
from penstock._engine.operators.factories.functions import MapBatchesFactory
from penstock._engine.operators.factories.sources_and_sinks import CheckpointProcessFactory
from penstock.common.arguments import instance

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._builders.checks import BatchFormat
    from penstock._builders.stream import DataStream
    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")
U = TypeVar("U")


class BatchFunctions(Generic[T]):
    """Functions over batches of columns, and over the records of checkpoints."""

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
        factory = MapBatchesFactory(func, batch_format, stream._declared_type(), output_type)
        declared = DeclaredColumns.of(output_type)
        conform = declared is None or not declared.are_complete
        return stream._transform(factory, "MapBatches", output_type, conform=conform)

    def process_checkpoint(
        self, func: CheckpointFunction[T, U], output_type: TypeInformation | None = None
    ) -> DataStream[U]:
        """Call a function with all records that come to a subtask in a checkpoint, at the checkpoint's end; ours.

        The records of a checkpoint are kept in memory, so this is for few ones, such as a sink's committables.

        Args:
            func: The function.
            output_type: The type of what it returns; records are converted to it.

        Raises:
            TypeError: The function is no CheckpointFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        instance("func", func, CheckpointFunction)
        return cast("DataStream[T]", self)._transform(CheckpointProcessFactory(func), "Checkpoint", output_type)
