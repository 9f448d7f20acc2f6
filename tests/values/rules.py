"""What comes back where a path converts a value: one function for each rule that conversions name.

A rule takes a record that went in and its `Value`, and returns the record that has to come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tests.values.values import FIELD

from penstock.common import Row

if TYPE_CHECKING:
    from tests.values.values import Value


class DoesNotApplyError(Exception):
    """A rule has nothing to say about a value."""


def filled(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """As ``plain``, and a field that a record or a struct lacks is None."""
    del value
    return {FIELD: None} | plain_part(record)


def plain(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """Rows are dicts, and tuples, sets and arrays of NumPy are lists, at every level; scalars of NumPy are Python's."""
    del value
    return plain_part(record)


def plain_part(field: Any) -> Any:
    """Return a part of a record by the rule ``plain``."""
    if isinstance(field, Row):
        field = field.as_dict()
    if isinstance(field, dict):
        return {key: plain_part(part) for key, part in field.items()}
    if isinstance(field, (list, tuple, set)):
        return [plain_part(part) for part in field]
    if isinstance(field, np.ndarray):
        return field.tolist()
    return field.item() if isinstance(field, np.generic) else field
