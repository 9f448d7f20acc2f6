from __future__ import annotations

import pickle
from concurrent.futures import CancelledError, Future

import pytest

from penstock.common.completable_future import CompletableFuture
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus


def test_a_future_hands_on_the_answer() -> None:
    inner: Future[int] = Future()
    future = CompletableFuture(inner)
    assert (future.done(), future.exception(), str(future)) == (False, None, "CompletableFuture[not completed]")
    inner.set_result(7)
    assert (future.done(), future.result(), future.exception()) == (True, 7, None)
    assert str(future) == "CompletableFuture[completed]"


def test_a_future_raises_the_error_it_was_given() -> None:
    error = ValueError("no")
    future: CompletableFuture[int] = CompletableFuture.failed(error)
    assert future.exception() is error
    assert str(future) == "CompletableFuture[failed: ValueError('no')]"
    with pytest.raises(ValueError, match="no"):
        future.result()


def test_waiting_ends_after_the_timeout() -> None:
    with pytest.raises(TimeoutError):
        CompletableFuture(Future[int]()).result(timeout=0)


def test_a_cancelled_future_is_done_and_says_so() -> None:
    future = CompletableFuture(Future[int]())
    assert future.cancel() is True
    assert (future.cancelled(), future.done()) == (True, True)
    assert isinstance(future.exception(), CancelledError)
    assert CompletableFuture.completed(1).cancel() is False


def test_callbacks_get_the_future_once_it_is_done() -> None:
    inner: Future[int] = Future()
    future = CompletableFuture(inner)
    seen: list[CompletableFuture[int]] = []
    future.add_done_callback(seen.append)
    assert seen == []
    inner.set_result(1)
    future.add_done_callback(seen.append)
    assert seen == [future, future]


def test_job_ids_are_32_hexadecimal_digits() -> None:
    job_id = JobID("0123456789abcdef" * 2)
    assert str(job_id) == "0123456789abcdef" * 2
    assert job_id == pickle.loads(pickle.dumps(job_id))
    assert len({job_id, JobID(str(job_id)), JobID()}) == 2
    for text in ("", "0" * 31, "G" * 32, "A" * 32, "0" * 32 + "\n"):
        with pytest.raises(ValueError, match="32 hexadecimal digits"):
            JobID(text)


def test_three_states_are_globally_terminal_and_suspended_is_terminal_for_its_driver() -> None:
    assert {status for status in JobStatus if status.is_globally_terminal_state()} == {
        JobStatus.FINISHED,
        JobStatus.FAILED,
        JobStatus.CANCELED,
    }
    assert {status for status in JobStatus if status.is_terminal_state()} - {
        status for status in JobStatus if status.is_globally_terminal_state()
    } == {JobStatus.SUSPENDED}


def test_a_result_has_id_runtime_and_accumulators() -> None:
    job_id = JobID()
    result = JobExecutionResult(job_id, 1500, {"lines": 3, "refused": [7, 9]})
    assert (result.get_job_id(), result.get_net_runtime()) == (job_id, 1500)
    assert result.get_all_accumulator_results() == {"lines": 3, "refused": [7, 9]}
    assert (result.get_accumulator_result("lines"), result.get_accumulator_result("none")) == (3, None)
    assert str(result).splitlines() == [
        "Program execution finished",
        f"Job with JobID {job_id} has finished.",
        "Job Runtime: 1500 ms",
        "Accumulator Results:",
        "- lines (int): 3",
        "- refused (list) [2 elements]",
    ]
