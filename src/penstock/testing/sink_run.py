"""A sink without an engine: one epoch after the other, with states and committables as bytes."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from penstock._api.connectors.committer import HasCommittables, SupportsGlobalCommitter
from penstock._api.connectors.sink import (
    CommittingSinkWriter,
    StatefulSinkWriter,
    SupportsCommitter,
    SupportsWriterState,
)
from penstock.testing.connector_contexts import (
    JOB_ID,
    TestCommitRequest,
    TestCommitterContext,
    TestWriterContext,
    write_items,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock._api.connectors.committer import Committer, GlobalCommitter
    from penstock._api.connectors.serializer import SimpleVersionedSerializer
    from penstock._api.connectors.sink import Sink, SinkWriter

__all__ = ["SinkCheckpoint", "SinkRun"]

_RUN_ID = "e" * 32


@dataclass(frozen=True, slots=True)
class SinkCheckpoint:
    """A sink's part of a checkpoint, as versioned bytes: each writer's states and committables."""

    checkpoint_id: int
    states: tuple[tuple[tuple[int, bytes], ...], ...] = ()
    committables: tuple[tuple[int, bytes], ...] = ()


class SinkRun:
    """One run of a sink, from the beginning or from a checkpoint.

    Args:
        sink: The sink.
        parallelism: The number of writers.
        checkpoint: The checkpoint to continue from; the caller commits its committables.
        keep_writers: Keep each writer from epoch to epoch; else a new one is made for every epoch.
        job_id: The job.
        run_id: The run of the job.
        staged: What writers have staged with ``WriterInitContext.stage``, for runs that share it.
    """

    def __init__(
        self,
        sink: Sink[Any],
        parallelism: int = 1,
        checkpoint: SinkCheckpoint | None = None,
        keep_writers: bool = True,
        *,
        job_id: str = JOB_ID,
        run_id: str = _RUN_ID,
        staged: dict[str, bytes] | None = None,
    ) -> None:
        self._staged = {} if staged is None else staged
        self._job_id, self._run_id = job_id, run_id
        self._sink, self._parallelism, self._keep_writers = sink, parallelism, keep_writers
        self._last = checkpoint or SinkCheckpoint(0)
        self._restored_id = None if checkpoint is None else checkpoint.checkpoint_id
        self._contexts = [self._new_context(index) for index in range(parallelism)]
        self._states = self._deal_states(self._last)
        self._writers: list[SinkWriter[Any] | None] = [None] * parallelism
        self._dropped: list[SinkWriter[Any]] = []
        self._tries = 0
        self._name = uuid.uuid4().hex[:16]

    def __repr__(self) -> str:
        sink, checkpoint = type(self._sink).__name__, self._last.checkpoint_id
        return f"<SinkRun of {sink} with {self._parallelism} subtasks, behind checkpoint {checkpoint}>"

    def _new_context(self, subtask: int) -> TestWriterContext:
        return TestWriterContext(
            subtask,
            self._parallelism,
            restored_checkpoint_id=self._restored_id,
            job_id=self._job_id,
            run_id=self._run_id,
            staged=self._staged,
        )

    def _deal_states(self, checkpoint: SinkCheckpoint) -> list[list[tuple[int, bytes]]]:
        states = [state for writer in checkpoint.states for state in writer]
        return [states[index :: self._parallelism] for index in range(self._parallelism)]

    def epoch(self, *records: Sequence[Any], end_of_input: bool = False) -> SinkCheckpoint:
        """Run one epoch, and return its checkpoint, which commits nothing.

        Args:
            *records: For each writer its records; an Arrow RecordBatch among them is written as a batch of columns.
            end_of_input: Whether this is the last epoch.
        """
        self._last = self._attempt(records, end_of_input=end_of_input)
        self._states = [list(states) for states in self._last.states]
        if not self._keep_writers or end_of_input:
            self.close()
        return self._last

    def void_epoch(self, *records: Sequence[Any]) -> None:
        """Run an epoch whose checkpoint never completes: the next one continues from the one before."""
        self._attempt(records, end_of_input=False)
        self.drop_writers()

    def drop_writers(self) -> None:
        """Let the next epoch run in another process: its writers are made from the states.

        The old ones are closed at the worst moment, when the new ones have flushed their epoch.
        """
        self._dropped += [writer for writer in self._writers if writer is not None]
        self._writers = [None] * self._parallelism
        self._contexts = [self._new_context(index) for index in range(self._parallelism)]

    def _attempt(self, records: Sequence[Sequence[Any]], *, end_of_input: bool) -> SinkCheckpoint:
        self._tries += 1
        checkpoint_id = self._last.checkpoint_id + 1
        states: list[tuple[tuple[int, bytes], ...]] = []
        committables: list[tuple[int, bytes]] = []
        for subtask in range(self._parallelism):
            context = self._contexts[subtask]
            context.checkpoint_id = checkpoint_id
            context.attempt_token = f"{self._name}-{self._tries}-{subtask}"
            writer = self._writer(subtask)
            if subtask < len(records) and records[subtask]:
                write_items(writer, records[subtask])
            writer.flush(end_of_input)
            self._close_dropped()
            committables += self._prepared(writer)
            states.append(self._snapshot(writer, checkpoint_id))
        return SinkCheckpoint(checkpoint_id, tuple(states), tuple(committables))

    def _close_dropped(self) -> None:
        dropped, self._dropped = self._dropped, []
        for writer in dropped:
            writer.close()

    def _writer(self, subtask: int) -> SinkWriter[Any]:
        writer = self._writers[subtask]
        if writer is None:
            context = self._contexts[subtask]
            if isinstance(self._sink, SupportsWriterState):
                sink = cast("SupportsWriterState[Any, Any]", self._sink)
                serializer = sink.get_writer_state_serializer()
                state = [serializer.deserialize(*data) for data in self._states[subtask]]
                writer = sink.restore_writer(context, state) if state else self._sink.create_writer(context)
            else:
                writer = self._sink.create_writer(context)
            self._writers[subtask] = writer
        return writer

    def _prepared(self, writer: SinkWriter[Any]) -> list[tuple[int, bytes]]:
        if not isinstance(self._sink, HasCommittables):
            return []
        assert isinstance(writer, CommittingSinkWriter), f"{writer!r} must be a CommittingSinkWriter"
        serializer = cast("HasCommittables[Any]", self._sink).get_committable_serializer()
        return _all_serialized(serializer, cast("CommittingSinkWriter[Any, Any]", writer).prepare_commit())

    def _snapshot(self, writer: SinkWriter[Any], checkpoint_id: int) -> tuple[tuple[int, bytes], ...]:
        if not isinstance(self._sink, SupportsWriterState):
            return ()
        assert isinstance(writer, StatefulSinkWriter), f"{writer!r} must be a StatefulSinkWriter"
        serializer = cast("SupportsWriterState[Any, Any]", self._sink).get_writer_state_serializer()
        states = cast("StatefulSinkWriter[Any, Any]", writer).snapshot_state(checkpoint_id)
        return tuple(_all_serialized(serializer, states))

    def commit(self, checkpoint: SinkCheckpoint, *, may_be_committed: bool = False) -> list[TestCommitRequest]:
        """Commit a checkpoint with a new committer and return its answers.

        Args:
            checkpoint: The checkpoint.
            may_be_committed: The property of the requests: whether an earlier try may have committed it.

        Raises:
            AssertionError: A committable was not committed.
        """
        if not isinstance(self._sink, HasCommittables) or not checkpoint.committables:
            return []
        sink = cast("HasCommittables[Any]", self._sink)
        serializer = sink.get_committable_serializer()
        requests = [
            TestCommitRequest(
                serializer.deserialize(*data), checkpoint.checkpoint_id, may_be_committed=may_be_committed
            )
            for data in checkpoint.committables
        ]
        context = TestCommitterContext(self._job_id, run_id=self._run_id, staged=self._staged)
        if isinstance(sink, SupportsCommitter):
            _commit(sink.create_committer(context), requests)
        if isinstance(sink, SupportsGlobalCommitter):
            _commit(sink.create_global_committer(context), requests)
        for request in requests:
            failure = request.known_failure or request.unknown_failure
            assert failure is None, f"{request.committable!r} failed: {failure!r}"
            assert not request.retry, f"{request.committable!r} was put off"
        return requests

    def close(self) -> None:
        """Close all writers, as after an error."""
        self._close_dropped()
        for writer in self._writers:
            if writer is not None:
                writer.close()
        self._writers = [None] * self._parallelism


def _commit(committer: Committer[Any] | GlobalCommitter[Any], requests: list[TestCommitRequest]) -> None:
    committer.commit(requests)
    committer.close()


def _all_serialized(serializer: SimpleVersionedSerializer[Any], values: Iterable[Any]) -> list[tuple[int, bytes]]:
    version = serializer.get_version()
    return [(version, serializer.serialize(value)) for value in values]
