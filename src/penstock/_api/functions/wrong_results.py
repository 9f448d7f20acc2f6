"""Errors for functions that return what they cannot return."""

from __future__ import annotations

from typing import Any, Final

from penstock._api.functions.basic import Function
from penstock._api.functions.wrapping import unwrapped
from penstock.common.user_values import short_repr
from penstock.errors import FunctionResultError

_RECORDS: Final = "an iterable of records, or None: yield the records, or return them in a list"
_VALUE: Final = "the new value, also where it has changed the old one: add a return"


def refuse_no_records(function: Any, results: Any) -> None:
    """Raise where the results of a function cannot be iterated over.

    Args:
        function: The function, None where it is not known.
        results: What it returned.

    Raises:
        FunctionResultError: They are no iterable.
    """
    if results is None:
        return
    try:
        iter(results)
    except TypeError:
        raise FunctionResultError(called(function), "", short_repr(results), _RECORDS) from None


def refuse_none(function: Any, before: Any, record: Any) -> None:
    """Raise where a function that folds a record into a value has returned None, as one without ``return`` does.

    Callers ask only if the value could have been changed in its place. Else None is a result: the next record begins
    anew, as in PyFlink.

    Args:
        function: The function.
        before: The value before.
        record: The record.

    Raises:
        FunctionResultError: Neither the value nor the record is None.
    """
    if before is not None and record is not None:
        raise FunctionResultError(called(function), "", "None", _VALUE)


def called(function: Any) -> str:
    """Return the name of a user's function, for errors."""
    function = unwrapped(function)
    if function is None:
        return "The function"
    if isinstance(function, Function):
        return f"A method of {type(function).__name__}"
    return str(getattr(function, "__qualname__", type(function).__name__)).rpartition("<locals>.")[2]
