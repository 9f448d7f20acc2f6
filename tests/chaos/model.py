"""What the operators of random jobs make of their records, in plain Python."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.chaos.operators import BUCKET_MS, END_MS, GAP_MS, REACH_MS, SLIDE_MS, SLIDING_MS, bucket_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.chaos.jobs import Job

Records = list[Any]


def grouped(records: Records, place: Callable[[Any], Any]) -> dict[Any, Records]:
    groups: dict[Any, Records] = defaultdict(list)
    for record in records:
        groups[place(record)].append(record)
    return groups


def counted(records: Records, *, only_last: bool) -> Records:
    """Number the records of each key."""
    groups = grouped(records, lambda record: record[0]).items()
    return [
        (key, count, count, None)
        for key, found in groups
        for count in range(len(found) if only_last else 1, len(found) + 1)
    ]


def numbers(records: Records) -> tuple[int, ...]:
    return tuple(sorted(record[2] for record in records))


def in_windows(records: Records, starts: Callable[[int], Iterable[int]], size: int) -> Records:
    """Return a result for each key and window."""
    placed = [((record[0], start), record) for record in records for start in starts(record[1])]
    return [
        (key, start + size - 1, sum(of_window), (start, of_window))
        for (key, start), found in grouped(placed, lambda pair: pair[0]).items()
        for of_window in (numbers([record for _, record in found]),)
    ]


class TouchingSessionsError(Exception):
    """A session begins when another one ends: whether they are one is decided by when the watermark comes."""


def in_sessions(records: Records) -> Records:
    results: Records = []
    for key, found in grouped(records, lambda record: record[0]).items():
        session: Records = []
        for record in [*sorted(found, key=lambda record: record[1]), None]:
            if session and record is not None and record[1] == session[-1][1] + GAP_MS:
                raise TouchingSessionsError
            if session and (record is None or record[1] > session[-1][1] + GAP_MS):
                of_window, start = numbers(session), session[0][1]
                results.append((key, session[-1][1] + GAP_MS - 1, sum(of_window), (start, of_window)))
                session = []
            session.append(record)
    return results


def gathered(records: Records) -> Records:
    groups = grouped(records, lambda record: (record[0], bucket_end(record[1]))).items()
    return [(key, end, sum(numbers(found)), numbers(found)) for (key, end), found in groups]


def met(left: Records, right: Records) -> Records:
    """Return the numbers of both sides for each key and bucket."""
    placed = [(side, record) for side, records in enumerate((left, right)) for record in records]
    results: Records = []
    for (key, end), found in grouped(placed, lambda pair: (pair[1][0], bucket_end(pair[1][1]))).items():
        both = tuple(numbers([record for side, record in found if side == which]) for which in (0, 1))
        results.append((key, end, sum(map(sum, both)), both))
    return results


def paired(left: Records, right: Records, stamp: Callable[[int, int], int | None]) -> Records:
    """Return the pairs of records of one key that meet, with the stamp of the pair."""
    pairs = ((one, other, stamp(one[1], other[1])) for one in left for other in right if one[0] == other[0])
    return [(one[0], when, one[2] + other[2], (one[2], other[2])) for one, other, when in pairs if when is not None]


def ruled(records: Records, rules: Records) -> Records:
    largest: dict[int, int] = {}
    for rule in rules:
        largest[rule[2] % 3] = max(largest.get(rule[2] % 3, 0), rule[2])
    return [(record[0], END_MS, record[2], largest.get(record[2] % 3)) for record in records]


def doubled(records: Records) -> Records:
    return [(k, s, 2 * n, v) for k, s, n, v in records for _ in range(1 + n % 2)]


#: For one input or two: what comes out; of an operator with a side output, the main one.
MODEL: dict[str, Callable[..., Records]] = {
    "map": lambda records: [(k, s, n + 1, v) for k, s, n, v in records],
    "filter": lambda records: [record for record in records if record[2] % 3],
    "flat map": lambda records: records + [(k, s, n + 1_000, None) for k, s, n, _ in records if n % 2],
    "other key": lambda records: [(f"k{n % 3}", s, n, v) for _, s, n, v in records],
    "async": doubled,
    "async in order": doubled,
    "side output": lambda records: [record for record in records if record[2] % 2 == 0],
    "held back": lambda records: records,
    "count": lambda records: counted(records, only_last=False),
    "time to live": lambda records: counted(records, only_last=False),
    "reduce": lambda records: counted(records, only_last=False),
    "timers": gathered,
    "tumbling": lambda records: in_windows(records, lambda s: [s - s % BUCKET_MS], BUCKET_MS),
    "sliding": lambda records: in_windows(
        records, lambda s: range(s - s % SLIDE_MS - SLIDING_MS + SLIDE_MS, s + 1, SLIDE_MS), SLIDING_MS
    ),
    "sessions": in_sessions,
    "union": lambda left, right: left + right,
    "connect": lambda left, right: (
        [(k, s, n, ("left", v)) for k, s, n, v in left] + [(k, s, n, ("right", v)) for k, s, n, v in right]
    ),
    "connect by key": met,
    "broadcast": ruled,
    "window join": lambda left, right: paired(
        left, right, lambda one, other: bucket_end(one) if bucket_end(one) == bucket_end(other) else None
    ),
    "co-group": met,
    "interval join": lambda left, right: paired(
        left, right, lambda one, other: max(one, other) if abs(one - other) <= REACH_MS else None
    ),
}


def streams(job: Job, inputs: list[Records]) -> list[Records]:
    """Return the records of all streams of a job.

    Args:
        job: The job.
        inputs: What its sources have read.
    """
    found = list(inputs)
    for operator in job.operators:
        taken = [found[number] for number in operator.inputs]
        if operator.kind == "reduce" and job.batch:
            found.append(counted(*taken, only_last=True))
        else:
            found.append(MODEL[operator.kind](*taken))
        if operator.kind == "side output":
            found.append([record for record in taken[0] if record[2] % 2])
    return found
