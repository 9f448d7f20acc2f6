"""Keeps the events on their way between each source's enumerator and its readers (FLIP-27).

The enumerator itself is user code that the driver runs; this state is in a checkpoint beside the enumerator's snapshot.
Assignments travel with the next dispatch and stay here until the epoch that delivered them is accepted. Events of
readers wait here until the checkpoint of their epoch has completed, and then go to the enumerator. So do splits that
were assigned to a reader which had finished meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.subtask_state import on_the_way
from penstock._engine.protocol.events import AddSplitsEvent, EndOfInputEvent, decode_event, encode_event
from penstock._engine.protocol.metadata import ReaderMessages, ReturnedSplits, SourceCoordinatorState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.protocol.control import OperatorAck, SubtaskAck
    from penstock._engine.protocol.metadata import JobSnapshot

#: A reader that uses up its splits in every epoch gets twice as many each time, up to this many.
_MAX_GRANT: Final = 4096

_END_OF_INPUT: Final = encode_event(EndOfInputEvent())


@dataclass(frozen=True, slots=True)
class EnumeratorSnapshot:
    """An enumerator's snapshot, as its serializer wrote it."""

    state: bytes
    version: int = 0


@dataclass(frozen=True, slots=True)
class EnumeratorStart:
    """How to start the enumerator of one source."""

    parallelism: int
    #: The subtasks whose readers register.
    readers: tuple[int, ...]
    #: None if the source starts without a checkpoint.
    snapshot: EnumeratorSnapshot | None = None
    returned: tuple[ReturnedSplits, ...] = ()
    #: Whether the source had finished, so that the enumerator looks for new splits.
    reopened: bool = False


@dataclass(frozen=True, slots=True)
class EnumeratorDelivery:
    """The input of an enumerator between two epochs."""

    messages: tuple[ReaderMessages, ...]
    #: By subtask: the number of split requests to answer, at least the reader's own.
    grants: Mapping[int, int] = field(default_factory=dict[int, int])
    #: Splits that come back, because their reader finished while they were on the way to it.
    returned: tuple[ReturnedSplits, ...] = ()


class SourceCoordinator:
    """One source: the events on their way between its enumerator and its readers.

    Args:
        parallelism: Number of subtasks.
        state: The source's state in the checkpoint that the job starts from; None without one.
        finished: The subtasks that have finished; their readers do not come back.
    """

    def __init__(
        self,
        parallelism: int,
        state: SourceCoordinatorState | None = None,
        finished: Iterable[int] = (),
    ) -> None:
        self.parallelism = parallelism
        self._finished = set(finished)
        self._readers = tuple(sorted(set(range(parallelism)).difference(self._finished)))
        #: By subtask: events for its reader, oldest first.
        self._pending = {subtask: list(events) for subtask, events in state.undelivered.items()} if state else {}
        #: By subtask: the number of them that the running epoch delivers.
        self._dispatched: dict[int, int] = {}
        self._unseen = state.unseen if state else ()
        self._returned: list[ReturnedSplits] = []
        self._take_back(self._finished)
        self._state = state and replace(state, returned=(*state.returned, *self._returned))
        self._returned.clear()  # the enumerator gets these at its start
        self._grants: dict[int, int] = {}

    @property
    def opening(self) -> EnumeratorStart | None:
        """How to start the enumerator; None if all readers have finished."""
        if not self._readers:
            return None
        if self._state is None:
            return EnumeratorStart(self.parallelism, self._readers)
        snapshot = EnumeratorSnapshot(self._state.state, self._state.version)
        return EnumeratorStart(
            self.parallelism, self._readers, snapshot, self._state.returned, reopened=self._state.reopened
        )

    @property
    def has_pending(self) -> bool:
        """Whether the next dispatch has events for a reader."""
        return any(self._pending.values())

    @property
    def unfinished(self) -> frozenset[int]:
        """The subtasks whose readers have not finished."""
        return frozenset(self._readers).difference(self._finished)

    def splits_on_the_way(self, subtask: int) -> tuple[bytes, ...]:
        """Return the events with splits that the next dispatch has for a reader."""
        pending = self._pending.get(subtask, ())
        return tuple(event for event in pending if isinstance(decode_event(event), AddSplitsEvent))

    def assigned(self, events: Mapping[int, tuple[bytes, ...]]) -> None:
        """Note the events of the enumerator for its readers."""
        for subtask, added in events.items():
            self._pending.setdefault(subtask, []).extend(added)
        self._take_back(self._finished.intersection(events))

    def _take_back(self, subtasks: Iterable[int]) -> None:
        """Return splits on their way to finished readers to the enumerator; drop other events."""
        for subtask in sorted(subtasks):
            self._returned += on_the_way(subtask, self._pending.pop(subtask, ()))

    def dispatch(self, subtask: int) -> tuple[bytes, ...]:
        """Return the events for a reader in this epoch."""
        events = tuple(self._pending.get(subtask, ()))
        self._dispatched[subtask] = len(events)
        return events

    def ends(self, subtask: int) -> bool:
        """Tell whether the next dispatch ends the input of a reader."""
        return _END_OF_INPUT in self._pending.get(subtask, ())

    def accepted(
        self, acks: Mapping[int, OperatorAck], finished: Iterable[int] = (), hosts: Mapping[int, str] | None = None
    ) -> None:
        """Note an accepted epoch: the readers have its events, and the enumerator will get theirs.

        Args:
            acks: By subtask: the ack of its reader.
            finished: The subtasks that finished in the epoch, or will in the next one without reading.
            hosts: By subtask: the host that its reader ran on.
        """
        for subtask, count in self._dispatched.items():
            del self._pending.get(subtask, [])[:count]
        self._dispatched.clear()
        self._finished.update(finished)
        self._take_back(self._finished)
        # A reader may have asked for splits before it finished.
        asked = {subtask: 0 if subtask in self._finished else ack.split_requests for subtask, ack in acks.items()}
        self._unseen = tuple(
            ReaderMessages(subtask, ack.events, asked[subtask], (hosts or {}).get(subtask, ""))
            for subtask, ack in sorted(acks.items())
            if ack.events or asked[subtask]
        )
        for subtask, ack in acks.items():
            used_up = ack.split_requests > 0 and not ack.more_available
            self._grants[subtask] = min(2 * self._grants.get(subtask, 0) or 1, _MAX_GRANT) if used_up else 0

    def end_input(self) -> None:
        """Send the end of input to all readers that have not finished."""
        for subtask in set(self._readers).difference(self._finished):
            self._pending.setdefault(subtask, []).append(_END_OF_INPUT)

    def state(self, snapshot: EnumeratorSnapshot | None) -> SourceCoordinatorState | None:
        """Return the state of this source for a checkpoint.

        Args:
            snapshot: The enumerator's snapshot; None if it does not run, because all its readers have finished.
        """
        if snapshot is None:
            return self._state
        undelivered = {subtask: tuple(events) for subtask, events in self._pending.items() if events}
        return SourceCoordinatorState(
            snapshot.state, snapshot.version, undelivered, self._unseen, tuple(self._returned)
        )

    def deliver(self) -> EnumeratorDelivery | None:
        """Return the enumerator's input and count it as delivered; None if there is nothing to deliver."""
        unseen, self._unseen = self._unseen, ()
        returned, self._returned = tuple(self._returned), []
        if not (unseen or returned):
            return None
        grants = {
            message.subtask: max(message.split_requests, self._grants.get(message.subtask, 1))
            for message in unseen
            if message.split_requests
        }
        return EnumeratorDelivery(unseen, grants, returned)


class JobSources:
    """The sources of a job.

    Args:
        graph: The job.
    """

    def __init__(self, graph: JobGraph) -> None:
        #: By uid: the vertex of the source.
        self.vertex_of = graph.sources
        #: The vertices that read.
        self.vertices = frozenset(self.vertex_of.values())
        self.by_uid: dict[str, SourceCoordinator] = {}

    def reset(self, snapshot: JobSnapshot) -> None:
        """Begin from a checkpoint."""
        for uid in self.vertex_of:
            operator = snapshot.operators[uid]
            finished = [index for index, subtask in enumerate(operator.subtasks) if subtask.finished]
            self.by_uid[uid] = SourceCoordinator(operator.parallelism, operator.enumerator, finished)

    def openings(self) -> dict[str, EnumeratorStart]:
        """Return how to start the enumerators."""
        openings = {uid: source.opening for uid, source in self.by_uid.items()}
        return {uid: opening for uid, opening in openings.items() if opening is not None}

    def deliver(self) -> dict[str, EnumeratorDelivery]:
        """Return the input of the enumerators that have any, and count it as delivered."""
        deliveries = {uid: source.deliver() for uid, source in self.by_uid.items()}
        return {uid: delivery for uid, delivery in deliveries.items() if delivery is not None}

    def assigned(self, assigned: Mapping[str, Mapping[int, tuple[bytes, ...]]]) -> None:
        """Note the events of the enumerators for their readers, by uid."""
        for uid, by_subtask in assigned.items():
            self.by_uid[uid].assigned(by_subtask)

    @property
    def has_pending(self) -> bool:
        """Whether the next dispatch has events for a reader."""
        return any(source.has_pending for source in self.by_uid.values())

    def ending(self) -> set[Subtask]:
        """Return the subtasks whose input ends with the next epoch, because an enumerator says so."""
        return {
            (self.vertex_of[uid], index)
            for uid, source in self.by_uid.items()
            for index in range(source.parallelism)
            if source.ends(index)
        }

    def accepted(self, acks: Sequence[SubtaskAck]) -> None:
        """Note an accepted epoch."""
        for uid, source in self.by_uid.items():
            vertex = self.vertex_of[uid]
            own = [ack for ack in acks if ack.vertex == vertex]
            finished = [ack.subtask for ack in own if ack.finished or ack.awaits_end]
            hosts = {ack.subtask: ack.host for ack in own}
            source.accepted({ack.subtask: ack.operators[uid] for ack in own}, finished, hosts)
        if any(part.ends_input for ack in acks for part in ack.operators.values()):
            for source in self.by_uid.values():
                source.end_input()

    def states(self, enumerators: Mapping[str, EnumeratorSnapshot]) -> dict[str, SourceCoordinatorState]:
        """Return the states of the sources for a checkpoint; one that has none is left out.

        Args:
            enumerators: The snapshots of the enumerators that run.
        """
        states = {uid: source.state(enumerators.get(uid)) for uid, source in self.by_uid.items()}
        return {uid: state for uid, state in states.items() if state is not None}
