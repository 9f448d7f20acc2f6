"""Runs the sources' enumerators, which are user code, on the main loop.

Their contexts collect assignments and events, which go to the coordinator with the answer to the instruction, or, from
a handler of ``call_async``, with an event of their own.
"""

from __future__ import annotations

import logging
import pickle
import threading
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from penstock._api.connectors.source import ReaderInfo, Source, SplitEnumerator, SplitsAssignment
from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.epochs.sources import EnumeratorSnapshot
from penstock._engine.driver.failures import driver_code_error
from penstock._engine.protocol.events import AddSplitsEvent, NoMoreSplitsEvent, SourceEventWrapper, encode_event
from penstock._engine.protocol.job_events import NO_CHECKPOINT
from penstock.common.interrupts import is_interrupt
from penstock.errors import DriverCodeError, JobRunError
from penstock.metrics.in_memory import InMemoryMetricGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._api.connectors.serializer import SimpleVersionedSerializer
    from penstock._api.connectors.split import SourceEvent as ConnectorEvent
    from penstock._api.connectors.split import SourceSplit
    from penstock._engine.coordinator import instructions as do
    from penstock._engine.coordinator.epochs.sources import EnumeratorDelivery, EnumeratorStart
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.protocol.events import OperatorEvent
    from penstock._engine.protocol.metadata import ReturnedSplits
    from penstock._engine.storage.run_files import RunFiles

_log = logging.getLogger(__name__)

_UNASSIGNED = "unassignedSplits"


class EnumeratorContext:
    """The context of an enumerator: implements the connectors' ``SplitEnumeratorContext``.

    Args:
        name: The source, for messages.
        source: The source, for its serializers.
        parallelism: Number of its subtasks.
        run_async: Runs a callable beside the loop and its handler on it.
        run_files: Says where this run writes the files of DataFrames, and which it has written.
        is_batch: Whether the job runs in batch mode.
    """

    def __init__(
        self,
        name: str,
        source: Source[Any, Any, Any],
        parallelism: int,
        run_async: Callable[[EnumeratorContext, Callable[[], Any], Callable[[Any, Any], None], int, int | None], None],
        run_files: Callable[[], RunFiles],
        *,
        is_batch: bool = False,
    ) -> None:
        self.run_files, self.is_batch = run_files, is_batch
        self.metric_group = InMemoryMetricGroup()
        self.current_parallelism = parallelism
        self.registered_readers: dict[int, ReaderInfo] = {}
        self.is_processing_backlog = False
        self.closed = False
        self._name = name
        self._source = source
        self._run_async = run_async
        self._complete: set[int] = set()
        self._decided: dict[int, list[bytes]] = {}
        self._thread = threading.get_ident()
        self._splits_for: dict[int, int] = {}

    @cached_property
    def _serializer(self) -> SimpleVersionedSerializer[Any]:
        return self._source.get_split_serializer()  # user code, so it is called where its errors are named

    def send_event_to_source_reader(self, subtask_id: int, event: ConnectorEvent) -> None:
        """Send an event to a reader; one to a reader that ended before this start is dropped."""
        if subtask_id in self.registered_readers or subtask_id not in range(self.current_parallelism):
            self._decide(subtask_id, SourceEventWrapper(pickle.dumps(event)))

    def assign_splits(self, new_split_assignments: SplitsAssignment[Any]) -> None:
        """Assign splits to readers; an error leaves all of them unassigned."""
        for subtask in new_split_assignments.assignment:
            self._check(subtask)
            if subtask in self._complete:
                raise JobRunError(f"Splits were assigned to subtask {subtask} of {self._name!r} after no more splits.")
        for subtask, splits in new_split_assignments.assignment.items():
            written = tuple(self._serializer.serialize(split) for split in splits)
            self._decide(subtask, AddSplitsEvent(written, self._serializer.get_version()))
            self._splits_for[subtask] = self._splits_for.get(subtask, 0) + len(written)

    def assign_split(self, split: SourceSplit, subtask: int) -> None:
        """Assign one split to one reader."""
        self.assign_splits(SplitsAssignment({subtask: [split]}))

    def signal_no_more_splits(self, subtask: int) -> None:
        """Signal the end of splits to one reader, once."""
        self._check(subtask)
        if subtask not in self._complete:
            self._complete.add(subtask)
            self._decide(subtask, NoMoreSplitsEvent())

    def call_async(
        self,
        callable: Callable[[], Any],  # noqa: A002 - Flink's name
        handler: Callable[[Any, Any], None],
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        """Run a slow function beside the loop, and its handler on the loop."""
        self._run_async(self, callable, handler, initial_delay_ms, period_ms)

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        """Say whether the source reads a backlog."""
        self.is_processing_backlog = is_processing_backlog

    def wants_more(self, subtask: int, splits_before: int) -> bool:
        """Tell whether the last request of a reader got a split, so that another one may get one as well."""
        return subtask not in self._complete and self.splits_for(subtask) > splits_before

    def splits_for(self, subtask: int) -> int:
        """Return the number of splits that were assigned to a reader."""
        return self._splits_for.get(subtask, 0)

    def take_decided(self) -> dict[int, tuple[bytes, ...]]:
        """Return the events for readers since the last call, by subtask."""
        decided, self._decided = self._decided, {}
        return {subtask: tuple(events) for subtask, events in decided.items()}

    def _decide(self, subtask: int, event: OperatorEvent) -> None:
        if threading.get_ident() != self._thread:  # a snapshot may be taken meanwhile, and would miss it
            raise JobRunError(
                f"The enumerator of {self._name!r} gave its readers something from a thread of its own; do that in the "
                "handler of call_async, which runs between two checkpoints."
            )
        self._check(subtask)
        self._decided.setdefault(subtask, []).append(encode_event(event))

    def _check(self, subtask: int) -> None:
        if subtask not in self.registered_readers:
            known = ", ".join(map(str, sorted(self.registered_readers))) or "none"
            raise JobRunError(
                f"Subtask {subtask} of {self._name!r} is not a registered reader; registered are: {known}."
            )


class _RunningEnumerator:
    """One enumerator and its context."""

    def __init__(self, uid: str, name: str, source: Source[Any, Any, Any], context: EnumeratorContext) -> None:
        self.uid = uid
        self.name = name
        self.source = source
        self.context = context
        self.enumerator: SplitEnumerator[Any, Any]


class Enumerators:
    """Performs the instructions about enumerators.

    Args:
        sources: By uid: its name and the source.
        mailbox: Takes handlers and their events.
        background: Runs their asynchronous calls.
        run_files: Says where this run writes the files of DataFrames; called once the job has its id.
        is_batch: Whether the job runs in batch mode.
    """

    def __init__(
        self,
        sources: Mapping[str, tuple[str, Source[Any, Any, Any]]],
        mailbox: Mailbox,
        background: BackgroundExecutor,
        run_files: Callable[[], RunFiles],
        *,
        is_batch: bool = False,
    ) -> None:
        self._run_files, self._is_batch = run_files, is_batch
        self._sources = sources
        self._mailbox = mailbox
        self._background = background
        self._running: dict[str, _RunningEnumerator] = {}

    def open(self, instruction: do.StartEnumerators) -> ev.Event:
        """Make the enumerators at a start of the job, start them, and register the readers."""
        for uid, opening in instruction.sources.items():
            name, source = self._sources[uid]
            context = EnumeratorContext(
                name, source, opening.parallelism, self._run_async, self._run_files, is_batch=self._is_batch
            )
            self._running[uid] = running = _RunningEnumerator(uid, name, source, context)
            self._guard(running, partial(_open, running, opening))
        return self._called()

    def call(self, instruction: do.CallEnumerators) -> ev.Event:
        """Notify the enumerators of a completed checkpoint, and deliver their readers' events."""
        completed = instruction.completed_checkpoint
        for uid, running in self._running.items():
            self._guard(running, partial(_deliver, running, completed, instruction.deliveries.get(uid)))
        return self._called()

    def _called(self) -> ev.EnumeratorsCalled:
        metrics = {uid: running.context.metric_group.figures() for uid, running in self._running.items()}
        return ev.EnumeratorsCalled(self._take_decided(), self._backlog, metrics)

    def unassigned_splits(self) -> int | None:
        """Return the number of unassigned splits; None if an enumerator does not report it, or none runs."""
        gauges = [running.context.metric_group.snapshot().get(_UNASSIGNED) for running in self._running.values()]
        counts = [gauge["value"] for gauge in gauges if gauge is not None]
        if not counts or len(counts) < len(gauges):
            return None
        return sum(int(str(count)) for count in counts)

    @property
    def _backlog(self) -> bool:
        return any(running.context.is_processing_backlog for running in self._running.values())

    def snapshot(self, instruction: do.SnapshotEnumerators) -> ev.Event:
        """Take the snapshots of all enumerators."""
        checkpoint_id = instruction.checkpoint_id
        snapshots: dict[str, EnumeratorSnapshot] = {}
        for uid, running in self._running.items():
            try:
                snapshots[uid] = self._guard(running, partial(_snapshot, running, checkpoint_id))
            except DriverCodeError as error:
                if checkpoint_id != NO_CHECKPOINT:
                    raise
                _log.warning(
                    "Source %r starts from its beginning if the driver is lost while it reads: %s", running.name, error
                )
        return ev.EnumeratorsSnapshotted(snapshots, self._take_decided())

    def close(self, _: do.CloseEnumerators) -> None:
        """Close all enumerators; results of asynchronous calls are dropped from then on."""
        running, self._running = self._running, {}
        for one in running.values():
            one.context.closed = True
        for one in running.values():
            if hasattr(one, "enumerator"):
                self._guard(one, one.enumerator.close)

    def _take_decided(self) -> ev.Assigned:
        decided = {uid: running.context.take_decided() for uid, running in self._running.items()}
        return {uid: by_subtask for uid, by_subtask in decided.items() if by_subtask}

    def _guard(self, running: _RunningEnumerator, work: Callable[[], Any]) -> Any:
        """Call user code; its errors name the source."""
        try:
            return work()
        except BaseException as error:  # an exit, too, would end the thread that all wait for
            if is_interrupt(error):
                raise
            raise driver_code_error(f"the enumerator of {running.name!r} (uid {running.uid!r})", error) from error

    def _run_async(
        self,
        context: EnumeratorContext,
        callable_: Callable[[], Any],
        handler: Callable[[Any, Any], None],
        delay_ms: int,
        period_ms: int | None,
    ) -> None:
        def work() -> None:
            if context.closed:
                return
            try:
                result, error = callable_(), None
            except BaseException as raised:  # noqa: BLE001 - whatever the user's code raises goes to its own handler
                result, error = None, raised
            self._mailbox.call(lambda: self._handle(context, lambda: handler(result, error), again))

        def again() -> None:
            if period_ms is not None:
                self._background.later(period_ms, work)

        if delay_ms:
            self._background.later(delay_ms, work)
        else:
            self._background.run(work)

    def _handle(
        self, context: EnumeratorContext, handler: Callable[[], None], again: Callable[[], None]
    ) -> ev.Event | None:
        """Run a handler on the loop."""
        if context.closed:
            return None
        running = next(one for one in self._running.values() if one.context is context)
        try:
            self._guard(running, handler)
        except Exception as error:  # noqa: BLE001 - it fails the job
            return ev.DriverFailed(error)
        again()
        decided = self._take_decided()
        return ev.SplitsAssigned(decided) if decided else None


def _open(running: _RunningEnumerator, opening: EnumeratorStart) -> None:
    source, context = running.source, running.context
    if opening.snapshot is None:
        running.enumerator = source.create_enumerator(context)
    else:
        serializer = source.get_enumerator_checkpoint_serializer()
        state = serializer.deserialize(opening.snapshot.version, opening.snapshot.state)
        running.enumerator = source.restore_enumerator(context, state)
    running.enumerator.start()
    if opening.reopened:
        running.enumerator.find_new_splits()
    _give_back(running, opening.returned)
    for subtask in opening.readers:
        context.registered_readers[subtask] = ReaderInfo(subtask)
        running.enumerator.add_reader(subtask)


def _give_back(running: _RunningEnumerator, splits: tuple[ReturnedSplits, ...]) -> None:
    serializer = running.source.get_split_serializer()
    for returned in splits:
        read = [serializer.deserialize(returned.version, split) for split in returned.splits]
        running.enumerator.add_splits_back(read, returned.subtask)


def _deliver(running: _RunningEnumerator, completed_checkpoint: int, delivery: EnumeratorDelivery | None) -> None:
    if completed_checkpoint:
        running.enumerator.notify_checkpoint_complete(completed_checkpoint)
    if delivery is None:
        return
    _give_back(running, delivery.returned)
    for message in delivery.messages:
        if message.host and message.subtask in running.context.registered_readers:
            running.context.registered_readers[message.subtask] = ReaderInfo(message.subtask, message.host)
        for event in message.events:
            running.enumerator.handle_source_event(message.subtask, pickle.loads(event))
    _answer_requests(running, delivery)


def _answer_requests(running: _RunningEnumerator, delivery: EnumeratorDelivery) -> None:
    """Answer split requests round-robin, so that the last splits are shared.

    A reader that uses up its splits gets more answers than requests, as long as the enumerator has splits for it.
    """
    context = running.context
    own = {message.subtask: message.split_requests for message in delivery.messages}
    hosts = {message.subtask: message.host or None for message in delivery.messages}
    waiting = {subtask for subtask, count in delivery.grants.items() if count}
    turn = 0
    while waiting:
        for subtask in sorted(waiting):
            before = context.splits_for(subtask)
            running.enumerator.handle_split_request(subtask, hosts[subtask])
            done = turn + 1 >= delivery.grants[subtask]
            if done or (turn + 1 >= own[subtask] and not context.wants_more(subtask, before)):
                waiting.discard(subtask)
        turn += 1


def _snapshot(running: _RunningEnumerator, checkpoint_id: int) -> EnumeratorSnapshot:
    serializer = running.source.get_enumerator_checkpoint_serializer()
    state = running.enumerator.snapshot_state(checkpoint_id)
    return EnumeratorSnapshot(serializer.serialize(state), serializer.get_version())
