"""Names of fields of records without names, and the error for records without a field that the program names."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from penstock.common.types import Row, field_names
from penstock.common.user_values import short_repr
from penstock.errors import FieldError

_POSITION: Final = re.compile("f([0-9]+)")


def named_position(field: str) -> int | None:
    """Return the position of a field in a tuple, whose fields are called f0, f1 and so on; None for another name.

    Example:
        >>> named_position("f1"), named_position("name")
        (1, None)
    """
    match = _POSITION.fullmatch(field)
    return None if match is None else int(match[1])


def missing_field(call: str, field: object, record: object) -> FieldError:
    """Return the error for a record without a field.

    Args:
        call: What uses the field.
        field: The field's name or index.
        record: The record.

    Example:
        >>> print(missing_field("key_by('b')", "b", {"a": 1}))
        key_by('b') cannot use the field 'b' of the record {'a': 1}: it has no such field; it has 'a'. Name a field that all records have, give them one in a map() before it, or name a function of the record where the call takes one.
    """  # noqa: E501
    return FieldError(call, repr(field), short_repr(record), f"it has no such field; {_reason(field, record)}")


def _reason(field: object, record: object) -> str:
    if isinstance(record, dict):
        return _without(list(cast("dict[object, object]", record)))
    if isinstance(record, Row):
        names = field_names(record)
        if names is not None:
            return _without(names)
        return f"it is a Row of {len(record)} values without names"
    kind = type(record).__name__
    if not isinstance(record, (tuple, list)):
        return f"it is of {kind}, which is neither a dict nor a Row"
    if isinstance(field, int):
        return f"it has {len(cast('list[object]', record))} fields, counted from 0"
    return f"the fields of a {kind} have no names for it"


def _without(names: list[Any]) -> str:
    return f"it has {', '.join(map(short_repr, names[:10])) or 'none'}"
