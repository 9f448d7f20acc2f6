"""An error keeps the user's own lines and what is behind it, over a process boundary and on its way to the eye."""

from __future__ import annotations

import pickle
import traceback
from typing import TYPE_CHECKING

import cloudpickle
import pytest

from penstock._engine.protocol.tracebacks import SerializedThrowable, own_lines, without_library_lines
from penstock.common.completable_future import CompletableFuture
from penstock.errors import EmptyJobError, InternalError, JobExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable


def divide(number: int) -> float:
    return 1 / number


def careful(number: int) -> float:
    try:
        return divide(number)
    except ZeroDivisionError as error:
        raise ValueError(number) from error


def careless(number: int) -> float:
    try:
        return divide(number)
    except ZeroDivisionError:
        return {}[number]


def silent(number: int) -> float:
    try:
        return divide(number)
    except ZeroDivisionError:
        raise ValueError(number) from None


def raised(function: Callable[[int], float]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it raises
        function(0)
    return caught.value


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("function", [divide, careful, careless, silent])
def test_error_arrives_with_its_lines_and_with_what_is_behind_it(function: Callable[[int], float]) -> None:
    error = raised(function)
    arrived = pickle.loads(cloudpickle.dumps(SerializedThrowable(error)))
    without_marks = [line for line in shown(error).splitlines() if "^" not in line]
    assert shown(arrived).splitlines() == without_marks


def test_error_behind_itself_arrives() -> None:
    error, other = ValueError(1), KeyError(2)
    error.__cause__, other.__cause__ = other, error
    arrived = pickle.loads(cloudpickle.dumps(SerializedThrowable(error)))
    assert isinstance(arrived.__cause__, KeyError)
    assert arrived.__cause__.__cause__ is None


def test_lines_of_the_library_and_between_them_are_hidden_and_then_back() -> None:
    answer = CompletableFuture.failed(EmptyJobError("prices"))
    error = raised(lambda _: answer.result())
    whole = shown(error)
    assert "completable_future.py" in whole
    with without_library_lines(error):
        assert [line.tb_frame.f_code.co_filename for line in own_lines(error.__traceback__)] == [__file__] * 2
        assert "completable_future.py" not in shown(error)
        assert "concurrent" not in shown(error)
    assert shown(error) == whole


def test_what_is_behind_an_error_of_ours_is_hidden_too_and_errors_of_the_program_are_not() -> None:
    answer = CompletableFuture.failed(KeyError("x"))
    behind, ours = raised(lambda _: answer.result()), JobExecutionError("0" * 32, "prices", "it failed")
    with without_library_lines(behind):
        assert "completable_future.py" in shown(behind)
    ours.__cause__ = behind
    for error in (ours, ExceptionGroup("both", [ours])):
        with without_library_lines(error):
            assert "completable_future.py" not in shown(error)


def test_internal_error_keeps_its_lines() -> None:
    answer = CompletableFuture.failed(InternalError("a bug"))
    error = raised(lambda _: answer.result())
    with without_library_lines(error):
        assert "completable_future.py" in shown(error)
