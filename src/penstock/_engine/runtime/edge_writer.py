"""The sending end of an edge: routes a subtask's records, sends buffered records as rows, and closes its channels."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from operator import mul
from typing import TYPE_CHECKING, Final

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.opened import OpenedFunctions
from penstock._engine.protocol.control import UNKNOWN, ChannelStatus
from penstock._engine.protocol.row_sums import MODULUS, row_weight
from penstock._engine.protocol.rows import (
    MAX_PAYLOAD_BYTES,
    MAX_WATERMARK,
    MIN_WATERMARK,
    PayloadKind,
    channel_number,
    subtask_target,
)
from penstock._engine.runtime.blocks import cut, encode_batch, fragments
from penstock._engine.runtime.failures import OperatorError
from penstock._engine.runtime.routing import OutputBuffer, make_router
from penstock._engine.runtime.row_buffer import ExchangeRow
from penstock.common.interrupts import is_interrupt

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from penstock._api.runtime_context import RuntimeContext
    from penstock._engine.graph.job_graph import JobEdge
    from penstock._engine.operators.batch import Batch
    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.protocol.control import ChannelUpdate
    from penstock._engine.runtime.row_buffer import RowTaker

#: Records buffered for one receiver before they become a block: until their size is known, and at most. More records
#: would leave the processor's cache before they are read again: with 8,192, a windowed job took 1.4 times as long.
_FIRST_BLOCK_RECORDS: Final = 512
_BLOCK_RECORDS: Final = 2048
#: The same for columns, which are read without a copy: each block has a schema, so larger blocks cost less.
_COLUMN_RECORDS: Final = 1 << 16
_COLUMN_BYTES: Final = 1 << 18
#: A batch of columns with fewer records per watermark would be cut into small pieces: it is sent as rows.
_RECORDS_PER_WATERMARK: Final = 64


class EdgeWriter:
    """One edge out of one subtask."""

    def __init__(self, plan: ExecutionPlan, edge: JobEdge, sender: int) -> None:
        self.edge = edge
        self.channel = channel_number(edge.id, sender)
        self.is_wide = plan.is_wide(edge)
        #: Whether its receivers need the sender's reading time in each epoch.
        self.is_timed = False
        #: Whether operators before it may have records that they send at the end of an epoch.
        self.ends_late = False
        self.receivers = list(plan.receivers(edge, sender))
        target = plan.graph.vertices[edge.target]
        #: The operator that gets the records; it is to blame for functions that choose receivers.
        self._receiver = target.operators[0]
        self.targets = [subtask_target(edge.target, receiver) for receiver in self.receivers]
        self._weights = list(map(row_weight, self.targets))
        self._outlets = [OutputBuffer() for _ in self.receivers]
        self._router = make_router(edge, self._outlets, sender, target.parallelism, target.max_parallelism)
        self._functions = OpenedFunctions()
        self._seq = [0] * len(self.receivers)
        #: Whether the buffered rows have timestamps, or the form of the buffered columns; None for neither.
        self._form: object = None
        self._block_records = _FIRST_BLOCK_RECORDS
        self._column_records = _COLUMN_RECORDS
        #: The size of a record in the last block; before the first block, the size of the first record.
        self._record_bytes = 0.0
        #: The channel status that its receivers know, and the watermark that they know from the status or from blocks.
        self._told, self._told_watermark = UNKNOWN, MIN_WATERMARK
        self._withholds = False
        #: Whether receivers are told the status of its channels.
        self.tells = True
        self.watermark = MIN_WATERMARK
        self.records_out = 0
        self.bytes_out = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the functions that choose receivers; `close` must follow even if this fails."""
        with self._blaming():
            for function in self._router.functions:
                self._functions.open(function, runtime_context)

    def finish(self) -> None:
        """Call `finish` of the functions after the last record."""
        with self._blaming():
            self._functions.finish()

    def begin_epoch(
        self, rows: RowTaker, token: int, slots: Mapping[int, int], told: ChannelStatus | None = UNKNOWN
    ) -> None:
        """Turn to a new epoch.

        Args:
            rows: The buffer for rows.
            token: The attempt's token.
            slots: The slot of the next level for each target's rows.
            told: The status of its channels that its receivers know or expect. None in a stage, whose receivers begin
                after all senders have ended and need no status.
        """
        self.tells, told = told is not None, told or UNKNOWN
        self._told, self._told_watermark = told, told.watermark
        self._withholds = self.is_wide and not told.idle
        self._rows, self._token = rows, token
        self._slots = [slots[target] for target in self.targets]
        for outlet in self._outlets:
            outlet.take()
        self._seq = [0] * len(self.receivers)
        self._form = None
        self.records_out = self.bytes_out = 0

    @property
    def takes_columns(self) -> bool:
        """Whether it can send columns as columns; `Router.takes` decides for each batch."""
        return self._router.takes_columns

    def write(self, batch: Batch) -> None:
        """Send a batch: records to their receivers, watermarks to all receivers."""
        self.records_out += len(batch)
        if isinstance(batch, ColumnBatch):
            few = len(batch.watermarks) * _RECORDS_PER_WATERMARK <= len(batch) or len(batch.watermarks) <= 1
            if few and self._router.takes(batch):
                self._write_columns(batch)
                return
        self._write_rows(batch.rows())

    @contextmanager
    def _blaming(self) -> Generator[None]:
        """Name the receiving operator, and the record, in an error of a function that chooses receivers."""
        self._router.iterate([])
        try:
            yield
        except BaseException as error:
            if is_interrupt(error):
                raise
            has_record, record = self._router.current_record()
            chooser = self._router.chooser
            raise OperatorError(self._receiver, has_record=has_record, record=record, chooser=chooser) from error

    def _write_rows(self, batch: RowBatch) -> None:
        if batch.records:
            with self._blaming():
                self._router.check(batch.records[0], self._receiver.name)
            self._take_form(stamped=batch.timestamps is not None)
            self._record_bytes = self._record_bytes or len(encode_batch(RowBatch(batch.records[:1])))
            for outlet in self._outlets:
                outlet.expect(batch.shape)
        self._route(batch)
        self._send_full(self._block_records)

    def _route(self, batch: Batch) -> None:
        with self._blaming():
            for start, stop, watermark in batch.segments():
                if start < stop:
                    self._router.route(batch if stop - start == len(batch) else batch.run(start, stop))
                if watermark is not None:
                    self._add_watermark(watermark)

    def _write_columns(self, batch: ColumnBatch) -> None:
        if len(batch):
            self._take_form(columns=batch.form)
            self._record_bytes = batch.columns.nbytes / len(batch)
            self._column_records = max(1, min(_COLUMN_RECORDS, int(_COLUMN_BYTES / max(self._record_bytes, 1))))
        self._route(batch)
        self._send_full(self._column_records)

    def tell_idle(self, *, idle: bool) -> None:
        """Tell receivers in a pipelined epoch whether the sender is idle, where they do not know it.

        Those of a wide edge learn it from their next dispatch.
        """
        if idle == self._told.idle or self.is_wide or (idle and self.ends_late):
            return
        self.flush()
        self._told = replace(self._told, idle=idle)
        for place in range(len(self.targets)):
            self._row(place, PayloadKind.IDLE, bytes([idle]))

    def _add_watermark(self, watermark: int) -> None:
        self.watermark = max(self.watermark, watermark)
        if watermark == MAX_WATERMARK:  # the last watermark counts with the status
            return
        self._told_watermark = max(self._told_watermark, watermark)
        if self._told.idle:  # a watermark shows that the sender is not idle
            self._told = replace(self._told, idle=False)
        for outlet in self._outlets:
            outlet.add_watermark(watermark)

    def _send_full(self, records: int) -> None:
        """Send the buffers that hold enough records or watermarks for a block."""
        for place, outlet in enumerate(self._outlets):
            if len(outlet) >= records or len(outlet.watermarks) >= _BLOCK_RECORDS:
                self._send(place)

    def _take_form(self, *, stamped: bool = False, columns: object = None) -> None:
        """Prepare all outlets for rows with or without timestamps, or for columns of one form."""
        form = stamped if columns is None else columns
        if self._form == form:
            return
        self.flush()
        self._form = form
        for outlet in self._outlets:
            outlet.timestamps = [] if form is True else None

    def flush(self) -> None:
        """Send all buffered records."""
        for place in range(len(self._outlets)):
            self._send(place)

    def _send(self, place: int) -> None:
        outlet = self._outlets[place]
        count = len(outlet)
        if not count and (not outlet.watermarks or self._withholds):
            # Receivers of a wide edge that get no record learn the watermark from their next dispatch.
            outlet.watermarks.clear()
            return
        batch = outlet.take()
        if self._form is True:
            outlet.timestamps = []
        before = self.bytes_out
        for payload in cut(batch):
            *head, last = fragments(payload)
            for part in head:
                self._row(place, PayloadKind.FRAGMENT, part)
            self._row(place, PayloadKind.DATA, last)
        if count:
            self._record_bytes = (self.bytes_out - before) / count
            self._block_records = max(1, min(_BLOCK_RECORDS, int(MAX_PAYLOAD_BYTES / self._record_bytes)))

    def _row(self, place: int, kind: PayloadKind, payload: bytes) -> None:
        seq = self._seq[place]
        self._rows.add(
            ExchangeRow(self._slots[place], self.targets[place], self.channel, seq, self._token, kind, payload)
        )
        self._seq[place] = seq + 1
        self.bytes_out += len(payload)

    @property
    def bytes_taken(self) -> int:
        """Bytes of this epoch so far: sent rows, and buffered records at the size of the records sent last."""
        return self.bytes_out + int(sum(len(outlet) for outlet in self._outlets) * self._record_bytes)

    def has_update(self, status: ChannelStatus) -> bool:
        """Return whether a status has to be sent, because receivers neither know nor expect it.

        The receivers of a wide edge learn from their next dispatch that a sender has become idle, and how long it could
        have read.
        """
        if self.is_timed and not self.is_wide:
            return True
        if status.ended or self._told.ended:
            return status.ended != self._told.ended
        if status.watermark != self._told_watermark:
            return True
        return status.idle != self._told.idle and not (status.idle and self.is_wide)

    def update(self, status: ChannelStatus) -> ChannelUpdate:
        """Return the part of a status that has to be sent."""
        is_known = status.ended or status.watermark == self._told_watermark
        return None if is_known else status.watermark, status.idle, status.ended

    def rows_sent(self, *, closed: bool) -> int:
        """Return the sum over the rows that were sent (see `row_sums`).

        Args:
            closed: Whether the status was sent, which is one more row for each receiver.
        """
        counts = (count + 1 for count in self._seq) if closed else self._seq
        return sum(map(mul, counts, self._weights)) % MODULUS

    def close(self) -> None:
        """Close the functions that choose receivers."""
        with self._blaming():
            self._functions.close()

    def status(self, *, idle: bool, ended: bool) -> ChannelStatus:
        """Return the status of the edge's channels at the end of an epoch."""
        return ChannelStatus(self.watermark, idle and not ended, ended)
