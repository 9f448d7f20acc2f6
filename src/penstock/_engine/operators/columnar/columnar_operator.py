"""The base of operators that work on columns: records are made columns for them."""

from __future__ import annotations

from abc import abstractmethod
from itertools import chain
from typing import TYPE_CHECKING

from penstock._engine.operators.base import Operator
from penstock._engine.operators.columnar.record_columns import DeclaredColumns, column_batches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.operators.base import Output
    from penstock._engine.operators.batch import RowBatch
    from penstock._engine.operators.columns import ColumnBatch


class ColumnarOperator(Operator):
    """Works on columns; the first of the bases of an operator, of which others may work on rows."""

    takes_columns = True
    #: The declared columns of the input; None without any.
    given: DeclaredColumns | None = None

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        batches = column_batches(batch, self.given)
        return chain.from_iterable(self.process_columns(columns, input_index) for columns in batches)

    @abstractmethod
    def process_columns(self, batch: ColumnBatch, input_index: int) -> Iterable[Output]:
        """Process one batch of columns; one without records has watermarks, and no columns."""
