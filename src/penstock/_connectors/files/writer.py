"""Writes the file sink's segments.

A writer never appends to another attempt's bytes: each epoch of each part is a new segment, which ``flush`` makes
durable. The segments of an unfinished part are the writer's state until the rolling policy finishes the part. If a run
that this one does not continue has staged segments of that state, the writer begins with copies of them.
"""

from __future__ import annotations

import contextlib
import errno
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock._api.connectors.sink import CommittingSinkWriter, StatefulSinkWriter
from penstock._connectors.files.blocks import ColumnBlock, RowBlock
from penstock._connectors.files.buckets import check_buckets, folder_of
from penstock._connectors.files.opening import copy_file, filesystem_of
from penstock._connectors.files.policies import OnCheckpointRollingPolicy, PartFileInfo
from penstock._connectors.files.staging import (
    EndedWriter,
    FinishedPart,
    HeldAttempts,
    not_written,
    run_of,
    segment_name,
    sink_name,
    token_of,
)
from penstock._files.job_options import reaching_stores_by, store_options
from penstock.common.serialization import BulkWriterFactory, Encoder
from penstock.errors import BucketNameError, StagedFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import pyarrow as pa

    from penstock._api.connectors.sink import BatchContext, SinkWriterContext, WriterInitContext
    from penstock._connectors.files.blocks import Block
    from penstock._connectors.files.options import FileSinkOptions
    from penstock._connectors.files.staging import FileCommittable
    from penstock.common.serialization import BulkWriter

# The rolling policy is called before each block of this many records.
_BLOCK = 1000
# Columns for a policy that rolls at checkpoints alone: it need not be asked, which would take a record.
_COLUMNS = 1 << 20

#: The bytes that all parked files of a writer may keep in memory; above that, the largest ones become segments.
_MOST_PARKED_BYTES = 32 << 20

#: The errors of a disk that accepts no more bytes.
_OF_THE_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO})


@dataclass(frozen=True, slots=True)
class UnfinishedPart:
    """A part that continues after the checkpoint."""

    bucket_id: str
    segments: tuple[str, ...]
    size: int
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class FileWriterState:
    """The state of one writer."""

    next_number: int
    parts: tuple[UnfinishedPart, ...]


class _Segment:
    """The file of one part in this epoch."""

    def __init__(self, path: str, encoding: Encoder | BulkWriterFactory) -> None:
        self.path = path
        self._filesystem = filesystem_of(path)
        self._stream: BinaryIO = self._filesystem.create(path)
        self._encoder = encoding if isinstance(encoding, Encoder) else None
        self._bulk: BulkWriter | None = (
            encoding.create(self._stream) if isinstance(encoding, BulkWriterFactory) else None
        )
        #: The length so far while the file is not open, and the memory that it takes then.
        self._parked_at: int | None = None
        self.parked_bytes = 0

    @property
    def size(self) -> int:
        return self._stream.tell() if self._parked_at is None else self._parked_at

    def write(self, block: Block) -> None:
        try:
            if self._bulk is not None:
                block.write_to(self._bulk)
            elif self._encoder is not None and isinstance(block, RowBlock):
                self._encoder.encode_all(block.elements, self._stream)
        except OSError as error:
            if error.errno not in _OF_THE_DISK:  # of something else that an encoder opens
                raise
            raise not_written(self.path, error) from error

    def park(self) -> bool:
        """Close the file until the next record; return False if the segment has to be finished instead.

        A file of a bulk format cannot be reopened.
        """
        size = self.size
        try:
            parked = None if self._bulk is not None else self._filesystem.park(self._stream)
        except OSError as error:
            raise not_written(self.path, error) from error
        if parked is None:
            return False
        self._parked_at, self.parked_bytes = size, parked
        return True

    def unpark(self) -> None:
        """Reopen a parked file."""
        if self._parked_at is None:
            return
        try:
            self._stream = self._filesystem.unpark(self.path, self._stream, self._parked_at)
        except OSError as error:
            raise not_written(self.path, error) from error
        self._parked_at = None

    def finish(self) -> int:
        """Make the segment durable and return its length in bytes."""
        self.unpark()
        try:
            if self._bulk is not None:
                self._bulk.finish()
            size = self._stream.tell()
            self._filesystem.finish(self.path, self._stream)
        except OSError as error:
            raise not_written(self.path, error) from error
        return size

    def abandon(self) -> None:
        with contextlib.suppress(OSError):  # buffered bytes have no room; the file is deleted in any case
            self._stream.close()


class _Part:
    """A part with its segments; the last one may be open."""

    def __init__(self, state: UnfinishedPart) -> None:
        self.bucket_id, self.segments, self.finished_size = state.bucket_id, list(state.segments), state.size
        self.created_ms, self.updated_ms = state.created_ms, state.updated_ms
        self.open: _Segment | None = None

    def info(self) -> PartFileInfo:
        size = self.finished_size + (0 if self.open is None else self.open.size)
        return PartFileInfo(self.bucket_id, size, self.created_ms, self.updated_ms)

    def is_no_younger_than(self, now: int) -> None:
        """Count a part's age from now on if its times are in the future, because the clock was set back."""
        self.created_ms, self.updated_ms = min(self.created_ms, now), min(self.updated_ms, now)

    def finish_segment(self) -> None:
        if self.open is not None:
            self.finished_size += self.open.finish()
            self.segments.append(self.open.path)
            self.open = None

    def state(self) -> UnfinishedPart:
        return UnfinishedPart(
            self.bucket_id, tuple(self.segments), self.finished_size, self.created_ms, self.updated_ms
        )


def _parked_bytes(part: _Part) -> int:
    return 0 if part.open is None else part.open.parked_bytes


class FileWriter(StatefulSinkWriter[Any, FileWriterState], CommittingSinkWriter[Any, "FileCommittable"]):
    """Writes the records of one subtask into segments.

    Args:
        context: The writer's context.
        options: The options of the sink.
        states: The states of this writer, or of several after a rescale.
        clock: Returns the time in milliseconds since the epoch.
    """

    def __init__(
        self,
        context: WriterInitContext,
        options: FileSinkOptions,
        states: Collection[FileWriterState],
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._context, self._options, self._clock = context, options, clock
        self._is_bulk = isinstance(options.encoding, BulkWriterFactory)
        self.takes_batches: bool = isinstance(options.encoding, BulkWriterFactory) and options.encoding.takes_batches
        policy = type(options.rolling_policy)
        #: The policy is asked before each block of so many records; one that rolls at checkpoints alone, seldom.
        self._most = _COLUMNS if policy is OnCheckpointRollingPolicy else _BLOCK
        # New with each writer, so that no two attempts and no two sinks ever choose the same name.
        self._writer_id = uuid.uuid4().hex
        self._sink = sink_name(context.operator_uid)
        #: The length in bytes of the longest name.
        self._longest_name = max(len(self._segment_name(10**9)), len(self._part_name(10**9).encode()) + 45)
        self._next_number = max((state.next_number for state in states), default=0)
        self._segments_made = 0
        self._parts: dict[str, _Part] = {}
        #: The parts with open files, the most recently written last.
        self._open: dict[str, _Part] = {}
        #: The parts with parked files that take memory, and how much that is in all.
        self._parked: dict[str, _Part] = {}
        self._parked_bytes = 0
        self._finished: list[FinishedPart] = []
        self._ended: list[EndedWriter] = []
        #: The segments since the last snapshot, which no checkpoint names yet.
        self._unclaimed: list[str] = []
        self._checked_ms = clock()
        #: Files are deleted when the writer is closed, which may be after the epochs of the job.
        self._store_options = store_options()
        self._runs = frozenset((*context.earlier_runs, context.run_id))
        if context.checkpoint_id > (context.restored_checkpoint_id or 0) + 1:  # the ids in between are takeovers
            self._check_that_all_is_there(states)
        for part in (_Part(self._of_its_own(part)) for state in states for part in state.parts):
            # Of several writers' parts of one bucket one continues, and the others are finished.
            if part.bucket_id in self._parts:
                self._roll(part)
            else:
                self._parts[part.bucket_id] = part

    @staticmethod
    def _check_that_all_is_there(states: Collection[FileWriterState]) -> None:
        """Check that no unfinished part has been continued elsewhere since the checkpoint that the job started from."""
        for segment in (segment for state in states for part in state.parts for segment in part.segments):
            if filesystem_of(segment).size_of(segment) is None:
                raise StagedFileError(segment)

    def _of_its_own(self, part: UnfinishedPart) -> UnfinishedPart:
        """Return a part without segments of other jobs, which may publish and remove theirs at any time.

        Raises:
            StagedFileError: One of these segments is missing.
        """
        own = self._runs
        segments = (path if run_of(path) in own else self._copied(path, part.bucket_id) for path in part.segments)
        return replace(part, segments=tuple(segments))

    def _copied(self, segment: str, bucket_id: str) -> str:
        path = self._new_path(bucket_id)
        try:
            copy_file(segment, path)
        except FileNotFoundError:
            raise StagedFileError(segment) from None
        except OSError as error:
            raise not_written(path, error) from error
        return path

    def write(self, element: Any, context: SinkWriterContext) -> None:
        """Write one record."""
        self.write_all([element], [context.timestamp()])

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        """Write a block of records, each into the segment of its bucket."""
        now = self._clock()
        bucket_ids = self._options.bucket_assigner.get_bucket_ids(elements, timestamps, now)
        self._spread(bucket_ids, RowBlock(elements), now)

    def write_batch(self, batch: pa.RecordBatch, context: BatchContext) -> None:
        """Write a batch of columns, each row into the segment of its bucket."""
        stamps = None if context.timestamps is None else context.timestamps.to_pylist()
        if not context.has_names:  # the columns of the file are found by position
            self.write_all(context.records(), stamps)
            return
        assigner, now = self._options.bucket_assigner, self._clock()
        if assigner.looks_at_elements:
            bucket_ids = assigner.get_bucket_ids(context.records(), stamps, now)
        else:
            bucket_ids = assigner.get_bucket_ids([], None, now)
        self._spread(bucket_ids, ColumnBlock(batch, context.records), now)

    def _spread(self, bucket_ids: str | list[str], block: Block, now: int) -> None:
        """Write a block into one bucket, or its records into one each."""
        if isinstance(bucket_ids, str):
            self._check_buckets((bucket_ids,))
            self._write(bucket_ids, block, now)
        else:
            self._check_buckets(bucket_ids)
            by_bucket: dict[str, list[int]] = {}
            for place, bucket_id in zip(range(len(block)), bucket_ids, strict=True):
                by_bucket.setdefault(bucket_id, []).append(place)
            for bucket_id, places in by_bucket.items():
                self._write(bucket_id, block.take(places), now)
        # The interval is over, or the clock was set back.
        if not 0 <= now - self._checked_ms < self._options.bucket_check_interval_ms:
            self._roll_by_age(now)

    def _check_buckets(self, bucket_ids: Collection[str]) -> None:
        """Refuse invalid names, before any record of the block is written."""
        base = self._options.base_path
        try:
            new = set(bucket_ids).difference(self._parts)
        except TypeError:  # an unhashable value is no text either
            new = bucket_ids
        check_buckets(base, new, self._longest_name)

    def _begun(self, bucket_id: str, now: int) -> _Part:
        """Return a new part, in a folder that no other bucket has."""
        base = self._options.base_path
        collision = filesystem_of(base).case_collision(folder_of(base, bucket_id))
        if collision is not None:
            reason = f"the file system takes it for {collision}; let the bucket assigner return names that differ more"
            raise BucketNameError(base, reason, repr(bucket_id))
        return _Part(UnfinishedPart(bucket_id, (), 0, now, now))

    def _write(self, bucket_id: str, whole: Block, now: int) -> None:
        policy, most = self._options.rolling_policy, self._most if isinstance(whole, ColumnBlock) else _BLOCK
        for start in range(0, len(whole), most):
            block = whole.slice(start, start + most)
            part = self._parts.get(bucket_id)
            if part is not None and most == _BLOCK and policy.should_roll_on_event(part.info(), block.first()):
                self._roll(part)
                part = None
            if part is None:
                part = self._parts[bucket_id] = self._begun(bucket_id, now)
            self._opened(part).write(block)
            part.updated_ms = now

    def _opened(self, part: _Part) -> _Segment:
        """Return a part's open file; if too many are open, close the least recently written first."""
        if self._open.pop(part.bucket_id, None) is None:
            while len(self._open) >= self._options.max_open_buckets:
                self._park(next(iter(self._open.values())))
        self._open[part.bucket_id] = part
        self._forget_parked(part)
        if part.open is None:
            part.open = self._new_segment(part.bucket_id)
        part.open.unpark()
        return part.open

    def _park(self, part: _Part) -> None:
        del self._open[part.bucket_id]
        if part.open is None:
            return
        if part.open.park():
            if part.open.parked_bytes:
                self._parked[part.bucket_id] = part
                self._parked_bytes += part.open.parked_bytes
                self._limit_parked()
            return
        if self._is_bulk:  # a file of such a format is one segment
            self._roll(part)
            del self._parts[part.bucket_id]
        else:
            part.finish_segment()

    def _limit_parked(self) -> None:
        """Finish the segments of parked files, the largest first, until the others take little enough memory."""
        while self._parked_bytes > _MOST_PARKED_BYTES:
            part = max(self._parked.values(), key=_parked_bytes)
            self._forget_parked(part)
            part.finish_segment()

    def _forget_parked(self, part: _Part) -> None:
        if self._parked.pop(part.bucket_id, None) is not None:
            self._parked_bytes -= _parked_bytes(part)

    def _new_segment(self, bucket_id: str) -> _Segment:
        path = self._new_path(bucket_id)
        try:
            return _Segment(path, self._options.encoding)
        except OSError as error:
            raise not_written(path, error) from error

    def _new_path(self, bucket_id: str) -> str:
        name = self._segment_name(self._segments_made)
        self._segments_made += 1
        path = f"{folder_of(self._options.base_path, bucket_id)}/{name}"
        self._unclaimed.append(path)
        return path

    def _segment_name(self, number: int) -> str:
        context = self._context
        return segment_name(
            self._writer_id,
            number,
            job_id=context.job_id,
            run_id=context.run_id,
            sink=self._sink,
            checkpoint_id=context.checkpoint_id,
            token=context.attempt_token,
        )

    def _part_name(self, number: int) -> str:
        config = self._options.file_config
        return f"{config.part_prefix}-{self._writer_id}-{number}{config.part_suffix}"

    def _roll(self, part: _Part) -> None:
        self._forget_parked(part)
        part.finish_segment()
        self._open.pop(part.bucket_id, None)
        name = self._part_name(self._next_number)
        self._next_number += 1
        target = f"{folder_of(self._options.base_path, part.bucket_id)}/{name}"
        self._finished.append(FinishedPart(target, tuple(part.segments), part.finished_size))

    def _roll_by_age(self, now: int) -> None:
        self._checked_ms = now
        for part in self._parts.values():
            part.is_no_younger_than(now)
        self._roll_if(lambda part: self._options.rolling_policy.should_roll_on_processing_time(part, now))

    def _roll_if(self, is_finished: Callable[[PartFileInfo], bool]) -> None:
        for bucket_id, part in list(self._parts.items()):
            if is_finished(part.info()):
                self._roll(part)
                del self._parts[bucket_id]

    def flush(self, end_of_input: bool) -> None:
        """Finish parts that the policy, the format, a savepoint or the end of input ends; make the others durable."""
        context = self._context
        if end_of_input and not context.for_savepoint:  # the job may start from a savepoint, and has not ended then
            self._ended = [EndedWriter(context.subtask_id, context.number_of_parallel_subtasks)]
        if end_of_input or self._is_bulk or self._context.for_savepoint:
            self._roll_if(lambda _: True)
        else:
            self._roll_by_age(self._clock())
            self._roll_if(self._options.rolling_policy.should_roll_on_checkpoint)
        for part in self._parts.values():
            self._forget_parked(part)
            part.finish_segment()
        self._open.clear()

    def prepare_commit(self) -> list[FileCommittable]:
        """Return the parts finished since the last checkpoint, and the attempts whose segments the others need."""
        finished, self._finished, self._ended = [*self._finished, *self._ended], [], []
        held = frozenset(token_of(segment) for part in self._parts.values() for segment in part.segments)
        return [*finished, HeldAttempts(held)] if held else [*finished]

    def snapshot_state(self, checkpoint_id: int) -> list[FileWriterState]:
        """Return the unfinished parts."""
        del checkpoint_id
        self._unclaimed.clear()
        return [FileWriterState(self._next_number, tuple(part.state() for part in self._parts.values()))]

    def close(self) -> None:
        """Delete the segments that no checkpoint names."""
        for part in self._parts.values():
            if part.open is not None:
                part.open.abandon()
                part.open = None
        with reaching_stores_by(self._store_options):
            for path in self._unclaimed:
                filesystem_of(path).delete(path)
        self._unclaimed.clear()
