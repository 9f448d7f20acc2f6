"""What the API says of checkpoints."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.rest.fakes import JOB, READ, SETTINGS, START, WRITE, Api, FakeControl, checkpoint, job

from penstock._engine.gateway.checkpoint_view import CheckpointsView

AT = f"/v1/jobs/{JOB}/checkpoints"


@pytest.fixture
def api() -> Api:
    return Api(FakeControl())


@pytest.mark.behaviour(175)
def test_counts_the_last_ones_and_the_history(api: Api) -> None:
    answer = api.get(AT)
    assert answer["counts"] == {"restored": 1, "total": 6, "in_progress": 1, "completed": 4, "failed": 1}
    assert [(entry["id"], entry["className"]) for entry in answer["history"]] == [
        (5, "in_progress"),
        (4, "completed"),
        (1_000_000_004, "failed"),
        (2_000_000_003, "completed"),
        (3, "completed"),
    ]
    assert [entry["penstock"]["checkpoint_id"] for entry in answer["history"]] == [5, 4, 4, 3, 3]
    for entry in answer["history"]:
        found = api.get(f"{AT}/details/{entry['id']}")
        assert (found["id"], found["className"], found["checkpoint_type"]) == (
            entry["id"],
            entry["className"],
            entry["checkpoint_type"],
        )
    assert answer["latest"]["restored"] == {
        "id": 2,
        "restore_timestamp": START + 15,
        "is_savepoint": True,
        "external_path": "file:/sp/old",
    }
    assert answer["latest"]["savepoint"]["is_savepoint"] is True
    assert answer["summary"]["end_to_end_duration"] == {
        "min": 300,
        "max": 400,
        "avg": 350,
        "p50": 350.0,
        "p90": 390.0,
        "p95": 395.0,
        "p99": 399.0,
        "p999": 399.9,
    }
    assert answer["penstock"] == {"pending_commits": {"out": 2}, "published_again": None}


def test_a_completed_checkpoint_has_all_of_flinks_members(api: Api) -> None:
    assert api.get(AT)["latest"]["completed"] == {
        "className": "completed",
        "id": 4,
        "status": "COMPLETED",
        "is_savepoint": False,
        "savepointFormat": None,
        "trigger_timestamp": START + 100,
        "latest_ack_timestamp": START + 400,
        "checkpointed_size": 40,
        "state_size": 400,
        "end_to_end_duration": 350,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": 4,
        "num_acknowledged_subtasks": 4,
        "checkpoint_type": "CHECKPOINT",
        "tasks": {},
        "external_path": f"file:/cp/{JOB}/chk-4",
        "discarded": False,
        "penstock": {"checkpoint_id": 4},
    }


def test_a_failed_one_says_when_and_why(api: Api) -> None:
    entry = api.get(AT)["latest"]["failed"]
    assert (entry["failure_timestamp"], entry["failure_message"]) == (START + 450, "lost")
    assert "external_path" not in entry


@pytest.mark.behaviour(175)
def test_details_have_what_each_vertex_added(api: Api) -> None:
    details = api.get(f"{AT}/details/4")
    assert set(details["tasks"]) == {READ, WRITE}
    assert details["tasks"][READ]["state_size"] == 200


def test_details_count_subtasks_that_had_finished_before_as_done() -> None:
    whole = checkpoint(4)
    part = replace(whole, subtask_count=3, subtasks=({0: whole.subtasks[0][0]}, whole.subtasks[1]), finished=(1, 0))
    view = job(checkpoints=CheckpointsView(SETTINGS, completed=1, history=(part,), last_completed=part))
    details = Api(FakeControl(view)).get(f"{AT}/details/4")
    assert (details["num_subtasks"], details["num_acknowledged_subtasks"]) == (4, 4)
    read = details["tasks"][READ]
    assert (read["num_subtasks"], read["num_acknowledged_subtasks"]) == (2, 2)
    assert read["penstock"] == {"finished_subtasks": 1}


@pytest.mark.behaviour(175)
def test_a_checkpoint_comes_before_the_savepoint_that_was_copied_from_it(api: Api) -> None:
    assert api.get(f"{AT}/details/3")["is_savepoint"] is False


def test_a_checkpoint_that_nobody_remembers_is_not_found(api: Api) -> None:
    assert api.error("GET", f"{AT}/details/99", 404) == "Could not find checkpointing statistics for checkpoint 99."
    assert "(checkpointid)" in api.error("GET", f"{AT}/details/last", 400)


def test_subtasks_of_a_vertex(api: Api) -> None:
    answer = api.get(f"{AT}/details/4/subtasks/{READ}")
    assert answer["summary"]["checkpointed_size"]["max"] == 10
    assert [row["className"] for row in answer["subtasks"]] == ["completed", "completed"]
    assert answer["subtasks"][1]["checkpoint"] == {"sync": 300, "async": 0}
    pending = api.get(f"{AT}/details/5/subtasks/{READ}")["subtasks"]
    assert [row["status"] for row in pending] == ["pending_or_failed"] * 2
    assert api.error("GET", f"{AT}/details/4/subtasks/{JOB}", 404) == f"JobVertex {JOB} not found"


def test_settings(api: Api) -> None:
    config = api.get(f"{AT}/config")
    assert (config["mode"], config["interval"], config["timeout"]) == ("exactly_once", 1000, 600_000)
    assert config["externalization"] == {"enabled": True, "delete_on_cancellation": False}


def test_a_job_without_checkpoints_says_so_in_flinks_words() -> None:
    view = job(checkpoints=CheckpointsView(replace(SETTINGS, enabled=False)))
    api = Api(FakeControl(view))
    for path in ("", "/config", "/details/1"):
        assert "Checkpointing has not been enabled" in api.error("GET", f"{AT}{path}", 404)


def test_before_the_first_checkpoint_all_figures_are_numbers() -> None:
    answer = Api(FakeControl(job(checkpoints=CheckpointsView(SETTINGS)))).get(AT)
    assert answer["latest"] == {"completed": None, "savepoint": None, "failed": None, "restored": None}
    assert set(answer["summary"]["state_size"].values()) == {0}
