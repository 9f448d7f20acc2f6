"""Metrics over time: what is sampled, how much of it is kept, and what the API tells."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.rest.fakes import JOB, READ, START, WRITE, Api, FakeControl, at, ended, job

from penstock._engine.protocol.control import IOMetrics
from penstock._engine.rest.archive import answers_of, archive
from penstock._engine.rest.metric_history import MetricHistory
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from penstock._engine.gateway.job_view import JobView


class Sampled:
    """A job that is sampled at times that a test chooses, behind the API."""

    def __init__(self, view: JobView | None = None) -> None:
        self.control = FakeControl(job() if view is None else view)
        self.now_ms = 0
        self.figures = MetricHistory(self.control, lambda: at(self.now_ms))  # type: ignore[arg-type]
        self.api = Api()
        self.api.context.jobs.add(self.control, self.figures)  # type: ignore[arg-type]

    def epoch(self, now_ms: int, records: int = 0) -> None:
        self.now_ms = now_ms
        first = replace(self.control.view.subtasks[0][0], last_io=IOMetrics(records_out=records, busy_ms=100))
        rows = ((first, first), *self.control.view.subtasks[1:])
        self.control.view = replace(self.control.view, subtasks=rows)
        self.figures.on_progress(self.control.view.progress)


def test_series_of_a_vertex_are_over_its_subtasks_with_those_of_the_users_functions() -> None:
    sampled = Sampled()
    for second, records in enumerate((5, 7, 9)):
        sampled.epoch(second * 1000, records)
    path = f"/v1/jobs/{JOB}/vertices/{READ}/penstock/metrics"
    names = {one["id"] for one in sampled.api.get(path)}
    assert {"numRecordsOutPerSecond", "busyTimeMsPerSecond", "watermarkLag", "stateSize"} <= names
    wanted = "numRecordsOutPerSecond,busyTimeMsPerSecond,currentOutputWatermark,watermarkLag,stateSize"
    series = {one["id"]: one for one in sampled.api.get(f"{path}?get={wanted},Source___numbers_.seen,nothing")}
    assert series["numRecordsOutPerSecond"] == {
        "id": "numRecordsOutPerSecond",
        "start": START,
        "offsets": [0, 1000, 2000],
        "values": [10.0, 14.0, 18.0],
    }
    assert series["busyTimeMsPerSecond"]["values"] == [100.0] * 3
    assert series["currentOutputWatermark"]["values"] == [4.0] * 3
    assert series["watermarkLag"]["values"] == [START - 4.0, START + 996.0, START + 1996.0]
    assert series["stateSize"]["values"] == [200.0] * 3
    assert series["Source___numbers_.seen"]["values"] == [6.0] * 3
    assert "nothing" not in series
    write = f"/v1/jobs/{JOB}/vertices/{WRITE}/penstock/metrics"
    assert "watermarkLag" not in {one["id"] for one in sampled.api.get(write)}  # it has no watermark yet


def test_series_of_a_job_have_its_checkpoints() -> None:
    sampled = Sampled()
    sampled.epoch(0)
    path = f"/v1/jobs/{JOB}/penstock/metrics"
    series = {one["id"]: one["values"] for one in sampled.api.get(f"{path}?get=lastCheckpointDuration,numRestarts")}
    assert series == {"lastCheckpointDuration": [350.0], "numRestarts": [1.0]}


@pytest.mark.parametrize("between_ms", [100, 500, 3_000, 7_000, 8_000, 60_000])
def test_samples_cover_the_last_hour_and_are_few(between_ms: int) -> None:
    sampled, hours = Sampled(), 2
    for now_ms in range(0, hours * 3_600_000, between_ms):
        sampled.now_ms = now_ms
        sampled.figures.on_progress(sampled.control.view.progress)
    times = [one.at.passed_ms for one in sampled.figures.samples]
    assert len(times) <= 450
    assert times == sorted(set(times))
    assert times[0] <= sampled.now_ms - 3_600_000 + 60_000
    assert sampled.now_ms - times[-1] <= max(17_000, between_ms)
    assert max(b - a for a, b in itertools.pairwise(times)) <= max(17_000, between_ms)


def test_archive_keeps_the_samples() -> None:
    sampled = Sampled()
    for second in range(3):
        sampled.epoch(second * 1000, 5)
    answers = answers_of(archive(ended(JobStatus.FINISHED), sampled.figures))
    assert answers is not None
    assert (
        b'"numRecordsOutPerSecond","start":1000000,"offsets":[0,1000,2000]'
        in answers[f"/jobs/{JOB}/vertices/{READ}/penstock/metrics"]
    )


def test_job_without_samples_has_no_series() -> None:
    assert Api(FakeControl()).get(f"/v1/jobs/{JOB}/penstock/metrics") == []
