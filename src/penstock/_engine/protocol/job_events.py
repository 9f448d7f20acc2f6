"""The events of a batch job with recovery, and the segments of the log in which they are stored.

A segment is one file: a mark, and records, each with its length and its digest. Its first record is the header. A file
may be cut short by a writer that died, so a record that ends after the file does is *torn*, and everything before it
counts. Any other difference is damage. With signing keys the digests are signatures.

Source: FLIP-383, Flink's ``JobEvent``.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import sha256
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import msgspec

from penstock._engine.protocol.control import SubtaskAck, encode
from penstock._engine.protocol.decoders import msgpack_decoder
from penstock._engine.protocol.formats import StoredFormat

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The id of the checkpoint that enumerators are given when they take a snapshot outside of one. Source: Flink's
#: ``OperatorCoordinator.NO_CHECKPOINT``.
NO_CHECKPOINT: Final = -1

#: The content is the records. A segment of another format is refused before its records are read.
JOB_EVENTS: Final = StoredFormat("segment of a job's events", mark=b"PNEVENT")
_LENGTH_BYTES: Final = 8
_DIGEST_BYTES: Final = 32


class SegmentHeader(msgspec.Struct, frozen=True):
    """The first record of a segment."""

    #: The run that wrote it, and the id of its takeover entry: of two drivers of a job the one with the higher id is
    #: its owner.
    run_id: str
    takeover: int
    #: The number of the segment with the first events of the log that this one continues; 0 if it is not known.
    begins: int = 0


class CoordinatorSnapshot(msgspec.Struct, frozen=True):
    """The state of a source's enumerator outside of a checkpoint, and the splits of its unfinished readers."""

    #: Counts the snapshots of one source in a job.
    number: int
    state: bytes
    version: int
    #: By subtask: the events with the splits that it has been assigned so far.
    assigned: dict[int, tuple[bytes, ...]]
    #: By subtask: of how many of its runs the enumerator has seen the events.
    seen: dict[int, int] = {}


class ExecutionJobVertexInitializedEvent(msgspec.Struct, frozen=True, tag="initialized"):
    """How many subtasks of a vertex run and what each reads, which was decided when its inputs were known."""

    vertex: int
    #: Which receivers each subtask reads for (`plan.bounds`).
    bounds: tuple[int, ...]
    #: The bytes of its inputs, by sending vertex.
    input_bytes: dict[int, int] = {}

    @property
    def parallelism(self) -> int:
        """The decided parallelism."""
        return len(self.bounds) - 1


class ExecutionVertexFinishedEvent(msgspec.Struct, frozen=True, tag="finished"):
    """A subtask has finished."""

    vertex: int
    subtask: int
    #: The run that it finished in, which has written its result.
    run_id: str
    #: The acks of all its runs: figures, accumulators, the files of its result with their sizes, committables.
    acks: tuple[SubtaskAck, ...]
    #: For a source: the events with the splits that it has read.
    splits: tuple[bytes, ...] = ()
    #: The number of the snapshot of its enumerator that has these splits; 0 as long as there is none.
    snapshot: int = 0
    #: The last snapshot of its enumerator, in the first event after it.
    coordinator: CoordinatorSnapshot | None = None


class ExecutionVertexResetEvent(msgspec.Struct, frozen=True, tag="reset"):
    """Finished subtasks run again, because a result was lost."""

    subtasks: tuple[tuple[int, int], ...]
    reason: str


class LogBaseEvent(msgspec.Struct, frozen=True, tag="base"):
    """The log begins here: what follows holds everything that is known, and what is before is not read."""

    reason: str


JobEvent: TypeAlias = (
    ExecutionJobVertexInitializedEvent | ExecutionVertexFinishedEvent | ExecutionVertexResetEvent | LogBaseEvent
)

_EVENT: Final = msgpack_decoder(cast("type[JobEvent]", JobEvent))
_HEADER: Final = msgpack_decoder(SegmentHeader)


class SegmentEnd(Enum):
    """How a segment ends."""

    WHOLE = auto()
    #: The last record is cut short.
    TORN = auto()
    #: A record is not what was written.
    DAMAGED = auto()


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as far as it could be read; the header is None if not even that could be."""

    header: SegmentHeader | None
    events: tuple[JobEvent, ...]
    end: SegmentEnd


def encode_segment(header: SegmentHeader, events: Iterable[bytes], key: bytes | None = None) -> bytes:
    """Return the bytes of a segment.

    Args:
        header: Its header.
        events: Encoded events, see `encode_event`.
        key: The key that signs it; None for digests.
    """
    parts = [JOB_EVENTS.head]
    for payload in (encode(header), *events):
        length = len(payload).to_bytes(_LENGTH_BYTES, "big")
        parts += [length, _digest(length + payload, key), payload]
    return b"".join(parts)


def encode_event(event: JobEvent) -> bytes:
    """Return the bytes of an event."""
    return encode(event)


def decode_segment(data: bytes, path: str, keys: tuple[bytes, ...] = ()) -> Segment:
    """Return what a segment holds, up to the first record that is torn or damaged.

    Args:
        data: The file.
        path: Its name, for messages.
        keys: The keys, one of which must have signed it; without keys there are plain digests.

    Raises:
        UnsupportedFormatError: It is in a format that this version does not read.

    Example:
        >>> whole = encode_segment(SegmentHeader("run", 1), [encode_event(LogBaseEvent("a test"))])
        >>> decode_segment(whole, "a/1").events, decode_segment(whole[:-1], "a/1").end.name
        ((LogBaseEvent(reason='a test'),), 'TORN')
    """
    if JOB_EVENTS.head.startswith(data):
        return Segment(None, (), SegmentEnd.TORN)
    if not data.startswith(JOB_EVENTS.mark):
        return Segment(None, (), SegmentEnd.DAMAGED)
    data = JOB_EVENTS.current(data, path)
    header: SegmentHeader | None = None
    events: list[JobEvent] = []
    place = len(JOB_EVENTS.head)
    end = SegmentEnd.WHOLE
    while place < len(data):
        payload = _record_at(data, place, keys)
        if isinstance(payload, SegmentEnd):
            end = payload
            break
        place += _LENGTH_BYTES + _DIGEST_BYTES + len(payload)
        try:
            if header is None:
                header = _HEADER.decode(payload)
            else:
                events.append(_EVENT.decode(payload))
        except msgspec.MsgspecError:
            end = SegmentEnd.DAMAGED
            break
    if header is None and end is SegmentEnd.WHOLE:
        end = SegmentEnd.TORN
    return Segment(header, tuple(events), end)


def _record_at(data: bytes, place: int, keys: tuple[bytes, ...]) -> bytes | SegmentEnd:
    begin = place + _LENGTH_BYTES + _DIGEST_BYTES
    if begin > len(data):
        return SegmentEnd.TORN
    length = data[place : place + _LENGTH_BYTES]
    payload = data[begin : begin + int.from_bytes(length, "big")]
    if len(payload) < int.from_bytes(length, "big"):
        return SegmentEnd.TORN
    found = data[place + _LENGTH_BYTES : begin]
    if not any(hmac.compare_digest(_digest(length + payload, key), found) for key in keys or (None,)):
        return SegmentEnd.DAMAGED
    return payload


def _digest(data: bytes, key: bytes | None) -> bytes:
    return sha256(data).digest() if key is None else hmac.digest(key, b"penstock job event\n" + data, "sha256")


@dataclass(frozen=True, slots=True)
class EventLog:
    """What the segments of a job's log say together."""

    events: tuple[JobEvent, ...]
    #: Why the replay stops before the end of the log; "" if it does not.
    damage: str = ""
    #: The number of the segment with the first events; 0 without any.
    begins: int = 0


def read_log(segments: Iterable[tuple[int, Segment]], first: int) -> EventLog:
    """Return the events of a log in their order.

    A torn record ends the part of its run. It is damage if the same run has gone on behind it, and so is a missing
    number: what follows may build on what is lost. A segment of an older takeover than the one before it is of a fenced
    driver, and does not count.

    Args:
        segments: The segments by number, rising.
        first: The id of the takeover since which events count.
    """
    reading, has_begun = _LogReading(first), False
    for number, segment in segments:
        # Before it are those of an earlier attempt at the job.
        has_begun = has_begun or (segment.header is not None and segment.header.takeover >= first)
        if has_begun:
            reading.add(number, segment)
    return reading.log


class _LogReading:
    """Reads the segments of a log, one after the other."""

    def __init__(self, first: int) -> None:
        self._events: list[JobEvent] = []
        self._damage = self._torn_run = ""
        self._last = 0
        self._takeover = first
        #: The segment with the first events, and the one that it is by the headers.
        self._begins = self._expected = 0
        self._has_base = False

    @property
    def log(self) -> EventLog:
        """What was read."""
        expected = self._expected
        if expected and self._begins > expected and not self._has_base:
            return EventLog((), f"segment {expected}, with which the events begin, is missing or damaged")
        return EventLog(tuple(self._events), self._damage, self._begins)

    def add(self, number: int, segment: Segment) -> None:
        """Read a segment."""
        header = segment.header
        is_fenced = header is not None and header.takeover < self._takeover
        if not is_fenced and any(isinstance(event, LogBaseEvent) for event in segment.events):
            self._events.clear()
            self._damage, self._torn_run, self._begins, self._has_base = "", "", number, True
        else:
            self._damage = self._damage or self._damage_before(number, header)
        self._last = number
        if is_fenced:
            return
        if header is not None:
            self._takeover, self._expected = header.takeover, header.begins
        if not self._damage:
            self._take(number, segment)

    def _damage_before(self, number: int, header: SegmentHeader | None) -> str:
        if self._last and number != self._last + 1:
            return f"segment {self._last + 1} is missing"
        if header is not None and header.run_id == self._torn_run:
            return f"segment {self._last} is cut short"
        return ""

    def _take(self, number: int, segment: Segment) -> None:
        self._begins = self._begins or (number if segment.events else 0)
        self._events += [event for event in segment.events if not isinstance(event, LogBaseEvent)]
        if segment.end is SegmentEnd.DAMAGED:
            self._damage = f"segment {number} is damaged after {len(segment.events)} events"
        elif segment.end is SegmentEnd.TORN and segment.header is not None:
            self._torn_run = segment.header.run_id
