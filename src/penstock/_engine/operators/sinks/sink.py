"""The ends of a chain: sink writers, and the output of print and execute_and_collect."""

from __future__ import annotations

import logging
import pickle
from typing import TYPE_CHECKING, Any, Protocol, cast

from penstock._api.connectors.committer import HasCommittables
from penstock._api.connectors.sink import (
    CommittingSinkWriter,
    Sink,
    SinkWriter,
    StatefulSinkWriter,
    SupportsWriterState,
)
from penstock._api.connectors.topology import CommittableWithLineage
from penstock._engine.operators.base import NOTHING, EpochContext, Operator, OperatorContext, Output
from penstock._engine.operators.batch import RowBatch
from penstock._engine.protocol import cloudpickled
from penstock._engine.protocol.control import OperatorAck, decode, encode
from penstock._engine.protocol.versioned import pack, unpack
from penstock.common.columns import RecordLayout
from penstock.common.record_text import record_text
from penstock.common.redaction import hiding
from penstock.common.user_values import short_repr
from penstock.errors import FunctionResultError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.operators.batch import Batch
    from penstock._engine.operators.columns import ColumnBatch
    from penstock.common.typeinfo import TypeInformation
    from penstock.metrics.metricbase import MetricGroup


_log = hiding(logging.getLogger(__name__))


class WriterContext:
    """The context of a sink writer: `penstock.datastream.connectors.base.WriterInitContext`.

    A writer that continues keeps its context, which then shows the new epoch.
    """

    def __init__(self, context: OperatorContext, epoch: EpochContext) -> None:
        self.metric_group: MetricGroup = context.metrics
        self.job_id = context.job_id
        self.run_id = context.run_id
        self.earlier_runs = context.earlier_runs
        self.operator_uid = context.sink_uid
        self.subtask_id = context.subtask
        self.number_of_parallel_subtasks = context.parallelism
        self.attempt_number = context.job_attempt
        self.restored_checkpoint_id = epoch.completed_checkpoint or None
        self._stage = context.stage
        self.turn_to(epoch)

    def turn_to(self, epoch: EpochContext) -> None:
        """Show the epoch that begins, with the token of its attempt."""
        self.checkpoint_id = epoch.checkpoint_id
        self.for_savepoint = epoch.for_savepoint
        self.attempt_token = f"{epoch.token:016x}"
        self._epoch = epoch
        self._staged = 0

    def stage(self, data: bytes) -> str:
        """Write a file into the checkpoint storage, for the committer."""
        self._staged += 1
        return self._stage(data, self._epoch, self._staged - 1)


class WriterBatchContext:
    """The context of a batch of columns: `penstock.datastream.connectors.base.BatchContext`."""

    def __init__(self, batch: ColumnBatch) -> None:
        self.records = batch.records
        self.timestamps = batch.timestamps
        self.has_names = batch.layout in {RecordLayout.DICTS, RecordLayout.ROWS}


class SinkWriterOperator(Operator):
    """Feeds a sink's writer, which continues with the next epoch if this operator ran the last accepted one.

    Else the writer is dropped, and a new one is created from the state of that epoch (decision 31).

    Args:
        sink: The sink.
        emits_committables: Whether committables are its output, which a pre-commit topology reads (decision 54).
    """

    def __init__(self, sink: Sink[Any], *, emits_committables: bool = False) -> None:
        super().__init__()
        self.sink = sink
        self._emits_committables = emits_committables
        self.with_state: SupportsWriterState[Any, Any] | None = (
            cast("SupportsWriterState[Any, Any]", sink) if isinstance(sink, SupportsWriterState) else None
        )
        self.with_commits: HasCommittables[Any] | None = (
            cast("HasCommittables[Any]", sink) if isinstance(sink, HasCommittables) else None
        )
        self.writer: SinkWriter[Any] | None = None
        self._writer_context: WriterContext | None = None

    def begin_epoch(self, epoch: EpochContext) -> None:
        if epoch.current and self._writer_context is not None:
            self._writer_context.turn_to(epoch)
            return
        self._drop_writer()
        state = epoch.restore.state
        context = WriterContext(self.context, epoch)
        if state is not None and self.with_state is not None:
            serializer = self.with_state.get_writer_state_serializer()
            items = [serializer.deserialize(*unpack(item)) for item in decode(state, list[bytes])]
            self.writer = self.with_state.restore_writer(context, items)
        else:
            self.writer = self.sink.create_writer(context)
        self._check(self.writer)
        self._writer_context = context
        self.takes_columns = self.writer.takes_batches

    def _check(self, writer: SinkWriter[Any]) -> None:
        """Raise where the writer would never be asked for what it is for, or the sink has no use for it.

        Raises:
            FunctionResultError: The writer is not one of a sink of this kind.
        """
        commits = isinstance(writer, CommittingSinkWriter)
        if self.with_commits is not None and not commits:
            wanted = "a CommittingSinkWriter, as the sink has a committer"
        elif self.with_commits is None and commits:
            wanted = "no CommittingSinkWriter, as the sink is no SupportsCommitter and nothing would be committed"
        elif self.with_state is not None and not isinstance(writer, StatefulSinkWriter):
            wanted = "a StatefulSinkWriter, as the sink is a SupportsWriterState"
        elif self.with_state is None and isinstance(writer, StatefulSinkWriter):
            wanted = "no StatefulSinkWriter, as the sink is no SupportsWriterState and no state would be kept"
        else:
            return
        raise FunctionResultError(f"create_writer() of {type(self.sink).__name__}", "", short_repr(writer), wanted)

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        assert self.writer is not None
        if batch.records:
            self.iterate(batch.records)
            self.writer.write_all(batch.records, batch.timestamps)
        return self._watermark(batch)

    def process_columns(self, batch: ColumnBatch, input_index: int) -> Iterable[Output]:
        if not self.takes_columns:
            return self.process(batch.rows(), input_index)
        assert self.writer is not None
        if len(batch):
            self.writer.write_batch(batch.columns, WriterBatchContext(batch))
        return self._watermark(batch)

    def _watermark(self, batch: Batch) -> Iterable[Output]:
        if batch.watermarks and self.writer is not None:
            self.writer.write_watermark(batch.watermarks[-1][1])
        return NOTHING

    def prepare_snapshot(self) -> Iterable[Output]:
        return self._emitted(end_of_input=False) if self._emits_committables else NOTHING

    def finish(self) -> Iterable[Output]:
        return self._emitted(end_of_input=True) if self._emits_committables else NOTHING

    def _emitted(self, *, end_of_input: bool) -> Iterable[Output]:
        """Return the committables of this epoch as the output."""
        context = self._writer_context
        assert context is not None
        prepared = self._prepared(end_of_input=end_of_input)
        if not prepared:
            return NOTHING
        place = context.checkpoint_id, context.subtask_id
        return ((None, RowBatch([CommittableWithLineage(item, *place) for item in prepared], None)),)

    def _prepared(self, *, end_of_input: bool) -> list[Any]:
        """Flush the writer, and return its committables."""
        writer = self.writer
        assert writer is not None
        self.iterate([])
        writer.flush(end_of_input)
        if self.with_commits is None:
            return []
        return list(cast("CommittingSinkWriter[Any, Any]", writer).prepare_commit())

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        committables: tuple[bytes, ...] = ()
        if not self._emits_committables:
            committables = _packed(self.with_commits, self._prepared(end_of_input=finished))
        writer = self.writer
        state: bytes | None = None
        if self.with_state is not None:
            serializer = self.with_state.get_writer_state_serializer()
            version = serializer.get_version()
            items = cast("StatefulSinkWriter[Any, Any]", writer).snapshot_state(epoch.checkpoint_id)
            state = encode([pack(version, serializer.serialize(item)) for item in items])
        return OperatorAck(state=state, committables=committables)

    def close(self) -> None:
        self._close_writer()

    def _close_writer(self) -> None:
        writer, self.writer, self._writer_context = self.writer, None, None
        if writer is not None:
            writer.close()

    def _drop_writer(self) -> None:
        """Close an outdated writer; correctness never depends on its close()."""
        try:
            self._close_writer()
        except Exception:  # noqa: BLE001 - a function of the user's
            text = "%s (%d): a sink writer failed to close; committed and staged data are unaffected"
            _log.warning(text, self.context.operator_name, self.context.subtask, exc_info=True)


def _packed(sink: HasCommittables[Any] | None, committables: Iterable[Any]) -> tuple[bytes, ...]:
    if sink is None:
        return ()
    serializer = sink.get_committable_serializer()
    version = serializer.get_version()
    return tuple(pack(version, serializer.serialize(item)) for item in committables)


class CommittablesOperator(Operator):
    """The end of a pre-commit topology: its input is committed with the checkpoint.

    Args:
        sink: The sink, which has the serializer of committables.
    """

    def __init__(self, sink: HasCommittables[Any]) -> None:
        super().__init__()
        self._sink = sink
        self._committables: list[Any] = []

    def begin_epoch(self, epoch: EpochContext) -> None:
        self._committables = []

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        for record in self.iterate(batch.records):
            if not isinstance(record, CommittableWithLineage):
                msg = f"A pre-commit topology has to return CommittableWithLineage, not {record!r}."
                raise TypeError(msg)
            self._committables.append(cast("CommittableWithLineage[Any]", record).committable)
        return NOTHING

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        committables, self._committables = self._committables, []
        return OperatorAck(committables=_packed(self._sink, committables))


class TakesBatches(Protocol):
    """A writer that takes batches as operators have them."""

    def add(self, batch: Batch) -> None:
        """Take a batch; its records may change afterwards."""


class CacheOperator(SinkWriterOperator):
    """Passes all batches on, and hands them to the writer of a cached stream, which is `TakesBatches`."""

    takes_columns = True

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        return self._take(batch)

    def process_columns(self, batch: ColumnBatch, input_index: int) -> Iterable[Output]:
        return self._take(batch)

    def _take(self, batch: Batch) -> Iterable[Output]:
        cast("TakesBatches", self.writer).add(batch)
        return ((None, batch),)


class PassOperator(Operator):
    """Passes all batches on: a cached stream in a job that does not write it."""

    takes_columns = True

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        return ((None, batch),)

    def process_columns(self, batch: ColumnBatch, input_index: int) -> Iterable[Output]:
        return ((None, batch),)


class CollectOperator(Operator):
    """Sends records, or their text, to the program with the epoch's ack."""

    def __init__(self, type_info: TypeInformation | None, *, as_text: bool, prefix: str | None = None) -> None:
        super().__init__()
        self.type_info = type_info
        self.as_text = as_text
        self.prefix = prefix
        self.blocks: list[bytes] = []

    def begin_epoch(self, epoch: EpochContext) -> None:
        self.blocks = []

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        if batch.records:
            cursor = self.iterate(batch.records)
            if self.as_text:
                before = self._before_text()
                lines = [before + record_text(record, self.type_info) for record in cursor]
                self.blocks.append(pickle.dumps(lines))
            else:
                self.blocks.append(cloudpickled.dumps(batch.records))
        return NOTHING

    def _before_text(self) -> str:
        """Return the prefix of each line: the print's identifier and, with several subtasks, the subtask."""
        subtask = str(self.context.subtask + 1) if self.context.parallelism > 1 else ""
        parts = [part for part in (self.prefix or "", subtask) if part]
        return f"{':'.join(parts)}> " if parts else ""

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        blocks, self.blocks = self.blocks, []
        return OperatorAck(outputs=tuple(blocks))
