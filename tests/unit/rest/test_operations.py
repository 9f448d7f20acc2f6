"""Savepoints, stops, checkpoints and disposals: begun by a POST, asked for by a GET."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.unit.rest.fakes import JOB, OTHER, Api, FakeControl, ended

from penstock._engine.protocol.control import StopMode
from penstock._engine.rest import context
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointRequestError, SavepointError

IN_PROGRESS = {"status": {"id": "IN_PROGRESS"}, "operation": None}
SAVEPOINTS, STOP, CHECKPOINTS = f"/v1/jobs/{JOB}/savepoints", f"/v1/jobs/{JOB}/stop", f"/v1/jobs/{JOB}/checkpoints"


@pytest.fixture
def control() -> FakeControl:
    return FakeControl()


@pytest.fixture
def api(control: FakeControl) -> Api:
    return Api(control)


def begin(api: Api, path: str, code: int = 202, **body: Any) -> str:
    return api.send("POST", path, code, json=body)["request-id"]


@pytest.mark.parametrize(
    ("path", "body", "asked"),
    [
        (SAVEPOINTS, {"target-directory": "/there"}, ("savepoint", "/there", StopMode.NO)),
        (SAVEPOINTS, {"target-directory": None, "formatType": "NATIVE"}, ("savepoint", None, StopMode.NO)),
        (SAVEPOINTS, {"cancel-job": True}, ("cancel with savepoint", None)),
        (STOP, {"targetDirectory": "/there"}, ("savepoint", "/there", StopMode.SUSPEND)),
        (STOP, {"drain": True}, ("savepoint", None, StopMode.DRAIN)),
        (STOP, {"drain": None}, ("savepoint", None, StopMode.SUSPEND)),
    ],
)
@pytest.mark.behaviour(173)
def test_what_a_body_asks_for(api: Api, control: FakeControl, path: str, body: dict[str, Any], asked: object) -> None:
    begin(api, path, **body)
    assert control.asked == [asked]


def test_an_empty_body_asks_for_the_defaults(api: Api, control: FakeControl) -> None:
    api.send("POST", SAVEPOINTS, 202)
    assert control.asked == [("savepoint", None, StopMode.NO)]


@pytest.mark.parametrize("path", [SAVEPOINTS, STOP])
@pytest.mark.behaviour(173)
def test_a_savepoint_is_in_progress_until_it_is_there(api: Api, control: FakeControl, path: str) -> None:
    trigger = begin(api, path)
    assert api.get(f"{SAVEPOINTS}/{trigger}") == IN_PROGRESS
    control.answers[0].set_result("/sp/savepoint-b484b4-1")
    location = {"location": "file:/sp/savepoint-b484b4-1"}
    assert api.get(f"{SAVEPOINTS}/{trigger}") == {"status": {"id": "COMPLETED"}, "operation": location}


def test_a_failure_is_an_outcome_with_its_text(api: Api, control: FakeControl) -> None:
    trigger = begin(api, SAVEPOINTS)
    control.answers[0].set_exception(SavepointError("/sp/1", "the disk is full"))
    answer = api.get(f"{SAVEPOINTS}/{trigger}")
    cause = answer["operation"]["failure-cause"]
    assert answer["status"] == {"id": "COMPLETED"}
    assert cause["class"] == "penstock.errors.SavepointError"
    assert cause["stack-trace"] == "SavepointError: There is no savepoint /sp/1: the disk is full."
    assert cause["serialized-throwable"].startswith("rO0AB")


@pytest.mark.behaviour(173)
@pytest.mark.parametrize(("path", "member"), [(SAVEPOINTS, "target-directory"), (STOP, "targetDirectory")])
def test_without_any_directory_both_names_are_told(path: str, member: str) -> None:
    api = Api(FakeControl(savepoint_directory=None))
    text = "Config key [execution.checkpointing.savepoint-dir] is not set."
    assert api.error("POST", path, 400) == f"{text} Property [{member}] must be provided."


@pytest.mark.parametrize("kind", ["savepoints", "stop"])
def test_an_unknown_job_is_told_by_the_outcome_as_in_flink(api: Api, kind: str) -> None:
    trigger = begin(api, f"/v1/jobs/{OTHER}/{kind}")
    cause = api.get(f"/v1/jobs/{OTHER}/savepoints/{trigger}")["operation"]["failure-cause"]
    assert f"Could not find Flink job ({OTHER})" in cause["stack-trace"]


def test_a_job_that_has_ended_is_told_by_the_outcome() -> None:
    api = Api(FakeControl(ended(JobStatus.FINISHED)))
    trigger = begin(api, STOP)
    cause = api.get(f"{SAVEPOINTS}/{trigger}")["operation"]["failure-cause"]
    assert f"Job {JOB} is not running: FINISHED" in cause["stack-trace"]


@pytest.mark.behaviour(60, 174)
def test_the_same_trigger_id_begins_nothing_again(api: Api, control: FakeControl) -> None:
    own = "ab" * 16
    assert begin(api, SAVEPOINTS, triggerId=own) == begin(api, SAVEPOINTS, triggerId=own) == own
    assert len(control.asked) == 1
    begin(api, CHECKPOINTS, triggerId=own)
    assert len(control.asked) == 2


def test_a_trigger_id_that_is_no_id_is_a_bad_request(api: Api, control: FakeControl) -> None:
    for trigger in ("mine", "", "AB" * 16, "ab" * 17):
        assert "SavepointTriggerRequestBody" in api.error("POST", SAVEPOINTS, 400, json={"triggerId": trigger})
    assert control.asked == []


@pytest.mark.behaviour(173)
def test_an_unknown_operation_is_not_found(api: Api) -> None:
    unknown = "cd" * 16
    text = f"There is no savepoint operation with triggerId={unknown} for job {JOB}."
    assert api.error("GET", f"{SAVEPOINTS}/{unknown}", 404) == text
    assert "checkpoint operation" in api.error("GET", f"{CHECKPOINTS}/{unknown}", 404)
    assert "savepoint disposal" in api.error("GET", f"/v1/savepoint-disposal/{unknown}", 404)


@pytest.mark.behaviour(174)
def test_an_outcome_is_kept_for_its_time_and_then_forgotten(api: Api, control: FakeControl) -> None:
    trigger = begin(api, SAVEPOINTS)
    api.now_ms += 10_000_000  # the time runs from the outcome on
    control.answers[0].set_result("/sp/1")
    api.now_ms += 300_000
    api.get(f"{SAVEPOINTS}/{trigger}")
    api.now_ms += 1
    api.error("GET", f"{SAVEPOINTS}/{trigger}", 404)


@pytest.mark.behaviour(173)
def test_a_checkpoint_answers_with_its_id(api: Api, control: FakeControl) -> None:
    trigger = begin(api, CHECKPOINTS, checkpointType="FULL")
    assert api.get(f"{CHECKPOINTS}/{trigger}") == IN_PROGRESS
    control.answers[0].set_result(6)
    assert api.get(f"{CHECKPOINTS}/{trigger}") == {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 6}}


def test_a_checkpoint_that_failed_says_why(api: Api, control: FakeControl) -> None:
    trigger = begin(api, CHECKPOINTS)
    control.answers[0].set_exception(CheckpointRequestError("the job is FAILED"))
    cause = api.get(f"{CHECKPOINTS}/{trigger}")["operation"]["failure-cause"]
    assert "the job is FAILED" in cause["stack-trace"]


def test_a_disposal_answers_200_and_ends_empty(api: Api) -> None:
    trigger = begin(api, "/v1/savepoint-disposal", 200, **{"savepoint-path": "/sp/1"})
    assert api.get(f"/v1/savepoint-disposal/{trigger}") == IN_PROGRESS
    api.disposed["/sp/1"].set_result(None)
    assert api.get(f"/v1/savepoint-disposal/{trigger}") == {"status": {"id": "COMPLETED"}, "operation": {}}


def test_a_disposal_of_nothing_is_a_bad_request(api: Api) -> None:
    text = "Field savepoint-path must not be omitted or be null."
    assert api.error("POST", "/v1/savepoint-disposal", 400, json={}) == text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (STOP, {"target-directory": "/sp"}),
        (STOP, {"drian": True}),
        (STOP, {"targetDirectory": "/sp", "Drain": True}),
        (SAVEPOINTS, {"targetDirectory": "/sp"}),
        (SAVEPOINTS, {"cancel_job": True}),
    ],
)
def test_a_mistyped_member_is_a_bad_request_that_names_it(
    api: Api, control: FakeControl, path: str, body: dict[str, object]
) -> None:
    text = api.error("POST", path, 400, json=body)
    assert list(body)[-1] in text
    assert control.asked == []


@pytest.mark.parametrize(
    "body",
    ["{", "[]", '"text"', '{"formatType": "ODD"}', '{"target-directory": 7}', '{"cancel-job": "yes"}', "[" * 20_000],
)
def test_a_body_that_cannot_be_is_a_bad_request(api: Api, control: FakeControl, body: str) -> None:
    headers = {"content-type": "application/json"}
    text = api.error("POST", SAVEPOINTS, 400, content=body, headers=headers)
    assert text.startswith("Request did not match expected format SavepointTriggerRequestBody")
    assert control.asked == []


@pytest.mark.behaviour(174)
def test_unread_outcomes_keep_the_server_until_each_was_read_once(api: Api, control: FakeControl) -> None:
    trigger = begin(api, STOP)
    assert api.operations.unread
    control.answers[0].set_result("/sp/1")
    assert not api.operations.wait_until_read(0)
    waiting = threading.Thread(target=api.operations.wait_until_read, args=(30,))
    waiting.start()
    api.get(f"{SAVEPOINTS}/{trigger}")
    waiting.join(5)
    assert not waiting.is_alive()
    assert not api.operations.unread


@pytest.mark.parametrize(("path", "place"), [(SAVEPOINTS, SAVEPOINTS), (STOP, SAVEPOINTS), (CHECKPOINTS, CHECKPOINTS)])
def test_what_no_client_waits_for_goes_on_and_keeps_no_server(
    api: Api, control: FakeControl, path: str, place: str
) -> None:
    trigger = begin(api, path)
    assert api.send("DELETE", f"{place}/{trigger}", 200) == {}
    assert not api.operations.unread
    assert api.get(f"{place}/{trigger}") == IN_PROGRESS
    control.answers[0].set_result(7 if path == CHECKPOINTS else "/sp/1")
    assert not api.operations.unread
    assert api.get(f"{place}/{trigger}")["status"] == {"id": "COMPLETED"}


def test_nothing_is_left_that_was_not_begun(api: Api) -> None:
    trigger = begin(api, CHECKPOINTS)
    assert "no savepoint operation" in api.error("DELETE", f"{SAVEPOINTS}/{trigger}", 404)
    assert api.operations.unread


def test_outcomes_that_are_too_old_keep_nobody(api: Api, control: FakeControl) -> None:
    begin(api, STOP)
    control.answers[0].set_result("/sp/1")
    api.now_ms += 300_001
    assert api.operations.wait_until_read(0)


def test_more_than_some_operations_at_a_time_are_refused(
    api: Api, control: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "MAX_UNDER_WAY", 2)
    begin(api, SAVEPOINTS)
    begin(api, CHECKPOINTS)
    assert "are under way" in api.error("POST", CHECKPOINTS, 429)
    assert len(control.asked) == 2
    control.answers[0].set_result("/sp/1")
    begin(api, CHECKPOINTS)


def test_of_many_outcomes_the_oldest_are_forgotten_and_nothing_that_is_under_way(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "MAX_KEPT", 3)
    under_way = begin(api, SAVEPOINTS)
    first, *others = [begin(api, f"/v1/jobs/{OTHER}/savepoints") for _ in range(3)]
    api.error("GET", f"/v1/jobs/{OTHER}/savepoints/{first}", 404)
    assert api.get(f"{SAVEPOINTS}/{under_way}") == IN_PROGRESS
    for trigger in others:
        assert api.get(f"/v1/jobs/{OTHER}/savepoints/{trigger}")["status"] == {"id": "COMPLETED"}


@pytest.mark.parametrize(("path", "place"), [(SAVEPOINTS, SAVEPOINTS), (STOP, SAVEPOINTS), (CHECKPOINTS, CHECKPOINTS)])
def test_client_that_asks_no_more_within_its_lease_keeps_no_server(
    api: Api, control: FakeControl, path: str, place: str
) -> None:
    trigger = begin(api, f"{path}?lease=10000")
    for _ in range(3):
        api.now_ms += 9_000
        assert api.operations.unread
        assert api.get(f"{place}/{trigger}") == IN_PROGRESS
    control.answers[0].set_result(7 if path == CHECKPOINTS else "/sp/1")
    api.now_ms += 10_001
    assert api.operations.wait_until_read(30)
    assert api.get(f"{place}/{trigger}")["status"] == {"id": "COMPLETED"}


def test_lease_that_lapses_while_the_server_waits_ends_the_wait(api: Api, control: FakeControl) -> None:
    begin(api, f"{STOP}?lease=10000")
    control.answers[0].set_result("/sp/1")
    waiting = threading.Thread(target=api.operations.wait_until_read, args=(30,))
    waiting.start()
    api.now_ms += 10_001
    waiting.join(5)
    assert not waiting.is_alive()


def test_client_without_a_lease_is_waited_for_as_flinks_is(api: Api, control: FakeControl) -> None:
    begin(api, STOP)
    control.answers[0].set_result("/sp/1")
    api.now_ms += 290_000
    assert api.operations.unread


def test_what_failed_at_once_keeps_nobody(api: Api) -> None:
    begin(api, f"/v1/jobs/{OTHER}/stop")
    assert not api.operations.unread
