"""The operator of functions over batches of columns; rows are converted to columns for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock._engine.operators.base import NOTHING
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columnar.columnar_operator import ColumnarOperator
from penstock._engine.operators.columnar.frames import Frames
from penstock._engine.operators.columnar.record_columns import DeclaredColumns
from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.functions.stateless import FunctionOperator
from penstock.common.columns import RecordLayout, check_columns
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.operators.base import Output
    from penstock._engine.operators.batch import Watermarks
    from penstock.common.typeinfo import TypeInformation


class MapBatchesOperator(ColumnarOperator, FunctionOperator):
    """Calls a function with each batch.

    The watermarks of a batch are emitted after its results, because a function may reorder the rows.

    Args:
        function: Takes and returns batches.
        batch_format: The form of batches that it takes, see `frames`.
        input_type: The declared type of the records before it, None without one.
        output_type: The declared type of the rows that it returns.
    """

    #: The method of function objects.
    method: ClassVar[str] = "map"

    def __init__(
        self,
        function: Any,
        batch_format: str,
        input_type: TypeInformation | None,
        output_type: TypeInformation | None,
    ) -> None:
        super().__init__(function, self.method)
        self.given = DeclaredColumns.of(input_type)
        self._declared = DeclaredColumns.of(output_type)
        self.layout = RecordLayout.DICTS if self._declared is None else self._declared.layout
        types = {} if self._declared is None else dict(zip(self._declared.names, self._declared.types, strict=True))
        self.frames = Frames(batch_format, types)

    def process_columns(self, batch: ColumnBatch, input_index: int) -> Iterable[Output]:
        if not len(batch):
            return _watermark(batch.watermarks)
        return self._mapped(batch)

    def _mapped(self, batch: ColumnBatch) -> Iterator[Output]:
        results = map(self.held, self.frames.taken(self.call(self.frames.given(batch.columns))))
        if batch.timestamps is None:
            for columns in results:
                yield None, ColumnBatch(columns, self.layout)
        else:
            yield from self._stamped(batch, list(results))
        yield from _watermark(batch.watermarks)

    def _stamped(self, batch: ColumnBatch, results: list[Any]) -> Iterator[Output]:
        """Yield results with the timestamps of the batch.

        Raises:
            BatchColumnsError: They have another number of rows.
        """
        count = sum(columns.num_rows for columns in results)
        if count != len(batch):
            reason = (
                f"the function made {count} rows of {len(batch)} records that have timestamps, so it is not known "
                "which row has which timestamp; return as many rows, or call map_batches before timestamps are assigned"
            )
            names = tuple(results[0].schema.names) if results else ()
            raise BatchColumnsError(names, f"in {self.context.operator_name!r}, {reason}")
        start = 0
        for columns in results:
            yield None, ColumnBatch(columns, self.layout, batch.timestamps.slice(start, columns.num_rows))
            start += columns.num_rows

    def held(self, columns: Any) -> Any:
        """Return a result of the function as the declared columns."""
        try:
            if self._declared is not None:
                return self._declared.fitted(columns)
            check_columns(columns, self.layout)
        except BatchColumnsError as error:
            reason = f"{self.context.operator_name!r} returned it, and {error.reason}"
            raise BatchColumnsError(error.columns, reason) from error
        return columns


def _watermark(watermarks: Watermarks) -> Iterable[Output]:
    """Return a batch of the last watermark, if there is one."""
    return ((None, RowBatch([], None, [(0, watermarks[-1][1])])),) if watermarks else NOTHING
