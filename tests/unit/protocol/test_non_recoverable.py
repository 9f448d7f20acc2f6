"""Which errors end a job at once, and which are left to the restart strategy."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import errors
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.protocol.non_recoverable import is_non_recoverable
from penstock.datastream import MapFunction


class Own(MapFunction):
    def map(self, value: Any) -> Any:
        return value


def raised(call: Any) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whichever it is
        call()
    return caught.value


def from_driver(cause: BaseException) -> errors.DriverCodeError:
    error = errors.DriverCodeError("the enumerator of 'orders'", str(cause))
    error.__cause__ = cause
    return error


def import_what_is_not_there() -> None:
    import penstock.datastream.asynchronous  # type: ignore[import-not-found] # noqa: F401


def import_from_another_library() -> None:
    import no_such_library  # type: ignore[import-not-found] # noqa: F401


def sub_errors(cls: type[Any]) -> list[type[Any]]:
    return [cls, *(below for child in cls.__subclasses__() for below in sub_errors(child))]


@pytest.mark.parametrize("cls", sub_errors(errors.JobGraphError))
def test_every_mistake_of_the_program_lasts(cls: type[errors.JobGraphError]) -> None:
    assert is_non_recoverable(cls.__new__(cls))


LACKING = errors.UnsupportedOperationError("get_map_state", "it comes later")


@pytest.mark.parametrize(
    "error",
    [
        raised(lambda: object.__new__(EngineRuntimeContext).get_everything()),  # type: ignore[attr-defined]
        raised(import_what_is_not_there),
        errors.PartitionError("9", 3),
        errors.UnstableKeyError("Reduce", "1", ("'a'", "'b'")),
        errors.UnpicklableStateError("locks", "'a'", "_thread.lock", "cannot pickle"),
        errors.StateClassError("place", "no module"),
        errors.SourceFileChangedError("in.csv", "it has 5 bytes"),
        errors.InternalError("a bug"),
        from_driver(LACKING),
        from_driver(errors.InternalError("a bug")),
    ],
    ids=repr,
)
def test_what_no_restart_heals_lasts(error: BaseException) -> None:
    assert is_non_recoverable(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad record"),
        ConnectionError("no answer"),
        raised(lambda: Own().client),  # type: ignore[attr-defined]
        raised(lambda: "".client),  # type: ignore[attr-defined]
        raised(import_from_another_library),
        errors.SourceFileError("in.csv", "it is gone"),
        errors.EpochInfrastructureError("an executor is gone"),
        errors.LocalStateError("/tmp", "it is full"),
        from_driver(TimeoutError()),
        errors.DriverCodeError("the committer of 'sink'", "no answer"),
    ],
    ids=repr,
)
def test_what_may_be_of_the_moment_is_left_to_the_restart_strategy(error: BaseException) -> None:
    assert not is_non_recoverable(error)
