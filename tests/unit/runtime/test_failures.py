"""Errors of user functions: what the driver learns, what is closed, what is left."""

from __future__ import annotations

import asyncio
import logging
import pickle
import re
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.epochs import Job
from tests.kit.program import Program

from penstock.datastream.functions import KeyedProcessFunction, MapFunction
from penstock.errors import KeyEncodingError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._engine.protocol.control import TaskFailure
    from penstock.testing.in_process import InProcessEpochRunner

#: What functions did; they are found by name, so this is the one list of this process.
CALLS: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def failures(program: Program, place: Path, **settings: Any) -> tuple[TaskFailure, ...]:
    return Job(program.graph(), place, **settings).try_epoch().failures


class Fragile(MapFunction):
    """Notes its life, and fails where it is told to."""

    def __init__(self, fails_in: str = "") -> None:
        self.fails_in = fails_in

    def _at(self, step: str) -> None:
        CALLS.append(step)
        if step == self.fails_in:
            raise ValueError(step)

    def open(self, runtime_context: Any) -> None:
        self._at("open")

    def map(self, value: Any) -> Any:
        if self.fails_in == "map":
            self._at("map")
        return value

    def close(self) -> None:
        self._at("close")


def divide(record: tuple[str, int]) -> float:
    return 1 / record[1]


def test_an_error_names_operator_record_and_the_users_line(program: Program, tmp_path: Path) -> None:
    program.collect(program.source([("a", 1), ("b", 0)]).map(divide).name("ratio"))
    [failure] = failures(program, tmp_path)
    line = divide.__code__.co_firstlineno + 1
    assert failure.operator == "ratio"
    assert failure.record == "('b', 0)"
    assert failure.location == f"{__file__}:{line}"
    assert failure.error == "ZeroDivisionError: division by zero"
    assert "return 1 / record[1]" in failure.traceback
    assert "penstock/_engine" not in failure.traceback
    assert isinstance(pickle.loads(failure.exception or b""), ZeroDivisionError)


def test_the_location_is_the_users_line_not_the_library_it_called(program: Program, tmp_path: Path) -> None:
    def read_number(record: str) -> Any:
        return re.compile(record)

    program.collect(program.source(["("]).map(read_number))
    [failure] = failures(program, tmp_path)
    assert failure.location == f"{__file__}:{read_number.__code__.co_firstlineno + 1}"
    assert "re.compile" in failure.traceback


def test_a_record_that_cannot_travel_names_the_line_that_made_the_operator(program: Program, tmp_path: Path) -> None:
    locks = program.source(["a"]).map(lambda record: threading.Lock())
    program.collect(locks.key_by(lambda record: "a").map(str))
    [failure] = failures(program, tmp_path)
    assert "cannot pickle" in failure.error
    assert failure.location == program.graph().vertices[0].operators[-1].created_at


def test_an_error_in_a_lower_level_names_vertex_and_subtask(program: Program, tmp_path: Path) -> None:
    program.collect(program.source([("a", 1)]).key_by(lambda pair: pair[0]).map(divide).set_parallelism(2))
    program.collect(program.source([("a", 0)]).key_by(lambda pair: pair[0]).map(divide).set_parallelism(2), "failing")
    [failure] = failures(program, tmp_path)
    graph = program.graph()
    assert failure.uid in {node.uid for node in graph.vertices[failure.vertex].operators}
    assert 0 <= failure.subtask < 2


def test_a_key_that_is_no_key_names_the_line_that_made_the_operator(program: Program, tmp_path: Path) -> None:
    program.collect(program.source([[1]]).key_by(lambda record: record).map(lambda record: record))
    [failure] = failures(program, tmp_path)
    assert isinstance(pickle.loads(failure.exception or b""), KeyEncodingError)
    assert failure.location == program.graph().vertices[1].operators[0].created_at
    assert failure.record == "[1]"


def test_an_error_in_a_timer_shows_no_record(program: Program, tmp_path: Path) -> None:
    class FailsLater(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(1)

        def on_timer(self, timestamp: int, ctx: Any) -> None:
            raise RuntimeError

    program.collect(program.source(["a"]).key_by(lambda record: record).process(FailsLater()))
    [failure] = failures(program, tmp_path)
    assert failure.record is None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError("late"), "asyncio.exceptions.CancelledError: late"),
        (GeneratorExit(), "GeneratorExit"),
    ],
)
def test_what_would_end_the_process_is_an_error_of_the_function_that_raises_it(
    program: Program, tmp_path: Path, error: BaseException, told: str
) -> None:
    def raises(record: Any) -> Any:
        raise error

    program.collect(program.source([1]).map(raises))
    [failure] = failures(program, tmp_path)
    assert (failure.operator, failure.record, failure.error) == ("Map", "1", told)
    chosen = Program(tmp_path / "chosen", 2)
    chosen.collect(chosen.source([1]).key_by(raises).map(str))
    [failure] = failures(chosen, tmp_path / "chosen")
    assert failure.error == told


def test_an_exception_that_does_not_pickle_is_told_as_text(program: Program, tmp_path: Path) -> None:
    class Stubborn(Exception):
        def __init__(self, one: str, two: str) -> None:
            super().__init__(one)  # loses an argument: cannot be made again from its pickle

    def fail(record: Any) -> Any:
        raise Stubborn("one", "two")

    program.collect(program.source([1]).map(fail))
    [failure] = failures(program, tmp_path)
    assert failure.exception is None
    assert failure.error.endswith("Stubborn: one")


@pytest.mark.parametrize(("size", "crosses"), [(1_000, True), (2 << 20, False)])
def test_an_exception_that_holds_megabytes_is_told_as_text(
    program: Program, tmp_path: Path, size: int, crosses: bool
) -> None:
    def fail(record: Any) -> Any:
        error = ValueError("too much")
        error.held = "x" * size  # type: ignore[attr-defined]
        raise error

    program.collect(program.source([1]).map(fail))
    [failure] = failures(program, tmp_path)
    assert (failure.exception is not None) is crosses
    assert failure.error.endswith("ValueError: too much")


@pytest.mark.parametrize("skipping", [False, True])
def test_the_failure_reaches_the_driver_through_all_levels_below(
    program: Program, tmp_path: Path, skipping: bool
) -> None:
    source = program.source([("a", n) for n in range(5)], [("b", n) for n in range(5)]).set_parallelism(2)
    failing = source.rebalance().map(divide).set_parallelism(3)
    deep = failing
    for parallelism in (2, 3, 1, 2):
        deep = deep.rebalance().map(lambda record: record).set_parallelism(parallelism)
    program.collect(deep.union(source) if skipping else deep)
    for slots in (1, 2, 3):
        found = failures(program, tmp_path / str(slots), slots=slots)
        assert len(found) == min(slots, 2)
        assert all(failure.error == "ZeroDivisionError: division by zero" for failure in found)


def test_what_was_logged_before_a_failure_reaches_the_driver(program: Program, tmp_path: Path) -> None:
    def warn(record: Any) -> Any:
        logging.getLogger("user").warning("looking at %s", record)
        return record

    logged = program.source(["x"]).map(warn)
    program.collect(logged.rebalance().map(divide).set_parallelism(2).rebalance().map(divide).set_parallelism(1))
    job = Job(program.graph(), tmp_path)
    outcome = job.try_epoch()
    assert outcome.failures
    assert [line.message for line in outcome.log if line.logger == "user"] == ["looking at x"]


@pytest.mark.parametrize("step", ["open", "map"])
@pytest.mark.behaviour(40)
def test_a_function_that_fails_is_closed_once_all_the_same(program: Program, tmp_path: Path, step: str) -> None:
    program.collect(program.source([1]).map(Fragile(step)).name("fragile"))
    [failure] = failures(program, tmp_path)
    assert (failure.operator, failure.error) == ("fragile", f"ValueError: {step}")
    assert CALLS.count("close") == 1


@pytest.mark.behaviour(40)
def test_an_error_in_close_does_not_hide_the_one_before(program: Program, tmp_path: Path) -> None:
    def fail(record: Any) -> Any:
        raise KeyError(record)

    program.collect(program.source([1]).map(Fragile("close")).map(fail).name("second"))
    [failure] = failures(program, tmp_path)
    assert failure.operator == "second"
    assert CALLS == ["open", "close"]


def test_an_error_in_close_takes_nothing_back_and_is_logged(
    program: Program, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program.collect(program.source([1]).map(Fragile("close")))
    assert Job(program.graph(), tmp_path).run() == {"out": [1]}
    assert CALLS == ["open", "close"]
    assert "Map (0) failed to close; the job is not affected" in caplog.text
    assert "ValueError: close" in caplog.text


def test_a_failure_leaves_no_open_function_in_its_own_level_or_below(program: Program, tmp_path: Path) -> None:
    program.collect(
        program.source([1])
        .map(Fragile())
        .rebalance()
        .map(lambda record: 1 // 0)
        .set_parallelism(2)
        .rebalance()
        .map(Fragile())
        .set_parallelism(3)
    )
    job = Job(program.graph(), tmp_path, slots=3)
    job.try_epoch()
    assert (CALLS.count("open"), CALLS.count("close")) == (4, 3), "the level above waits for what follows"
    job.runner.release(job.run_id)
    assert CALLS.count("close") == 4


def test_a_cancelled_attempt_closes_its_functions(program: Program, tmp_path: Path) -> None:
    from penstock._engine.runtime.level import LevelTask
    from penstock._engine.runtime.worker_cache import WorkerCache

    program.collect(program.source([b"x" * 3_000_000] * 3).map(Fragile()).rebalance().map(len).set_parallelism(2))
    task = LevelTask(Job(program.graph(), tmp_path).task(records=100), WorkerCache()).run(())
    next(task)
    task.close()
    assert CALLS == ["open", "close"]


def test_a_module_that_is_missing_in_a_task_names_the_operator(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.collect(program.source([1]).map(Fragile()).name("needs module"))
    job = Job(program.graph(), tmp_path)
    monkeypatch.setitem(sys.modules, __name__, None)
    outcome = job.try_epoch()
    assert [failure.operator for failure in outcome.failures] == ["needs module"]
    assert "ModuleNotFoundError" in outcome.failures[0].error
    assert outcome.failures[0].record is None


def assert_nothing_is_cached(runner: InProcessEpochRunner) -> None:
    for worker in runner.workers:
        assert not worker._subtasks


def test_a_failed_epoch_leaves_nothing_of_the_failed_level_in_the_caches(program: Program, tmp_path: Path) -> None:
    good = program.source([1, 2], name="good")
    both: Callable[[int], float] = lambda record: 1 / (record - 2)  # noqa: E731
    program.collect(good.map(both))
    job = Job(program.graph(), tmp_path)
    assert job.try_epoch().failures
    assert_nothing_is_cached(job.runner)
