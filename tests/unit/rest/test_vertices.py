"""What the API says of vertices, subtasks and metrics."""

from __future__ import annotations

import pytest
from tests.unit.rest.fakes import JOB, OTHER, READ, START, WRITE, Api, FakeControl, at, ended, job

from penstock._engine.gateway.job_view import SubtaskView
from penstock._engine.protocol.control import IOMetrics
from penstock.common.job_status import JobStatus

AT = f"/v1/jobs/{JOB}/vertices/{READ}"
WAY = {"CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING"}


@pytest.fixture
def api() -> Api:
    return Api(FakeControl())


def test_a_vertex_has_its_subtasks_and_the_times_that_flinks_class_needs(api: Api) -> None:
    vertex = api.get(AT)
    first = vertex["subtasks"][0]
    assert set(first["status-duration"]) == WAY
    assert first["start-time"] == first["start_time"] == START + 20
    assert (first["end-time"], first["duration"]) == (-1, 9980)
    assert first["metrics"]["read-records"] == 100
    assert vertex["aggregated"]["metrics"]["read-records"] == {"min": 100.0, "max": 100.0, "avg": 100.0, "sum": 200.0}
    assert set(vertex["aggregated"]["status-duration"]) == WAY


def test_before_a_job_runs_its_subtasks_have_reached_nothing() -> None:
    view = job(status=JobStatus.INITIALIZING, status_times={JobStatus.INITIALIZING: at(0)})
    first = Api(FakeControl(view)).get(AT)["subtasks"][0]
    assert (first["status"], first["start-time"]) == ("CREATED", -1)
    assert set(first["status-duration"].values()) == {-1}


def test_when_subtasks_were_in_which_state() -> None:
    stamps = Api(FakeControl(ended(JobStatus.CANCELED))).get(f"{AT}/subtasktimes")["subtasks"][0]["timestamps"]
    assert (stamps["CREATED"], stamps["RUNNING"], stamps["CANCELED"]) == (START + 10, START + 20, START + 5000)
    assert stamps["FINISHED"] == 0


def test_one_row_stands_for_all_executors(api: Api) -> None:
    (row,) = api.get(f"{AT}/taskmanagers")["taskmanagers"]
    assert row["status-counts"]["RUNNING"] == 2


def test_watermarks_are_texts(api: Api) -> None:
    assert api.get(f"{AT}/watermarks") == [
        {"id": "0.currentInputWatermark", "value": "5"},
        {"id": "1.currentInputWatermark", "value": "5"},
    ]


def test_how_busy_subtasks_are(api: Api) -> None:
    answer = api.get(f"{AT}/backpressure")
    assert (answer["status"], answer["backpressureLevel"], answer["backpressure-level"]) == ("ok", "ok", "ok")
    assert answer["subtasks"][0]["busyRatio"] == 0.25
    assert answer["subtasks"][0]["idleRatio"] == 0.75


def test_time_of_a_subtask_is_work_waiting_for_others_or_idle() -> None:
    # Milliseconds of the last epoch: busy, behind its turn, between two ends; and what is told of it.
    for busy, waited, whole, ratios, level in (
        (250, 0, 1000, (0.25, 0.0, 0.75), "ok"),
        (250, 100, 1000, (0.25, 0.1, 0.65), "ok"),
        (250, 500, 1000, (0.25, 0.5, 0.25), "low"),
        (250, 600, 1000, (0.25, 0.6, 0.15), "high"),
        (900, 600, 1000, (0.9, 0.1, 0.0), "ok"),
        (2000, 600, 1000, (1.0, 0.0, 0.0), "ok"),
        (250, 600, 0, (0.0, 0.0, 1.0), "ok"),
    ):
        figures = SubtaskView(last_io=IOMetrics(busy_ms=busy), last_waited_ms=waited)
        view = job(subtasks=((figures, SubtaskView()), job().subtasks[1]), last_interval_ms=whole)
        api = Api(FakeControl(view))
        answer = api.get(f"{AT}/backpressure")
        first = answer["subtasks"][0]
        told = first["busyRatio"], first["ratio"], first["idleRatio"]
        assert told == pytest.approx(ratios), (busy, waited)
        assert (answer["backpressure-level"], first["backpressureLevel"]) == (level, level), (busy, waited)
        assert "levels below" in answer["penstock"]["ratio"]
        names = ",".join(f"0.{name}TimeMsPerSecond" for name in ("busy", "backPressured", "idle"))
        metrics = api.get(f"{AT}/metrics?get={names}")
        assert [int(metric["value"]) for metric in metrics] == [pytest.approx(ratio * 1000) for ratio in ratios]


def test_a_subtask(api: Api) -> None:
    assert api.get(f"{AT}/subtasks/1")["subtask"] == 1
    assert "Invalid subtask index" in api.error("GET", f"{AT}/subtasks/2", 404)
    assert "(subtaskindex)" in api.error("GET", f"{AT}/subtasks/first", 400)
    assert api.get(f"{AT}/accumulators") == {"id": READ, "user-accumulators": []}


@pytest.mark.parametrize("path", ["", "/subtasktimes", "/watermarks", "/backpressure", "/metrics", "/subtasks/metrics"])
def test_an_unknown_vertex_is_not_found(api: Api, path: str) -> None:
    assert api.error("GET", f"/v1/jobs/{JOB}/vertices/{OTHER}{path}", 404) == f"JobVertex {OTHER} not found"


def test_metrics_are_names_or_texts(api: Api) -> None:
    names = [metric["id"] for metric in api.get(f"/v1/jobs/{JOB}/metrics")]
    assert {"uptime", "numRestarts", "lastCheckpointExternalPath"} <= set(names)
    chosen = api.get(f"/v1/jobs/{JOB}/metrics?get=numRestarts,nothing,uptime")
    assert chosen == [{"id": "numRestarts", "value": "1"}, {"id": "uptime", "value": "9980"}]
    assert api.get("/v1/jobmanager/metrics?get=numRunningJobs") == [{"id": "numRunningJobs", "value": "1"}]


def test_metrics_of_a_vertex_have_the_subtask_before_the_name(api: Api) -> None:
    chosen = api.get(f"{AT}/metrics?get=0.numRecordsIn,1.numRecordsInPerSecond,0.Source___numbers_.seen")
    assert {metric["id"]: metric["value"] for metric in chosen} == {
        "0.numRecordsIn": "100",
        "1.numRecordsInPerSecond": "10.0",
        "0.Source___numbers_.seen": "3.0",
    }
    assert api.get(f"{AT}/subtasks/0/metrics?get=busyTimeMsPerSecond") == [
        {"id": "busyTimeMsPerSecond", "value": "250"}
    ]


def test_metrics_over_subtasks_and_jobs(api: Api) -> None:
    (metric,) = api.get(f"{AT}/subtasks/metrics?get=numRecordsIn&agg=min,sum")
    assert metric == {"id": "numRecordsIn", "min": 100.0, "sum": 200.0}
    (metric,) = api.get(f"{AT}/subtasks/metrics?get=numRecordsIn&subtasks=1-9&agg=sum")
    assert metric["sum"] == 100.0
    (metric,) = api.get("/v1/jobs/metrics?get=numRestarts")
    assert metric == {"id": "numRestarts", "min": 1.0, "max": 1.0, "avg": 1.0, "sum": 1.0, "skew": 0.0}
    assert api.get(f"/v1/jobs/metrics?get=numRestarts&jobs={OTHER}") == []
    assert {"id": "uptime"} in api.get("/v1/jobs/metrics")


def test_prometheus_gets_flinks_names(api: Api) -> None:
    answer = api.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    completed = next(line for line in lines if line.startswith("flink_jobmanager_job_numberOfCompletedCheckpoints{"))
    assert f'job_id="{JOB}",job_name="count_words"' in completed
    assert completed.endswith(" 4.0")
    task = next(line for line in lines if line.startswith("flink_taskmanager_job_task_numRecordsIn{"))
    assert f'task_id="{READ}"' in task
    assert 'subtask_index="0"' in task
    assert any(line.startswith("flink_taskmanager_job_task_operator_seen{") for line in lines)
    assert "n/a" not in answer.text
    types = [line for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types))


def test_a_vertex_that_has_finished_says_so() -> None:
    view = job()
    done = tuple(type(one)(finished=True, finished_at=at(100)) for one in view.subtasks[0])
    vertices = Api(FakeControl(job(subtasks=(done, view.subtasks[1])))).get(f"/v1/jobs/{JOB}")["vertices"]
    assert [(vertex["id"], vertex["status"]) for vertex in vertices] == [(READ, "FINISHED"), (WRITE, "RUNNING")]
    assert vertices[0]["end-time"] == START + 100


def test_a_vertex_has_ended_when_its_last_subtask_has() -> None:
    view = job()
    first, last = (
        type(one)(finished=True, finished_at=at(ms)) for one, ms in zip(view.subtasks[0], (100, 300), strict=True)
    )
    for subtasks, end, duration in (
        ((first, last), START + 300, 280),
        ((last, first), START + 300, 280),
        ((first, view.subtasks[0][1]), -1, 9980),
    ):
        api = Api(FakeControl(job(subtasks=(subtasks, view.subtasks[1]))))
        (row,) = api.get(f"{AT}/taskmanagers")["taskmanagers"]
        for told in (api.get(f"/v1/jobs/{JOB}")["vertices"][0], row):
            assert (told["start-time"], told["end-time"], told["duration"]) == (START + 20, end, duration)
