"""The exchange between each source's enumerator and its readers (FLIP-27), without the enumerator itself.

The enumerator is user code that the driver runs; here stands what must be in a checkpoint beside its own snapshot.
Assignments travel with the next dispatch and stay here until the epoch that delivered them counts. What readers sent
waits here until its epoch's checkpoint has completed, and then goes to the enumerator. So do splits that were assigned
to a reader which had finished meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.splits import on_the_way
from penstock._engine.protocol.events import EndOfInputEvent, encode_event
from penstock._engine.protocol.metadata import ReaderMessages, ReturnedSplits, SourceCoordinatorState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._engine.protocol.control import OperatorAck

#: A reader that uses up its splits in every epoch gets twice as many each time, up to this many.
_MAX_GRANT: Final = 4096


@dataclass(frozen=True, slots=True)
class EnumeratorSnapshot:
    """An enumerator's snapshot as its serializer wrote it."""

    state: bytes
    version: int = 0


@dataclass(frozen=True, slots=True)
class EnumeratorStart:
    """How to start the enumerator of one source."""

    parallelism: int
    #: Subtasks whose readers register.
    readers: tuple[int, ...]
    #: None for a source that starts without a checkpoint.
    snapshot: EnumeratorSnapshot | None = None
    returned: tuple[ReturnedSplits, ...] = ()
    #: The source had finished; the enumerator is to look for new splits.
    reopened: bool = False


@dataclass(frozen=True, slots=True)
class EnumeratorDelivery:
    """What an enumerator gets between two epochs."""

    messages: tuple[ReaderMessages, ...]
    #: By subtask: how many split requests to answer while the enumerator has splits, at least the reader's own.
    grants: Mapping[int, int] = field(default_factory=dict[int, int])
    #: Splits that come back, because their reader had finished when they were on the way to it.
    returned: tuple[ReturnedSplits, ...] = ()


class SourceCoordinator:
    """One source: the events on their way between its enumerator and its readers.

    Args:
        parallelism: Number of subtasks.
        state: What the checkpoint says that the job starts from, None for a fresh start.
        finished: Subtasks that have finished; their readers do not come back.
    """

    def __init__(
        self,
        parallelism: int,
        state: SourceCoordinatorState | None = None,
        finished: Iterable[int] = (),
    ) -> None:
        self._parallelism = parallelism
        self._finished = set(finished)
        self._readers = tuple(sorted(set(range(parallelism)).difference(self._finished)))
        #: By subtask: events that the enumerator decided on, oldest first.
        self._pending = {subtask: list(events) for subtask, events in state.undelivered.items()} if state else {}
        #: By subtask: how many of them the running epoch delivers.
        self._dispatched: dict[int, int] = {}
        self._unseen = state.unseen if state else ()
        self._returned: list[ReturnedSplits] = []
        self._take_back(self._finished)
        self._state = state and replace(state, returned=(*state.returned, *self._returned))
        self._returned.clear()  # the enumerator gets these when it starts
        self._grants: dict[int, int] = {}

    @property
    def opening(self) -> EnumeratorStart | None:
        """How to start the enumerator; None when all readers have finished."""
        if not self._readers:
            return None
        if self._state is None:
            return EnumeratorStart(self._parallelism, self._readers)
        snapshot = EnumeratorSnapshot(self._state.state, self._state.version)
        return EnumeratorStart(
            self._parallelism, self._readers, snapshot, self._state.returned, reopened=self._state.reopened
        )

    @property
    def has_pending(self) -> bool:
        """Whether the next dispatch has events for a reader."""
        return any(self._pending.values())

    def assigned(self, events: Mapping[int, tuple[bytes, ...]]) -> None:
        """Note what the enumerator decided for its readers."""
        for subtask, added in events.items():
            self._pending.setdefault(subtask, []).extend(added)
        self._take_back(self._finished.intersection(events))

    def _take_back(self, subtasks: Iterable[int]) -> None:
        """Return the splits that are on their way to finished readers to the enumerator; other events are dropped."""
        for subtask in sorted(subtasks):
            self._returned += on_the_way(subtask, self._pending.pop(subtask, ()))

    def dispatch(self, subtask: int) -> tuple[bytes, ...]:
        """Return the events that a reader gets with this epoch."""
        events = tuple(self._pending.get(subtask, ()))
        self._dispatched[subtask] = len(events)
        return events

    def accepted(self, acks: Mapping[int, OperatorAck], finished: Iterable[int] = ()) -> None:
        """Note that an epoch counts: the readers have its events, and the enumerator is to get theirs.

        Args:
            acks: By subtask: what its reader answered.
            finished: The subtasks that have finished in the epoch.
        """
        for subtask, count in self._dispatched.items():
            del self._pending.get(subtask, [])[:count]
        self._dispatched.clear()
        self._finished.update(finished)
        self._take_back(self._finished)
        # A reader that has finished may have asked for more before.
        asked = {subtask: 0 if subtask in self._finished else ack.split_requests for subtask, ack in acks.items()}
        self._unseen = tuple(
            ReaderMessages(subtask, ack.events, asked[subtask])
            for subtask, ack in sorted(acks.items())
            if ack.events or asked[subtask]
        )
        for subtask, ack in acks.items():
            used_up = ack.split_requests > 0 and not ack.more_available
            self._grants[subtask] = min(2 * self._grants.get(subtask, 0) or 1, _MAX_GRANT) if used_up else 0

    def end_input(self) -> None:
        """Send the end of input to all readers that have not finished."""
        for subtask in set(self._readers).difference(self._finished):
            self._pending.setdefault(subtask, []).append(encode_event(EndOfInputEvent()))

    def state(self, snapshot: EnumeratorSnapshot | None) -> SourceCoordinatorState | None:
        """Return what a checkpoint keeps of this source.

        Args:
            snapshot: What the enumerator returned; None when it does not run, because all its readers have finished.
        """
        if snapshot is None:
            return self._state
        undelivered = {subtask: tuple(events) for subtask, events in self._pending.items() if events}
        return SourceCoordinatorState(
            snapshot.state, snapshot.version, undelivered, self._unseen, tuple(self._returned)
        )

    def deliver(self) -> EnumeratorDelivery | None:
        """Return what the enumerator gets now and count it as delivered; None when there is nothing."""
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
