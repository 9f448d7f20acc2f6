"""A mistake of the program ends the job with the first failure, whatever the restart strategy says."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Sheet, Story

from penstock._engine.coordinator import instructions as do
from penstock.common.job_status import JobStatus
from penstock.datastream import KeyedProcessFunction, MapFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import JobExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Nothing that the driver could see: it stands behind a branch.
HIDDEN = True


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class OtherKind(Keyed):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(ValueStateDescriptor("seen"))
        self.list = runtime_context.get_list_state(ListStateDescriptor("seen"))


class NoSuchCall(Keyed):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_broadcast_variable("rates")


class NoSuchCallInAContext(Keyed):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.current_row_kind()


class NoTimers(MapFunction):
    def open(self, runtime_context: Any) -> None:
        if HIDDEN:
            runtime_context.get_state(ValueStateDescriptor("seen"))

    def map(self, value: Any) -> Any:
        return value


class Unpicklable(Keyed):
    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.state.update(threading.Lock())
        yield value


def keyed(function: KeyedProcessFunction) -> Callable[[Any], Any]:
    return lambda stream: stream.key_by(lambda n: n % 2).process(function)


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (keyed(OtherKind()), "State 'seen' is declared as list"),
        (keyed(Unpicklable()), "that cannot be pickled"),
        (keyed(NoSuchCall()), "has no attribute 'get_broadcast_variable'"),
        (keyed(NoSuchCallInAContext()), "has no attribute 'current_row_kind'"),
        (lambda stream: stream.map(NoTimers()), "use it after key_by"),
        (lambda stream: stream.key_by(lambda n: {n}).process(Keyed()), "has no canonical encoding"),
        (lambda stream: stream.partition_custom(lambda key, n: 7, lambda n: n).map(str), "partitioner returned 7"),
    ],
)
def test_a_mistake_of_the_program_ends_the_job_at_once(tmp_path: Path, write: Callable[[Any], Any], said: str) -> None:
    def program(sheet: Sheet) -> None:
        sheet.collect(write(sheet.source("numbers", [1, 2, 3])))

    ended = Story(tmp_path).run(program, restart="exponential-delay")
    assert ended.status is JobStatus.FAILED
    assert isinstance(ended.error, JobExecutionError)
    assert said in str(ended.error)
    assert len(ended.runner.plans) == 1, "no restart"


def test_an_error_that_may_be_of_the_moment_restarts_the_job(tmp_path: Path) -> None:
    class Fails(MapFunction):
        def map(self, value: Any) -> Any:
            if not (tmp_path / "failed").exists():
                (tmp_path / "failed").touch()
                raise AttributeError(name="client", obj=self)
            return value

    def program(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", [1, 2, 3]).map(Fails()))

    ended = Story(tmp_path).run(program, restart="exponential-delay")
    assert ended.status is JobStatus.FINISHED
    assert [step for step in ended.steps if isinstance(step, do.LogMessage) and "restarts in" in step.text]
    assert ended.outputs["out"] == [1, 2, 3]
