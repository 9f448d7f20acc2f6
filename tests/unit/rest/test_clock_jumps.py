"""What the API says of a job whose machine's clock was set: other times of day, and nothing else."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.unit.rest.fakes import JOB, READ, Api, FakeControl, ended, job

from penstock._engine.protocol.clocks import Moment
from penstock._engine.rest.archive import archive
from penstock.common.job_status import JobStatus

DAY_MS = 86_400_000
AT = f"/v1/jobs/{JOB}"
METRICS = "uptime,downtime,runningTime,restartingTime,lastCheckpointDuration,numRestarts"
PATHS = [
    "/v1/jobs/overview",
    AT,
    f"{AT}/execution-result",
    f"{AT}/exceptions",
    f"{AT}/checkpoints",
    f"{AT}/checkpoints/details/4",
    f"{AT}/checkpoints/details/4/subtasks/{READ}",
    f"{AT}/metrics?get={METRICS}",
    f"{AT}/vertices/{READ}",
    f"{AT}/vertices/{READ}/subtasktimes",
    f"{AT}/vertices/{READ}/taskmanagers",
]
#: What a time of day is called.
TIMES_OF_DAY = {
    "start-time",
    "start_time",
    "end-time",
    "now",
    "last-modification",
    "timestamp",
    "timestamps",
    "trigger_timestamp",
    "latest_ack_timestamp",
    "failure_timestamp",
}


def with_a_clock_that_is_set(value: Any, jumps_ms: Iterator[int]) -> Any:
    """Return data with another time of day for each moment in it."""
    match value:
        case Moment():
            return dataclasses.replace(value, now_ms=value.now_ms + next(jumps_ms))
        case tuple():
            return tuple(with_a_clock_that_is_set(item, jumps_ms) for item in value)
        case Mapping():
            return {key: with_a_clock_that_is_set(item, jumps_ms) for key, item in value.items()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            members = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            changed = {name: with_a_clock_that_is_set(item, jumps_ms) for name, item in members.items()}
            return dataclasses.replace(value, **changed)
        case _:
            return value


def leaves(answer: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(answer, dict):
        for key, value in answer.items():
            yield from leaves(value, (*path, key))
    elif isinstance(answer, list):
        for place, value in enumerate(answer):
            yield from leaves(value, (*path, str(place)))
    else:
        yield path, answer


@pytest.mark.parametrize("view", [job(), ended(JobStatus.FINISHED)], ids=["running", "ended"])
@pytest.mark.parametrize("jumps_ms", [(-DAY_MS, 0), (0, -DAY_MS, DAY_MS), (-3_600_000, -60_000, -1_000)])
def test_only_times_of_day_differ_where_the_clock_was_set(view: Any, jumps_ms: tuple[int, ...]) -> None:
    shaken = with_a_clock_that_is_set(view, itertools.cycle(jumps_ms))
    differing: set[str] = set()
    for path in PATHS:
        answers = [dict(leaves(Api(FakeControl(one)).get(path))) for one in (view, shaken)]
        assert answers[0].keys() == answers[1].keys()
        differing |= {
            next(part for part in reversed(leaf) if not part.isupper())
            for leaf, value in answers[0].items()
            if answers[1][leaf] != value
        }
    assert "start-time" in differing
    assert differing <= TIMES_OF_DAY


def test_the_archive_of_a_job_has_durations_of_the_time_that_passed() -> None:
    view = ended(JobStatus.FINISHED)
    shaken = with_a_clock_that_is_set(view, itertools.cycle((0, -DAY_MS, DAY_MS)))
    durations = [[part for part in archive(one).split(b",") if b"duration" in part] for one in (view, shaken)]
    assert durations[0] == durations[1]
    assert len(durations[0]) > 10
