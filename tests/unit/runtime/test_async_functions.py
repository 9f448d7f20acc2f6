"""Async functions in epochs: calls that outlast them, in several workers, over losses and to the end of the input."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.epochs import EpochFailedError, Job, in_order
from tests.kit.program import Program

from penstock.common.time import Time
from penstock.datastream import AsyncDataStream, AsyncFunction
from penstock.testing.in_process import Chaos, InProcessEpochRunner

if TYPE_CHECKING:
    from pathlib import Path

#: Set when slow calls may end; the calls that were made.
GATE = threading.Event()
CALLS: Counter[Any] = Counter()


@pytest.fixture(autouse=True)
def closed_gate() -> None:
    GATE.clear()
    CALLS.clear()


class Gated(AsyncFunction):
    """Answers at once, but for slow records: those wait for the gate."""

    async def async_invoke(self, value: Any) -> Any:
        name, _ = value
        CALLS[name] += 1
        while name.startswith("slow") and not GATE.is_set():
            await asyncio.sleep(0.001)
        if name == "bad":
            raise ValueError("no answer")
        return [name]


def program(place: Path, *records: Any, ordered: bool = False, parallelism: int = 1) -> Program:
    program = Program(place, parallelism)
    wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    stream = wait(program.source(records, timestamps=in_order()), Gated(), Time.seconds(600), 2)
    program.collect(stream.name("lookup"))
    return program


RECORDS = [("slow", 1), ("a", 2), ("b", 3), ("c", 4)]
QUICK = {"execution.checkpointing.interval": "10 ms"}


@pytest.mark.parametrize("workers", [1, 3])
def test_a_call_longer_than_epochs_holds_none_up_and_is_made_once_in_each_worker(workers: int, tmp_path: Path) -> None:
    others = [(f"other {number}", 1) for number in range(12)]
    graph = program(tmp_path, ("slow", 1), *others).graph()
    job = Job(graph, tmp_path, InProcessEpochRunner(workers=workers, seed=2), configuration=QUICK)
    for _ in range(10):
        job.epoch(1)
    assert job.checkpoint_id == 10
    assert 1 <= CALLS["slow"] <= workers
    GATE.set()
    assert sorted(job.run()["out"]) == sorted(["slow", *(name for name, _ in others)])
    assert CALLS["slow"] <= workers


@pytest.mark.parametrize("ordered", [True, False])
def test_the_result_is_taken_once_although_tasks_run_twice_and_epochs_are_lost(ordered: bool, tmp_path: Path) -> None:
    graph = program(tmp_path, *RECORDS, ordered=ordered).graph()
    job = Job(graph, tmp_path, InProcessEpochRunner(workers=2, chaos=Chaos(retries=0.3), seed=5), configuration=QUICK)
    job.epoch(2)
    job.try_epoch(1)
    GATE.set()
    job.epoch(1)
    results = job.run(1)["out"]
    assert sorted(results) == ["a", "b", "c", "slow"]
    assert not ordered or results == ["slow", "a", "b", "c"]


@pytest.mark.behaviour(47)
def test_the_end_of_the_input_waits_for_the_answer(tmp_path: Path) -> None:
    job = Job(program(tmp_path, *RECORDS, ordered=True).graph(), tmp_path, configuration=QUICK)
    timer = threading.Timer(0.05, GATE.set)
    timer.start()
    assert job.run()["out"] == ["slow", "a", "b", "c"]
    timer.join()
    assert job.finished


def test_a_restarted_job_asks_again_what_was_not_answered(tmp_path: Path) -> None:
    job = Job(program(tmp_path, *RECORDS).graph(), tmp_path, configuration=QUICK)
    job.epoch(2)
    GATE.set()
    job.runner.close()
    again = job.restarted()
    again.runner = InProcessEpochRunner()
    results = again.run()["out"]
    assert sorted(results) == ["a", "b", "c", "slow"]
    assert CALLS["slow"] == 2


def test_an_error_of_a_call_names_the_operator_and_the_record(tmp_path: Path) -> None:
    job = Job(program(tmp_path, ("a", 1), ("bad", 2)).graph(), tmp_path, configuration=QUICK)
    with pytest.raises(EpochFailedError) as caught:
        job.run()
    (failure,) = caught.value.failures
    job.runner.close()
    assert failure.operator == "lookup"
    assert "ValueError: no answer" in failure.traceback
    assert "bad" in (failure.record or "")
