from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import TYPE_CHECKING, Any, get_type_hints

from tests.kit.cells import cells

from penstock import errors

if TYPE_CHECKING:
    from collections.abc import Callable

#: By type; no two arguments of an error are alike, so that each has to be shown.
SAMPLES: dict[object, Callable[[str, int], Any]] = {
    str: lambda name, place: f"some {name}",
    int: lambda name, place: 7_001 + place,
    str | None: lambda name, place: f"some {name}",
    tuple[str, ...]: lambda name, place: (f"first of {name}", f"second of {name}"),
    tuple[str, str]: lambda name, place: (f"first of {name}", f"second of {name}"),
    tuple[tuple[str, str], ...]: lambda name, place: ((f"first of {name}", f"second of {name}"),),
    errors.FailureLocation | None: lambda name, place: errors.FailureLocation(
        "parse", "parse-1", 3, "job.py:12", "{'id': 9}", "Traceback …"
    ),
}


def _subclasses(cls: type[errors.PenstockError]) -> list[type[errors.PenstockError]]:
    return [cls, *(below for child in cls.__subclasses__() for below in _subclasses(child))]


def _made(cls: type[errors.PenstockError]) -> errors.PenstockError:
    """Make an error with a sample for each of its arguments, optional ones too."""
    if cls.__init__ is Exception.__init__:
        return cls("some text")
    hints = get_type_hints(cls.__init__)
    return cls(*(SAMPLES[hints[name]](name, place) for place, name in enumerate(inspect.signature(cls).parameters)))


ALL = sorted((cls for cls in _subclasses(errors.PenstockError) if cls.__module__.startswith("penstock.")), key=str)


@cells("cls", ALL)
def test_every_error_survives_pickling_with_type_attributes_and_text(cls: type[errors.PenstockError]) -> None:
    error = _made(cls)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is cls
        assert twin.args == error.args
        assert vars(twin) == vars(error)
        assert str(twin) == str(error)


@cells("cls", [cls for cls in ALL if cls.__init__ is not Exception.__init__])
def test_no_error_has_two_full_stops(cls: type[errors.PenstockError]) -> None:
    hints = get_type_hints(cls.__init__)
    values = [SAMPLES[hints[name]](name, place) for place, name in enumerate(inspect.signature(cls).parameters)]
    text = str(cls(*(f"{value}." if isinstance(value, str) else value for value in values)))
    assert not re.search(r"\w\.\.(\s|$)", text)


def test_an_error_that_was_made_with_keywords_survives_pickling() -> None:
    error = errors.StopTimeoutError(path="/s", running=("Map 1/2",), timeout_ms=7)
    twin = pickle.loads(pickle.dumps(error))
    assert (twin.path, twin.timeout_ms, twin.running, twin.reason) == ("/s", 7, ("Map 1/2",), error.reason)


@cells("cls", ALL)
def test_every_error_shows_all_its_values(cls: type[errors.PenstockError]) -> None:
    error = _made(cls)
    for part in _parts(error.args):
        forms = {str(part), repr(part), f"{part:,}" if isinstance(part, int) else str(part)}
        assert any(form in str(error) for form in forms)


def _parts(value: Any) -> list[Any]:
    return [part for one in value for part in _parts(one)] if isinstance(value, tuple) else [value]


@cells("cls", ALL)
def test_every_error_is_public_and_says_so(cls: type[errors.PenstockError]) -> None:
    assert cls.__module__ == "penstock.errors"
    assert cls.__name__ in errors.__all__


@cells("cls", ALL)
def test_every_error_stands_in_the_tree_of_the_module_docstring(cls: type[errors.PenstockError]) -> None:
    tree = [line.lstrip(" │├└─") for line in (errors.__doc__ or "").splitlines()]
    assert sum(line.startswith(f"{cls.__name__} ") or line == cls.__name__ for line in tree) == 1


def test_execution_error_shows_the_users_traceback_only_where_the_cause_was_lost() -> None:
    place = errors.FailureLocation("parse", "parse-1", 0, traceback="Traceback\nValueError: no")
    error = errors.JobExecutionError("f" * 32, "prices", "ValueError: no", place)
    error.__cause__ = ValueError("no")
    assert str(error).startswith("Job 'prices'")
    assert str(pickle.loads(pickle.dumps(error))).startswith("Traceback\nValueError: no\n\nJob 'prices'")


def test_execution_error_without_a_place_names_the_job_alone() -> None:
    error = errors.JobExecutionError("f" * 32, "prices", "the executor died")
    assert str(error) == f"Job 'prices' ({'f' * 32}) failed: the executor died"


def test_configuration_error_names_the_place_of_the_value() -> None:
    error = errors.ConfigurationError("parallelism.default", "x", "it is not a whole number", "/etc/config.yaml")
    assert str(error) == "parallelism.default cannot be 'x' (set in /etc/config.yaml): it is not a whole number."


def test_an_error_outside_of_all_operators_names_none() -> None:
    place = errors.FailureLocation("", "", 3)
    assert "operator ''" not in str(place)
    assert "subtask 3" in str(place)
