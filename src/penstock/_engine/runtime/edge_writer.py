"""The sending end of an edge: routes a subtask's records, turns buffered records into rows, and closes its channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.opened import OpenedFunctions
from penstock._engine.protocol.control import ChannelStatus
from penstock._engine.protocol.rows import MAX_PAYLOAD_BYTES, MIN_WATERMARK, PayloadKind, channel_number, subtask_target
from penstock._engine.runtime.blocks import cut, encode_batch, fragments
from penstock._engine.runtime.routing import OutputBuffer, make_router
from penstock._engine.runtime.row_buffer import ExchangeRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._api.functions.basic import RuntimeContext
    from penstock._engine.graph.job_graph import JobEdge
    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.runtime.row_buffer import RowBuffer

#: Records that wait for one receiver before they become a block: at first, until their size is known, and at most. More
#: leave the processor's cache before they are read again: with 8,192, a windowed job took 1.4 times as long.
_FIRST_BLOCK_RECORDS: Final = 512
_BLOCK_RECORDS: Final = 2048


class EdgeWriter:
    """One edge out of one subtask."""

    def __init__(self, plan: ExecutionPlan, edge: JobEdge, sender: int) -> None:
        self.edge = edge
        self.channel = channel_number(edge.id, sender)
        self.receivers = list(plan.receivers(edge, sender))
        target = plan.graph.vertices[edge.target]
        self._targets = [subtask_target(edge.target, receiver) for receiver in self.receivers]
        self._outlets = [OutputBuffer() for _ in self.receivers]
        self._router = make_router(edge, self._outlets, sender, target.parallelism, target.max_parallelism)
        self._functions = OpenedFunctions()
        self._seq = [0] * len(self.receivers)
        self._stamped: bool | None = None
        self._block_records = _FIRST_BLOCK_RECORDS
        #: Of the block sent last; until there is one, of the first record.
        self._record_bytes = 0.0
        self.watermark = MIN_WATERMARK
        self.records_out = 0
        self.bytes_out = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the functions that say where records go; `close` is due also when this fails."""
        for function in self._router.functions:
            self._functions.open(function, runtime_context)

    def finish(self) -> None:
        """Tell the functions that nothing more is to be sent."""
        self._functions.finish()

    def begin_epoch(self, rows: RowBuffer, token: int, slots: Mapping[int, int]) -> None:
        """Turn to a new epoch.

        Args:
            rows: Where rows go.
            token: The attempt's token.
            slots: target -> slot of the next level that its rows go to.
        """
        self._rows, self._token = rows, token
        self._slots = [slots[target] for target in self._targets]
        for outlet in self._outlets:
            outlet.take()
        self._seq = [0] * len(self.receivers)
        self._stamped = None
        self.records_out = self.bytes_out = 0

    def write(self, batch: RowBatch) -> None:
        """Take a batch: records to their receivers, watermarks to all."""
        self.records_out += len(batch.records)
        if batch.records:
            self._be_stamped(batch.timestamps is not None)
            self._record_bytes = self._record_bytes or len(encode_batch(RowBatch(batch.records[:1])))
            for outlet in self._outlets:
                outlet.expect(batch.shape)
        stamps, start = batch.timestamps, 0
        for position, watermark in batch.watermarks:
            if start < position:
                self._router.route(batch.records[start:position], None if stamps is None else stamps[start:position])
            start = position
            self.watermark = max(self.watermark, watermark)
            for outlet in self._outlets:
                outlet.add_watermark(watermark)
        if start == 0 and batch.records:
            self._router.route(batch.records, stamps)
        elif start < len(batch.records):
            self._router.route(batch.records[start:], None if stamps is None else stamps[start:])
        for place, outlet in enumerate(self._outlets):
            if len(outlet.records) >= self._block_records or len(outlet.watermarks) >= _BLOCK_RECORDS:
                self._send(place)

    def _be_stamped(self, stamped: bool) -> None:
        """Make all outlets take stamped records, or records without timestamps."""
        if self._stamped is stamped:
            return
        self.flush()
        self._stamped = stamped
        for outlet in self._outlets:
            outlet.timestamps = [] if stamped else None

    def flush(self) -> None:
        """Send all buffered records."""
        for place in range(len(self._outlets)):
            self._send(place)

    def _send(self, place: int) -> None:
        outlet = self._outlets[place]
        if not outlet.records and not outlet.watermarks:
            return
        batch = outlet.take()
        if self._stamped:
            outlet.timestamps = []
        before = self.bytes_out
        for payload in cut(batch):
            *head, last = fragments(payload)
            for part in head:
                self._row(place, PayloadKind.FRAGMENT, part)
            self._row(place, PayloadKind.DATA, last)
        if batch.records:
            self._record_bytes = (self.bytes_out - before) / len(batch.records)
            self._block_records = max(1, min(_BLOCK_RECORDS, int(MAX_PAYLOAD_BYTES / self._record_bytes)))

    def _row(self, place: int, kind: PayloadKind, payload: bytes) -> None:
        seq = self._seq[place]
        self._rows.add(
            ExchangeRow(self._slots[place], self._targets[place], self.channel, seq, self._token, kind, payload)
        )
        self._seq[place] = seq + 1
        self.bytes_out += len(payload)

    @property
    def bytes_taken(self) -> int:
        """Bytes of this epoch so far: what was sent, and what waits, at the size of the records sent last."""
        return self.bytes_out + int(sum(len(outlet.records) for outlet in self._outlets) * self._record_bytes)

    def counts(self) -> list[tuple[int, int, int]]:
        """Return (channel, target, rows sent) for each receiver that rows were sent to."""
        return [(self.channel, target, count) for target, count in zip(self._targets, self._seq, strict=True) if count]

    def close(self) -> None:
        """Close what was opened."""
        self._functions.close()

    def status(self, *, idle: bool, ended: bool) -> ChannelStatus:
        """Return the status of the edge's channels at the end of an epoch."""
        return ChannelStatus(self.watermark, idle and not ended, ended)
