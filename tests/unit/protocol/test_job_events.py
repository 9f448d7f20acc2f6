"""The log of a batch job's events: cut at every byte, damaged at every byte, and in segments of several drivers."""

from __future__ import annotations

import pytest

from penstock._engine.protocol.job_events import (
    ExecutionJobVertexInitializedEvent,
    ExecutionVertexResetEvent,
    JobEvent,
    LogBaseEvent,
    Segment,
    SegmentEnd,
    SegmentHeader,
    decode_segment,
    encode_event,
    encode_segment,
    read_log,
)

PATH = "/results/job/events/1"
HEADER = SegmentHeader("run", 3)
EVENTS: list[JobEvent] = [
    ExecutionJobVertexInitializedEvent(1, (0, 1, 2, 5, 8), {0: 77}),
    ExecutionVertexResetEvent(((0, 1), (2, 3)), "lost"),
    ExecutionJobVertexInitializedEvent(2, (0, 1)),
]


def stored(*events: JobEvent, header: SegmentHeader = HEADER, key: bytes | None = None) -> bytes:
    return encode_segment(header, map(encode_event, events), key)


@pytest.mark.behaviour(137)
@pytest.mark.behaviour(139)
def test_a_log_that_is_cut_at_any_byte_gives_the_whole_events_before_the_cut() -> None:
    whole = stored(*EVENTS)
    assert decode_segment(whole, PATH) == Segment(HEADER, tuple(EVENTS), SegmentEnd.WHOLE)
    ends = [len(stored(*EVENTS[:count])) for count in range(len(EVENTS) + 1)]
    for cut in range(len(whole)):
        found = decode_segment(whole[:cut], PATH)
        count = sum(end <= cut for end in ends[1:])
        assert found.events == tuple(EVENTS[:count]), cut
        assert (found.header is None) == (cut < ends[0]), cut
        assert found.end is (SegmentEnd.WHOLE if cut in ends else SegmentEnd.TORN), cut


def test_a_log_that_is_changed_at_any_byte_gives_nothing_behind_that_and_says_so() -> None:
    whole = stored(*EVENTS)
    ends = [len(stored(*EVENTS[:count])) for count in range(len(EVENTS) + 1)]
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x40
        if place == 7:  # the number of the format
            continue
        found = decode_segment(bytes(changed), PATH)
        assert found.events == tuple(EVENTS[: sum(end <= place for end in ends[1:])]), place
        assert found.end is not SegmentEnd.WHOLE, place


def test_only_an_owner_of_a_key_writes_a_log() -> None:
    signed = stored(*EVENTS, key=b"a key of the user")
    assert decode_segment(signed, PATH, (b"a new key", b"a key of the user")).events == tuple(EVENTS)
    for keys in ((b"another key",), ()):
        assert decode_segment(signed, PATH, keys) == Segment(None, (), SegmentEnd.DAMAGED)
    assert decode_segment(stored(*EVENTS), PATH, (b"a key of the user",)).header is None


def segment(run: str, takeover: int, *events: JobEvent, end: SegmentEnd = SegmentEnd.WHOLE, begins: int = 0) -> Segment:
    return Segment(SegmentHeader(run, takeover, begins), events, end)


ONE, TWO, THREE = EVENTS
DAMAGED = segment("a", 1, ONE, end=SegmentEnd.DAMAGED)
LOST = Segment(None, (), SegmentEnd.DAMAGED)


@pytest.mark.behaviour(139)
@pytest.mark.parametrize(
    ("segments", "expected", "damage"),
    [
        ([segment("a", 1, ONE), segment("a", 1, TWO)], [ONE, TWO], ""),
        ([segment("a", 1, ONE), segment("b", 5), segment("b", 5, TWO)], [ONE, TWO], ""),
        # What a killed driver wrote last may be torn; if it has written more behind it, something is lost.
        ([segment("a", 1, ONE, end=SegmentEnd.TORN), segment("b", 5, TWO)], [ONE, TWO], ""),
        ([segment("a", 1, ONE, end=SegmentEnd.TORN), segment("a", 1, TWO)], [ONE], "segment 1 is cut short"),
        (
            [DAMAGED, segment("b", 5, TWO)],
            [ONE],
            "segment 1 is damaged after 1 events",
        ),
        # A new base makes good for what is before it.
        (
            [
                DAMAGED,
                segment("b", 5, LogBaseEvent("damage"), TWO),
                segment("b", 5, THREE),
            ],
            [TWO, THREE],
            "",
        ),
        # Events of takeovers before the first one are of an earlier attempt at the job.
        ([segment("z", 0, THREE), segment("a", 1, ONE)], [ONE], ""),
        ([LOST, segment("a", 1, ONE)], [ONE], ""),
        # A log whose beginning is lost holds nothing: what is left builds on it.
        ([LOST, segment("a", 1, ONE, begins=2)], [ONE], ""),
        ([LOST, LOST, segment("a", 1, ONE, begins=2)], [], "segment 2, with which the events begin, is missing"),
        ([LOST, LOST, segment("b", 5, begins=2)], [], ""),
        ([LOST, LOST, segment("b", 5), segment("b", 5, ONE, begins=2)], [], "segment 2, with which the events begin"),
        ([LOST, LOST, segment("b", 5, LogBaseEvent("damage"), ONE, begins=2)], [ONE], ""),
        # What a fenced driver has put behind a later one, which has ended the job, does not count.
        ([segment("b", 5), segment("b", 5, ONE), segment("a", 1, TWO), segment("b", 5, THREE)], [ONE, THREE], ""),
        ([segment("b", 5, ONE), segment("a", 1, LogBaseEvent("damage"), TWO)], [ONE], ""),
    ],
)
def test_segments_of_drivers_are_one_log(segments: list[Segment], expected: list[JobEvent], damage: str) -> None:
    log = read_log(enumerate(segments, 1), 1)
    assert list(log.events) == expected
    assert log.damage.startswith(damage) if damage else not log.damage


def test_a_missing_segment_ends_the_log() -> None:
    for third in (segment("a", 1, TWO), segment("z", 0)):
        log = read_log([(1, segment("a", 1, ONE)), (3, third), (4, segment("a", 1, TWO))], 1)
        assert (log.events, log.damage) == ((ONE,), "segment 2 is missing")
