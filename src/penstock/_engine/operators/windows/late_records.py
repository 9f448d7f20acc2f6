"""Counts dropped late records, an intended loss, and logs the first one.

The number is an accumulator, so it belongs to the checkpoint: each record counts once, whatever was restarted.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.metadata import LATE_RECORDS
from penstock.common.accumulators import IntCounter
from penstock.common.user_values import short_repr

if TYPE_CHECKING:
    from penstock._engine.operators.base import OperatorContext
    from penstock._engine.operators.batch import Batch
    from penstock._engine.operators.side_outputs import SideOutputs

_log = logging.getLogger("penstock")

#: The metric, as Flink calls it.
_METRIC: Final = "numLateRecordsDropped"

_LATE: Final = (
    "Dropped the late record %s: its timestamp is %d, and the watermark is %d. Further late records are counted as %s "
    "and not logged; %s"
)
#: About a record that is not late: no watermark could end its window, and so its result would never come.
_BEYOND: Final = (
    "Dropped the record %s: its timestamp is %d, and its window would end after the last possible time. More records "
    "that are dropped are counted as %s, as in Flink, and not logged. See whether the timestamp is in milliseconds."
)
_REMEDY: Final = "side_output_late_data() keeps them, allowed_lateness() waits for them."


class LateRecords:
    """The late records of one operator subtask.

    Args:
        context: Of the operator.
        remedy: What a program can do, for the log.
    """

    def __init__(self, context: OperatorContext, remedy: str = _REMEDY) -> None:
        self._remedy = remedy
        self._accumulators = context.accumulators
        self._metric = context.metrics.counter(_METRIC)
        self._is_first = True

    def side_output_late(self, batch: Batch, tag: str | None, watermark: int, out: SideOutputs) -> None:
        """Emit late records to a side output, or drop them.

        Args:
            batch: The records.
            tag: The id of the side output; None drops them.
            watermark: The operator's watermark.
            out: Has the side output.
        """
        if not len(batch):
            return
        if tag is None:
            self._drop(batch, watermark)
            return
        rows, late = batch.rows(), out.side(tag)
        late.records.extend(rows.records)
        late.timestamps.extend(rows.stamps())

    def _drop(self, batch: Batch, watermark: int) -> None:
        """Count dropped records."""
        self._metric.inc(len(batch))
        self._accumulators.get_or_add(LATE_RECORDS, IntCounter).add(len(batch))
        if not self._is_first:
            return
        self._is_first = False
        first = batch.slice(0, 1).rows()
        record, timestamp = short_repr(first.records[0]), first.stamps()[0]
        if timestamp > watermark:
            _log.warning(_BEYOND, record, timestamp, _METRIC)
        else:
            _log.warning(_LATE, record, timestamp, watermark, _METRIC, self._remedy)
