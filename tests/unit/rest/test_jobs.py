"""What the API says of jobs, in the shapes that Flink's clients read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.rest.fakes import COUNTED, JOB, OTHER, READ, START, WRITE, Api, FakeControl, ended, job

from penstock._engine.gateway.recovery_view import RecoveryView
from penstock._engine.rest.archive import archive
from penstock.common.job_status import JobStatus
from penstock.errors import JobCancelledError


@pytest.fixture
def control() -> FakeControl:
    return FakeControl()


@pytest.fixture
def api(control: FakeControl) -> Api:
    return Api(control)


@pytest.mark.behaviour(172)
def test_a_path_works_with_and_without_the_version(api: Api) -> None:
    assert api.get("/v1/jobs") == api.get("/jobs") == {"jobs": [{"id": JOB, "status": "RUNNING"}]}


def test_runs_of_one_job_that_go_on_at_the_same_time_are_all_listed() -> None:
    older, younger = FakeControl(), FakeControl(replace(job(), run_id="88" * 16))
    api = Api(older, younger)
    assert [row["jid"] for row in api.get("/v1/jobs/overview")["jobs"]] == [JOB, JOB]
    younger.view = replace(ended(JobStatus.FAILED), run_id=younger.view.run_id)
    assert [row["state"] for row in api.get("/v1/jobs/overview")["jobs"]] == ["RUNNING"]
    assert api.get(f"/v1/jobs/{JOB}")["state"] == "RUNNING"
    older.view = ended(JobStatus.FINISHED)
    assert [row["state"] for row in api.get("/v1/jobs/overview")["jobs"]] == ["FAILED"]  # that of the last run


def test_a_get_may_have_a_body_and_it_is_ignored(api: Api) -> None:
    headers = {"content-type": "application/json; charset=UTF-8"}
    assert api.get("/v1/jobs/overview", content=b"{}", headers=headers)["jobs"][0]["jid"] == JOB


def test_a_recovered_batch_job_says_what_it_has_taken_up_and_which_stage_runs() -> None:
    plan = replace(job().plan, job_type="BATCH")
    known = RecoveryView(3, recovered={0: 2}, ran_again={1: 1}, damage="segment 3 is missing")
    details = Api(FakeControl(replace(job(), plan=plan, stage=frozenset({1}), recovery=known))).get(f"/v1/jobs/{JOB}")
    told = {"recorded": 3, "recovered": {READ: 2}, "ran_again": {WRITE: 1}, "damage": "segment 3 is missing"}
    assert details["penstock"]["recovery"] == told
    assert [vertex["status"] for vertex in details["vertices"]] == ["CREATED", "RUNNING"]


def test_the_overview_has_all_that_flinks_list_reads(api: Api) -> None:
    (row,) = api.get("/v1/jobs/overview")["jobs"]
    tasks = dict.fromkeys(("created", "scheduled", "deploying", "finished", "canceling", "canceled", "failed"), 0)
    assert row.pop("tasks") == tasks | {"total": 4, "running": 4, "reconciling": 0, "initializing": 0}
    assert row.pop("penstock")["pending_commits"] == {"out": 2}
    assert row == {
        "jid": JOB,
        "name": "count words",
        "jobType": "STREAMING",
        "schedulerType": "Default",
        "start-time": START,
        "end-time": -1,
        "duration": 10_000,
        "state": "RUNNING",
        "last-modification": START + 20,
        "pending-operators": 0,
    }


def test_a_batch_job_is_shown_as_one_wherever_flink_shows_it() -> None:
    view = job()
    api = Api(FakeControl(replace(view, plan=replace(view.plan, job_type="BATCH"))))
    assert api.get("/v1/jobs/overview")["jobs"][0]["jobType"] == "BATCH"
    assert api.get(f"/v1/jobs/{JOB}")["job-type"] == "BATCH"
    assert api.get(f"/v1/jobs/{JOB}/plan")["plan"]["type"] == "BATCH"


@pytest.mark.behaviour(172)
def test_details_have_flinks_members_and_no_stream_graph(api: Api) -> None:
    details = api.get(f"/v1/jobs/{JOB}")
    assert "stream-graph" not in details
    assert details["application-id"] == details["jid"] == JOB
    assert details["timestamps"] == {status.name: 0 for status in JobStatus} | {
        "INITIALIZING": START,
        "CREATED": START + 10,
        "RUNNING": START + 20,
    }
    assert details["status-counts"]["RUNNING"] == 2
    read, write = details["vertices"]
    assert (read["id"], write["id"]) == (READ, WRITE)
    assert read["tasks"]["RUNNING"] == read["parallelism"] == 2
    assert read["metrics"] == {
        "read-bytes": 0,
        "read-bytes-complete": True,
        "write-bytes": 1800,
        "write-bytes-complete": True,
        "read-records": 200,
        "read-records-complete": True,
        "write-records": 180,
        "write-records-complete": True,
        "accumulated-backpressured-time": 0,
        "accumulated-idle-time": 7900,
        "accumulated-busy-time": 100.0,
    }


def test_the_plan_escapes_names_and_leaves_inputs_of_sources_out(api: Api) -> None:
    plan = api.get(f"/v1/jobs/{JOB}/plan")["plan"]
    assert plan == api.get(f"/v1/jobs/{JOB}")["plan"]
    write, read = plan["nodes"]
    assert "inputs" not in read
    assert read["description"] == "Source: &lt;numbers&gt;"
    assert write["inputs"] == [{"id": READ, "num": 0, "exchange": "pipelined_bounded", "ship_strategy": "HASH"}]
    assert write["penstock"][0] == {"uid": "write", "name": "Sum", "created_at": "job.py:2"}


@pytest.mark.behaviour(172)
def test_an_unknown_job_is_not_found(api: Api) -> None:
    for path in ("", "/status", "/plan", "/config", "/exceptions", "/checkpoints", "/accumulators"):
        assert api.error("GET", f"/v1/jobs/{OTHER}{path}", 404) == f"Job {OTHER} not found"
    assert api.error("PATCH", f"/v1/jobs/{OTHER}", 404) == "Job could not be found."
    assert api.error("GET", f"/v1/jobs/{OTHER}/execution-result", 404) == f"Could not find Flink job ({OTHER})"
    assert api.get(f"/v1/jobs/{OTHER}/metrics") == []


def test_an_id_that_is_none_is_a_bad_request(api: Api) -> None:
    text = 'Bad request, could not parse parameters: Cannot resolve path parameter (jobid) from value "zzz".'
    assert api.error("GET", "/v1/jobs/zzz", 400) == text
    assert api.error("GET", f"/v1/jobs/{JOB.upper()}", 400).endswith(f'from value "{JOB.upper()}".')


def test_a_route_that_is_not_there_is_not_found(api: Api) -> None:
    assert api.error("GET", "/v1/x", 404) == "Unable to load requested file /v1/x."
    assert api.error("POST", "/v1/x", 404) == "Not found: /v1/x"
    assert "not possible" in api.error("DELETE", "/v1/overview", 405)


@pytest.mark.behaviour(173)
def test_cancel_is_asked_for_once_and_answers_at_once(api: Api, control: FakeControl) -> None:
    assert api.send("PATCH", f"/v1/jobs/{JOB}?mode=cancel", 202) == {}
    assert api.send("PATCH", f"/v1/jobs/{JOB}", 202) == {}
    assert api.get(f"/v1/jobs/{JOB}/yarn-cancel", 202) == {}
    assert control.asked == [("cancel",)] * 3


def test_mode_stop_is_gone_and_other_modes_never_were(api: Api, control: FakeControl) -> None:
    assert api.error("PATCH", f"/v1/jobs/{JOB}?mode=stop", 308).startswith('The termination mode "stop" has been rem')
    assert '(mode) from value "kill"' in api.error("PATCH", f"/v1/jobs/{JOB}?mode=kill", 400)
    assert control.asked == []


@pytest.mark.behaviour(171)
@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.FAILED])
def test_cancelling_a_job_that_has_ended_otherwise_is_a_conflict(status: JobStatus) -> None:
    api = Api(FakeControl(ended(status)))
    text = f"the job has already reached another terminal state ({status.name})."
    assert api.error("PATCH", f"/v1/jobs/{JOB}", 409) == f"Job cancellation failed because {text}"


@pytest.mark.behaviour(171)
def test_cancelling_a_cancelled_job_is_accepted() -> None:
    assert Api(FakeControl(ended(JobStatus.CANCELED))).send("PATCH", f"/v1/jobs/{JOB}", 202) == {}


def test_the_result_of_a_running_job_is_not_there_yet(api: Api) -> None:
    assert api.get(f"/v1/jobs/{JOB}/execution-result") == {"status": {"id": "IN_PROGRESS"}}


def test_the_result_of_a_job_that_succeeded_names_no_cause() -> None:
    answer = Api(FakeControl(ended(JobStatus.FINISHED))).get(f"/v1/jobs/{JOB}/execution-result")
    assert answer == {
        "status": {"id": "COMPLETED"},
        "job-execution-result": {
            "id": JOB,
            "application-id": JOB,
            "name": "count words",
            "application-status": "SUCCEEDED",
            "accumulator-results": {},
            "net-runtime": 5000,
            "start-time": START,
            "end-time": START + 5000,
        },
    }


def test_the_result_of_a_job_that_failed_has_the_error() -> None:
    view = ended(JobStatus.FAILED, error="ValueError: bad", error_text="Job failed: ValueError: bad")
    answer = Api(FakeControl(view)).get(f"/v1/jobs/{JOB}/execution-result")["job-execution-result"]
    assert answer["application-status"] == "FAILED"
    assert answer["failure-cause"]["class"] == "ValueError"
    assert answer["failure-cause"]["stack-trace"] == "Job failed: ValueError: bad"


def test_a_failed_job_shows_the_subtask_that_failed() -> None:
    vertices = Api(FakeControl(ended(JobStatus.FAILED))).get(f"/v1/jobs/{JOB}")["vertices"]
    assert [vertex["status"] for vertex in vertices] == ["CANCELED", "FAILED"]
    assert (vertices[1]["tasks"]["FAILED"], vertices[1]["tasks"]["CANCELED"]) == (1, 1)


@pytest.mark.behaviour(176)
def test_failures_have_the_users_exception_operator_and_line_first(api: Api) -> None:
    history = api.get(f"/v1/jobs/{JOB}/exceptions")["exceptionHistory"]
    (entry,) = history["entries"]
    assert history["truncated"] is False
    assert entry["exceptionName"] == "ZeroDivisionError"
    assert entry["taskName"] == "Sum -> Sink: out (2/2) - execution #0"
    lines = entry["stacktrace"].splitlines()
    assert lines[0] == "ZeroDivisionError: division by zero"
    assert "operator 'Sum'" in lines[1]
    assert "job.py:12" in lines[2]
    assert lines[-1] == "Traceback: user line"
    assert entry["penstock"]["record"] == "(7, 0)"


@pytest.mark.behaviour(176)
def test_fewer_failures_than_there_are_is_said() -> None:
    view = job(failures=(job().failures * 3))
    history = Api(FakeControl(view)).get(f"/v1/jobs/{JOB}/exceptions?maxExceptions=2")["exceptionHistory"]
    assert (len(history["entries"]), history["truncated"]) == (2, True)


@pytest.mark.behaviour(172)
def test_a_job_that_ended_long_ago_is_forgotten() -> None:
    api = Api(FakeControl(ended(JobStatus.FINISHED)))
    assert len(api.get("/v1/jobs")["jobs"]) == 1
    api.now_ms += 3_600_000
    assert api.get("/v1/jobs") == {"jobs": []}


def test_a_job_without_an_id_is_not_listed_yet() -> None:
    assert Api(FakeControl(job(job_id=""))).get("/v1/jobs") == {"jobs": []}


def test_of_several_runs_of_a_job_the_last_is_shown() -> None:
    api = Api(FakeControl(ended(JobStatus.FAILED)), FakeControl(job()))
    assert api.get("/v1/jobs") == {"jobs": [{"id": JOB, "status": "RUNNING"}]}


def test_the_cluster_counts_jobs_and_names_flinks_version(api: Api) -> None:
    overview = api.get("/v1/overview")
    assert (overview["jobs-running"], overview["slots-total"], overview["slots-available"]) == (1, 2, 0)
    config = api.get("/v1/config")
    assert config["flink-version"] == overview["flink-version"] == "2.3.0"
    assert config["features"] == {
        "web-submit": False,
        "web-cancel": True,
        "web-rescale": False,
        "web-history": False,
    }


def test_secrets_in_the_configuration_are_hidden(api: Api) -> None:
    assert {"key": "penstock.rest.token", "value": "******"} in api.get(f"/v1/jobs/{JOB}/jobmanager/config")
    assert api.get("/v1/jobmanager/config") == [{"key": "rest.port", "value": "8081"}]


def test_shutting_the_cluster_down_cancels_what_runs(api: Api, control: FakeControl) -> None:
    assert api.send("DELETE", "/v1/cluster", 200) == {}
    assert (control.asked, api.was_shut_down) == ([("cancel",)], True)


def test_parallelisms_cannot_be_changed_but_may_be_confirmed(api: Api) -> None:
    path = f"/v1/jobs/{JOB}/resource-requirements"
    bounds = {"parallelism": {"lowerBound": 2, "upperBound": 2}}
    assert api.get(path) == {READ: bounds, WRITE: bounds}
    assert api.send("PUT", path, 200, json={READ: {"parallelism": {"lowerBound": 1, "upperBound": 4}}}) == {}
    wider = {READ: {"parallelism": {"lowerBound": 3, "upperBound": 4}}}
    assert "keeps its parallelism" in api.error("PUT", path, 400, json=wider)
    assert "keeps its parallelism" in api.error("PATCH", f"/v1/jobs/{JOB}/rescaling?parallelism=3", 400)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/datasets", {"dataSets": []}),
        ("/jobmanager/logs", {"logs": []}),
        (
            f"/jobs/{JOB}/accumulators?includeSerializedValue=true",
            {"job-accumulators": [], "user-task-accumulators": [], "serialized-user-task-accumulators": {}},
        ),
        (f"/jobs/{JOB}/status", {"status": "RUNNING"}),
    ],
)
def test_small_answers(api: Api, path: str, expected: object) -> None:
    assert api.get(f"/v1{path}") == expected


def test_accumulators_are_names_classes_and_texts() -> None:
    shown = [
        {"name": "by kind", "type": "Kinds", "value": "{'a': 1}"},
        {"name": "lines", "type": "IntCounter", "value": "17"},
    ]
    view = replace(job(), **COUNTED)
    api = Api(FakeControl(view))
    assert api.get(f"/v1/jobs/{JOB}/accumulators?includeSerializedValue=true") == {
        "job-accumulators": [],
        "user-task-accumulators": shown,
        "serialized-user-task-accumulators": {},
    }
    assert api.get(f"/v1/jobs/{JOB}/vertices/{READ}/accumulators") == {"id": READ, "user-accumulators": shown}
    assert api.get(f"/v1/jobs/{JOB}/vertices/{WRITE}/accumulators") == {"id": WRITE, "user-accumulators": []}
    answers = {answer["path"]: answer["json"] for answer in json.loads(archive(view))["archive"]}
    assert json.loads(answers[f"/jobs/{JOB}/accumulators"])["user-task-accumulators"] == shown
    assert json.loads(answers[f"/jobs/{JOB}/vertices/{READ}/accumulators"])["user-accumulators"] == shown


def test_where_the_driver_runs_and_what_it_does(api: Api) -> None:
    assert "Python" in api.get("/v1/jobmanager/environment")["jvm"]["version"]
    threads = api.get("/v1/jobmanager/thread-dump")["threadInfos"]
    assert "MainThread" in [thread["threadName"] for thread in threads]


@pytest.mark.parametrize("parameters", ["a:1,b:two", "{a: '1', b: two}"])
def test_settings_of_a_job(parameters: str) -> None:
    view = job(configuration={"pipeline.global-job-parameters": parameters})
    config = Api(FakeControl(view)).get(f"/v1/jobs/{JOB}/config")
    assert config["execution-config"]["user-config"] == {"a": "1", "b": "two"}
    assert config["execution-config"]["job-parallelism"] == 2


def test_a_bug_of_ours_is_one_short_text(caplog: pytest.LogCaptureFixture) -> None:
    api = Api(FakeControl(job(status_times={})))
    with caplog.at_level("CRITICAL"):
        assert api.error("GET", "/v1/jobs/overview", 500) == "Internal server error."


def test_why_a_job_was_cancelled_is_part_of_its_result() -> None:
    text = str(JobCancelledError(JOB, "count words"))
    view = ended(JobStatus.CANCELED, error=f"JobCancelledError: {text}", error_text=text)
    answer = Api(FakeControl(view)).get(f"/v1/jobs/{JOB}/execution-result")["job-execution-result"]
    assert answer["application-status"] == "CANCELED"
    assert answer["failure-cause"]["stack-trace"] == text
