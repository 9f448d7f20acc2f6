"""When a value that came back is the one that went in: the same kind of Python object, to the last bit.

NaN is NaN, -0.0 is not 0.0, 1.10 is not 1.1, True is not 1, a list is no tuple, and an aware time keeps its offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.types import field_names

if TYPE_CHECKING:
    from collections.abc import Callable


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same, with all of their parts."""
    if type(one) is not type(other):
        return False
    parts = _PARTS.get(type(one).__name__)
    if parts is not None:
        return same(parts(one), parts(other))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


#: What tells values of a class apart beyond their equality, as tuples or lists of simpler values.
_PARTS: dict[str, Callable[[Any], Any]] = {
    "float": lambda one: one.hex(),
    "Decimal": lambda one: str(one.as_tuple()),
    "datetime": lambda one: (str(one.replace(tzinfo=None)), one.utcoffset(), one.fold),
    "Timestamp": lambda one: (one.isoformat(), one.unit),
    "time": lambda one: (str(one.replace(tzinfo=None)), one.utcoffset(), one.fold),
    "Row": lambda one: (one.get_row_kind(), field_names(one), list(one)),
    "dict": lambda one: list(one.items()),
    "mappingproxy": lambda one: list(one.items()),
    "ndarray": lambda one: (str(one.dtype), one.tolist()),
}
