"""What a job tells of tasks that Spark ran again by itself; Spark's part is played."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.unit.coordinator.acks import ack

from penstock._engine.spark.retries import retries_of
from penstock.errors import TaskRetriedError

if TYPE_CHECKING:
    import pytest


class Scala:
    """A sequence, or an option, as py4j shows it."""

    def __init__(self, *values: Any) -> None:
        self._values = values

    def apply(self, place: int) -> Any:
        return self._values[place]

    def size(self) -> int:
        return len(self._values)

    def isDefined(self) -> bool:
        return bool(self._values)

    def get(self) -> Any:
        return self._values[0]


def task(slot: int, status: str, *said: str, host: str = "host-1") -> Any:
    return SimpleNamespace(
        partitionId=lambda: slot, status=lambda: status, host=lambda: host, errorMessage=lambda: Scala(*said)
    )


class Context:
    """A session's context, after a job of two stages in one group."""

    def __init__(self, *stages: list[Any], earlier: list[Any] | None = None) -> None:
        self._stages = {(4 + number, 0): tasks for number, tasks in enumerate(stages)}
        #: The last stage ran twice where it has an earlier attempt.
        self._attempts = {4: 0, 5: 0 if earlier is None else 1}
        if earlier is not None:
            self._stages[5, 0], self._stages[5, 1] = earlier, self._stages[5, 0]
        store = SimpleNamespace(
            taskList=lambda stage, attempt, most: Scala(*self._stages[stage, attempt]),
            job=lambda job: SimpleNamespace(numFailedStages=lambda: sum(self._attempts.values())),
        )
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store))

    def statusTracker(self) -> Any:
        return SimpleNamespace(
            getJobIdsForGroup=lambda group: [1] if group == "epoch" else [],
            getJobInfo=lambda job: SimpleNamespace(stageIds=[5, 4]),
            getStageInfo=lambda stage: SimpleNamespace(currentAttemptId=self._attempts[stage]),
        )


def told(*stages: list[Any]) -> list[tuple[int, int, str, str]]:
    acks = [ack(0, 0), ack(1, 0, task_attempt=1)]
    return [(one.level, one.slot, one.host, one.reason) for one in retries_of(Context(*stages), "epoch", acks)]


def test_each_attempt_that_failed_is_told_with_its_host_and_sparks_words(caplog: pytest.LogCaptureFixture) -> None:
    lost = "ExecutorLostFailure (executor 1 exited): Command exited with code 137\n\tat org.apache.spark"
    found = told(
        [task(0, "SUCCESS")],
        [task(0, "FAILED", lost, host="host-2"), task(0, "SUCCESS"), task(1, "FAILED")],
    )
    assert found == [
        (1, 0, "host-2", "ExecutorLostFailure (executor 1 exited): Command exited with code 137"),
        (1, 1, "host-1", ""),
    ]
    assert "slot 0 in level 1 again, after an attempt on host-2 (ExecutorLostFailure" in caplog.text
    assert "Spark does not say why" in caplog.text


def test_a_speculative_copy_that_was_faster_is_told_as_such() -> None:
    beaten = task(2, "KILLED", "another attempt succeeded")
    assert told([beaten, task(2, "SUCCESS")], []) == [(0, 2, "host-1", "a speculative copy of it was faster")]


def test_stage_that_ran_again_is_told_though_all_of_its_tasks_are_first_attempts() -> None:
    """As when hosts do not reach each other: Spark runs the tasks of both stages again, as new attempts at stages."""
    fetch = task(1, "FAILED", "FetchFailed(BlockManagerId(0, host-2, 7337, None), shuffleId=3)\n\tat", host="host-1")
    context = Context([task(0, "SUCCESS")], [task(0, "SUCCESS")], earlier=[task(0, "SUCCESS"), fetch])
    found = retries_of(context, "epoch", [ack(0, 0), ack(1, 0)], may_repeat_stages=True)
    assert [(one.level, one.slot, one.host) for one in found] == [(1, 1, "host-1")]
    assert found[0].reason.startswith("FetchFailed(")


def test_tasks_of_stages_that_ran_once_are_not_asked_for() -> None:
    context = Context([task(0, "FAILED")], [task(0, "FAILED")])  # as nobody would tell
    assert retries_of(context, "epoch", [ack(0, 0), ack(1, 0)], may_repeat_stages=True) == ()


def test_spark_is_not_asked_where_all_tasks_ran_once() -> None:
    assert retries_of(None, "epoch", [ack(0, 0), ack(1, 0)]) == ()


def test_a_spark_that_does_not_answer_is_no_error() -> None:
    assert retries_of(None, "epoch", [ack(0, 0, task_attempt=3)]) == ()


def test_what_is_told_names_the_task() -> None:
    assert "slot 3 in level 1" in str(TaskRetriedError(1, 3, "host-2", "gone"))
