"""Copies that keep what was emitted apart from what a function goes on changing.

PyFlink serializes each record at the moment at which a function yields it. Operators here collect the records of a
batch as objects, so a mutable one that its function or its state holds on to is copied where it leaves the function.
"""

from __future__ import annotations

import copy
import pickle
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any, Final

#: Types whose values nobody can change in place.
IMMUTABLE: Final = frozenset(
    (type(None), bool, int, float, complex, str, bytes, date, datetime, time, timedelta, Decimal, frozenset, range)
)

#: Tells whether types are all of that kind: for the fields of a tuple that a loop has in hand.
all_immutable: Final = IMMUTABLE.issuperset

_TUPLES: Final = {tuple}


def may_change(value: Any) -> bool:
    """Return whether somebody could change a value in place."""
    kind = value.__class__
    if kind is not tuple:
        return kind not in IMMUTABLE
    return not all_immutable(map(type, value)) and any(map(may_change, value))


def any_may_change(values: list[Any]) -> bool:
    """Return whether one of many values could be changed in place; quick where all are plain values or flat tuples."""
    kinds = set(map(type, values))
    if kinds != _TUPLES:
        if kinds <= IMMUTABLE:
            return False
        if kinds - IMMUTABLE != _TUPLES:
            return True
        values = [value for value in values if type(value) is tuple]
    # One pass in C over all fields; a list of them is only made for tuples in tuples.
    inner = set(map(type, chain.from_iterable(values)))
    return not inner <= IMMUTABLE and any_may_change(list(chain.from_iterable(values)))


def separate(value: Any) -> Any:
    """Return a value that later changes in place do not reach; the same one where nothing can change."""
    if not may_change(value):
        return value
    try:
        return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))  # a third of what deepcopy takes
    except Exception:  # noqa: BLE001 - classes and functions that pickle cannot name
        return copy.deepcopy(value)
