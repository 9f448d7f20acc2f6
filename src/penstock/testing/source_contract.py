"""The checks that every source must pass; a connector's author runs them on a bounded source of known records.

    SourceContract(lambda: NumberSequenceSource(1, 1000), range(1, 1001)).check_all()

A :class:`SourceRun` plays the engine, one epoch after the other, in one thread. Each epoch hands the readers what was
assigned, polls them, snapshots everything through the source's own serializers, and then lets the enumerator see what
the readers asked for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penstock._api.connectors.reader import InputStatus, SourceReader
from penstock.testing.connector_contexts import RecordingOutput, TestEnumeratorContext, TestReaderContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._api.connectors.serializer import SimpleVersionedSerializer
    from penstock._api.connectors.source import Source, SplitEnumerator
    from penstock._api.connectors.split import SourceEvent

__all__ = ["SourceCheckpoint", "SourceContract", "SourceRun"]

_MOST_EPOCHS = 5_000
_WAIT_MS = 1000


@dataclass(frozen=True, slots=True)
class SourceCheckpoint:
    """A source's part of a checkpoint, as versioned bytes: the enumerator's, and each reader's splits."""

    checkpoint_id: int
    enumerator: tuple[int, bytes]
    readers: tuple[tuple[tuple[int, bytes], ...], ...]

    def splits(self) -> int:
        """Return the number of splits that readers hold."""
        return sum(len(splits) for splits in self.readers)


class SourceRun:
    """One run of a source, from the beginning or from a checkpoint.

    Args:
        source: The source.
        parallelism: The number of readers.
        checkpoint: The checkpoint to continue from.
        keep_readers: Keep each reader from epoch to epoch; else a new one is made for every epoch.
        takes_batches: Whether what follows works on columns; "by turns" in every second epoch.
    """

    def __init__(
        self,
        source: Source[Any, Any, Any],
        parallelism: int = 1,
        checkpoint: SourceCheckpoint | None = None,
        keep_readers: bool = True,
        takes_batches: bool | Literal["by turns"] = False,
    ) -> None:
        self._source, self._parallelism, self._keep_readers = source, parallelism, keep_readers
        self._takes_batches = takes_batches
        self.context: TestEnumeratorContext = TestEnumeratorContext(parallelism)
        self.checkpoint_id: int = 0 if checkpoint is None else checkpoint.checkpoint_id
        self.records: list[Any] = []
        self.open_splits: list[set[str]] = [set() for _ in range(parallelism)]
        self.ended: list[bool] = [False] * parallelism
        self._readers: list[SourceReader[Any, Any] | None] = [None] * parallelism
        self._reader_contexts = [TestReaderContext(index, parallelism) for index in range(parallelism)]
        self._outputs = [RecordingOutput(type_info=source.get_produced_type()) for _ in range(parallelism)]
        self._splits: list[list[Any]] = [[] for _ in range(parallelism)]
        self.enumerator: SplitEnumerator[Any, Any]
        if checkpoint is None:
            self.enumerator = source.create_enumerator(self.context)
        else:
            self._restore_splits(checkpoint)
            state = _deserialized(source.get_enumerator_checkpoint_serializer(), checkpoint.enumerator)
            self.enumerator = source.restore_enumerator(self.context, state)
        self.enumerator.start()
        for subtask in range(parallelism):
            self.context.register(subtask)
            self.enumerator.add_reader(subtask)

    def __repr__(self) -> str:
        source, count = type(self._source).__name__, len(self.records)
        return f"<SourceRun of {source} with {self._parallelism} subtasks: {count} records>"

    def _restore_splits(self, checkpoint: SourceCheckpoint) -> None:
        serializer = self._source.get_split_serializer()
        restored = [_deserialized(serializer, split) for splits in checkpoint.readers for split in splits]
        for number, split in enumerate(restored):
            self._splits[number % self._parallelism].append(split)

    @property
    def finished(self) -> bool:
        """Whether all readers have ended."""
        return all(self.ended)

    def epoch(self, polls: int = 1_000_000) -> SourceCheckpoint:
        """Run one epoch with a limited number of polls for each reader, and return its checkpoint.

        Raises:
            AssertionError: The source breaks its contract.
        """
        self.checkpoint_id += 1
        for subtask in range(self._parallelism):
            if not self.ended[subtask]:
                self._run_reader(subtask, polls)
        enumerator = self.enumerator.snapshot_state(self.checkpoint_id)
        checkpoint = SourceCheckpoint(
            self.checkpoint_id,
            _serialized(self._source.get_enumerator_checkpoint_serializer(), enumerator),
            tuple(self._snapshot_of(subtask) for subtask in range(self._parallelism)),
        )
        self._deliver()
        return checkpoint

    def _snapshot_of(self, subtask: int) -> tuple[tuple[int, bytes], ...]:
        serializer = self._source.get_split_serializer()
        splits = [*self._splits[subtask], *self.context.assigned.get(subtask, [])]
        return tuple(_serialized(serializer, split) for split in splits)

    def _run_reader(self, subtask: int, polls: int) -> None:
        reader = self._reader(subtask)
        for event in self._events_for(subtask):
            reader.handle_source_events(event)
        output = self._outputs[subtask]
        by_turns = self._takes_batches == "by turns"
        output.takes_batches = self.checkpoint_id % 2 == 1 if by_turns else self._takes_batches is True
        for _ in range(polls):
            status = reader.poll_next(output)
            if status is InputStatus.END_OF_INPUT:
                assert subtask in self.context.no_more_splits, "END_OF_INPUT before notify_no_more_splits"
                self.ended[subtask] = True
                break
            if status is InputStatus.NOTHING_AVAILABLE and not reader.is_available(_WAIT_MS):
                break
        self.records += output.records
        output.records.clear()
        self._splits[subtask] = reader.snapshot_state(self.checkpoint_id)
        if self.ended[subtask]:
            assert not self._splits[subtask], f"END_OF_INPUT with unread splits: {self._splits[subtask]}"
            assert not output.open_splits, f"END_OF_INPUT with outputs of splits left open: {output.open_splits}"
        if self.ended[subtask] or not self._keep_readers:
            self._readers[subtask] = None
            output.open_splits.clear()
            reader.close()

    def _events_for(self, subtask: int) -> list[SourceEvent]:
        """Take the enumerator's events for a reader."""
        events = [event for receiver, event in self.context.events if receiver == subtask]
        self.context.events = [(receiver, event) for receiver, event in self.context.events if receiver != subtask]
        return events

    def _reader(self, subtask: int) -> SourceReader[Any, Any]:
        """Return a subtask's reader with all that was assigned to it."""
        assigned = self.context.assigned.pop(subtask, [])
        reader = self._readers[subtask]
        if reader is None:
            reader = self._readers[subtask] = self._source.create_reader(self._reader_contexts[subtask])
            reader.add_splits([*self._splits[subtask], *assigned])
            self._hand_events(subtask, reader)
            if subtask in self.context.no_more_splits:
                reader.notify_no_more_splits()
            reader.start()
            return reader
        if assigned:
            reader.add_splits(assigned)
        self._hand_events(subtask, reader)
        if subtask in self.context.no_more_splits:
            reader.notify_no_more_splits()
        return reader

    def _hand_events(self, subtask: int, reader: SourceReader[Any, Any]) -> None:
        events, self.context.events = self.context.events, []
        for receiver, event in events:
            if receiver == subtask:
                reader.handle_source_events(event)
            else:
                self.context.events.append((receiver, event))

    def _deliver(self) -> None:
        """Let the enumerator see what the readers sent in this epoch."""
        for subtask, context in enumerate(self._reader_contexts):
            for event in context.events:
                self.enumerator.handle_source_event(subtask, event)
            for _ in range(context.split_requests):
                self.enumerator.handle_split_request(subtask, None)
            context.events, context.split_requests = [], 0
        self.enumerator.notify_checkpoint_complete(self.checkpoint_id)

    def run_to_end(self, polls: int = 1_000_000) -> list[Any]:
        """Run epochs until all readers have ended and return all records of this run.

        Raises:
            AssertionError: The source breaks its contract, or does not end.
        """
        for _ in range(_MOST_EPOCHS):
            if self.finished:
                self.close()
                return self.records
            self.epoch(polls)
            self.context.run_async_calls()
        msg = f"the source did not end within {_MOST_EPOCHS} epochs"
        raise AssertionError(msg)

    def close(self) -> None:
        """Close everything."""
        for reader in self._readers:
            if reader is not None:
                reader.close()
        self._readers = [None] * self._parallelism
        self.enumerator.close()


class SourceContract:
    """The checks of one source; each raises AssertionError with what is wrong.

    Args:
        make_source: Makes the source, which is bounded.
        expected: Its records, in any order; they are hashable, or their repr identifies them.

    Example:
        >>> from penstock.datastream.connectors.number_seq import NumberSequenceSource
        >>> SourceContract(lambda: NumberSequenceSource(1, 20), range(1, 21)).check_all()
    """

    def __init__(self, make_source: Callable[[], Source[Any, Any, Any]], expected: Iterable[Any]) -> None:
        self._make_source = make_source
        self._expected = Counter(map(repr, expected))

    def __repr__(self) -> str:
        return f"<SourceContract: {self._expected.total()} records>"

    def check_all(self) -> None:
        """Run all checks."""
        self.check_each_record_once()
        self.check_readers_made_anew_at_each_poll()
        self.check_restore_after_any_epoch()
        self.check_restore_at_another_parallelism()
        self.check_snapshot_is_not_changed_by_reading_on()
        self.check_batches_have_the_same_records()
        self.check_close_is_idempotent()

    def check_each_record_once(self, parallelisms: Iterable[int] = (1, 2, 5)) -> None:
        """Any number of readers read each record exactly once, and then end."""
        for parallelism in parallelisms:
            self._same(SourceRun(self._make_source(), parallelism).run_to_end(), f"at parallelism {parallelism}")

    def check_readers_made_anew_at_each_poll(self) -> None:
        """A reader's snapshot holds all that the next one needs."""
        run = SourceRun(self._make_source(), 2, keep_readers=False)
        self._same(run.run_to_end(polls=1), "with readers made anew after each poll")

    def check_restore_after_any_epoch(self, most_restores: int = 20) -> None:
        """After a failure at any epoch, the records up to the checkpoint and those after it are all records."""
        for epochs in range(1, most_restores + 1):
            run = SourceRun(self._make_source(), 2)
            checkpoint = None
            for _ in range(epochs):
                checkpoint = _discover_and_run(run, polls=1)
            before = list(run.records)
            over = run.finished
            if not over:
                _discover_and_run(run, polls=2)  # its checkpoint never completes, so its records do not count
            run.close()
            after = SourceRun(self._make_source(), 2, checkpoint).run_to_end()
            self._same(before + after, f"after a restore from checkpoint {epochs}")
            if over:
                return

    def check_restore_at_another_parallelism(self) -> None:
        """Splits may be read on by other readers, more or fewer."""
        for parallelism in (1, 3):
            run = SourceRun(self._make_source(), 2)
            checkpoint = _discover_and_run(run, polls=1)
            run.close()
            after = SourceRun(self._make_source(), parallelism, checkpoint).run_to_end()
            self._same(run.records + after, f"after a restore at parallelism {parallelism}")

    def check_snapshot_is_not_changed_by_reading_on(self) -> None:
        """The value that ``snapshot_state`` returned does not change."""
        source = self._make_source()
        serializer = source.get_split_serializer()
        run = SourceRun(source, 1)
        _discover_and_run(run, polls=1)
        reader = run._readers[0]
        if reader is not None:
            splits = reader.snapshot_state(run.checkpoint_id)
            before = [_serialized(serializer, split) for split in splits]
            reader.poll_next(RecordingOutput())
            after = [_serialized(serializer, split) for split in splits]
            assert before == after, "reading on changed the splits of an earlier snapshot; return copies"
        run.close()

    def check_batches_have_the_same_records(self) -> None:
        """The records are the same if downstream operators take batches of columns, always or by turns."""
        run = SourceRun(self._make_source(), 2, takes_batches=True)
        self._same(run.run_to_end(), "with batches")
        run = SourceRun(self._make_source(), 2, keep_readers=False, takes_batches="by turns")
        self._same(run.run_to_end(polls=3), "with batches in every second epoch, by readers made anew")

    def check_close_is_idempotent(self) -> None:
        """Readers and enumerators may be closed twice, also before they started."""
        source = self._make_source()
        reader = source.create_reader(TestReaderContext())
        reader.close()
        reader.close()
        enumerator = source.create_enumerator(TestEnumeratorContext())
        enumerator.close()
        enumerator.close()

    def _same(self, records: list[Any], when: str) -> None:
        found = Counter(map(repr, records))
        missing, extra = self._expected - found, found - self._expected
        assert not missing, f"{when}: {missing.total()} records missing, such as {list(missing)[:3]}"
        assert not extra, f"{when}: {extra.total()} records too many, such as {list(extra)[:3]}"


def _discover_and_run(run: SourceRun, polls: int) -> SourceCheckpoint:
    """Run one epoch in which readers get what the enumerator finds beside the job as well."""
    run.context.run_async_calls()
    return run.epoch(polls)


def _serialized(serializer: SimpleVersionedSerializer[Any], value: Any) -> tuple[int, bytes]:
    return serializer.get_version(), serializer.serialize(value)


def _deserialized(serializer: SimpleVersionedSerializer[Any], data: tuple[int, bytes]) -> Any:
    return serializer.deserialize(*data)
