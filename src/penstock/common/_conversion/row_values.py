"""The parts of a value in the order in which formats write them; what is no row or array is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.common.types import Row, RowKind, bare_row, field_names, make_row
from penstock.common.user_values import short_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_NO_ARRAYS: Final = (str, bytes, bytearray, memoryview, dict, Row)


def values_of(row: Any, names: Sequence[str]) -> list[Any]:
    """Return the values of a row in the order of the fields of a type.

    A dict is read by its names, in which a missing field is None; and so are a Row with names, which has all of them,
    and a named tuple that has the same names. All others are read by position, as is a Row with the names that a type
    without names gives it.

    Raises:
        ValueError: It is no row, has more or fewer fields, or has one of another name.

    Example:
        >>> values_of(Row(b=2, a=1), ["a", "b"]), values_of({"b": 2}, ["a", "b"]), values_of((1, 2), ["a", "b"])
        ([1, 2], [None, 2], [1, 2])
    """
    if row.__class__ is Row and row._fields == names and len(row._values) == len(names):  # the most common case
        return row._values
    if isinstance(row, dict):
        given = cast("dict[str, Any]", row)
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"it has a field {short_repr(unknown[0])}, and the type has {', '.join(names)}")
        return [given.get(name) for name in names]
    if not isinstance(row, Row) and not is_array(row):
        raise ValueError(f"{short_repr(row):.80} is no row")
    values = list(cast("Iterable[Any]", row))
    if len(values) != len(names):
        raise ValueError(f"it has {len(values)} fields, and the type has {len(names)}")
    own = None if row.__class__ in (tuple, list) else _own_names(row, names)
    if own is None or own == list(names) or are_of_a_type(own, names):
        return values
    by_name = dict(zip(own, values, strict=True))
    if by_name.keys() != set(names):
        raise ValueError(f"it has the fields {', '.join(own)}, and the type has {', '.join(names)}")
    return [by_name[name] for name in names]


def _own_names(row: Any, names: Sequence[str]) -> list[str] | None:
    """Return the names of a row, or of a named tuple that has those of a type; None for what is read by position."""
    if isinstance(row, Row):
        return field_names(row)
    own: Sequence[str] = getattr(row, "_fields", ())
    return list(own) if own and isinstance(row, tuple) and set(own) == set(names) else None


def are_of_a_type(own: list[str], names: Sequence[str]) -> bool:
    """Tell whether a row has the names f0, f1 and so on that a type gives it, and the type asked for has others."""
    return own == [f"f{number}" for number in range(len(own))] and not set(own) <= set(names)


def row_maker(names: list[str], parts: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Row]:
    """Return a function that makes a row of what a decoder has read; quicker than `make_row`.

    Args:
        names: The names of the fields, which the rows share.
        parts: Returns the values of the fields.

    Example:
        >>> row_maker(["a", "b"], dict.values)({"x": 1, "y": 2})
        Row(a=1, b=2)
    """
    insert = RowKind.INSERT
    make_row(names, (), insert)  # so that rows have these names as attributes

    def row_of(found: Any) -> Row:
        row = bare_row(Row)
        row._fields, row._values, row._row_kind = names, list(parts(found)), insert  # pyright: ignore[reportPrivateUsage]
        return row

    return row_of


def elements_of(array: Any) -> Iterable[Any]:
    """Return the elements of an array: a list, a tuple or an array of NumPy.

    Raises:
        ValueError: It is none.
    """
    if array.__class__ is list:
        return cast("list[Any]", array)
    if not is_array(array):
        raise ValueError(f"{short_repr(array):.80} is no array")
    return cast("Iterable[Any]", array)


def is_array(value: Any) -> bool:
    """Tell whether a value has elements in an order: a list, a tuple, or an array of NumPy, Arrow or pandas."""
    if value.__class__ in (list, tuple):  # the most common ones
        return True
    is_table = hasattr(value, "columns")  # its elements would be the names of its columns
    has_elements = hasattr(value, "__array__") and getattr(value, "ndim", 1) > 0 and not is_table
    return (isinstance(value, Sequence) or has_elements) and not isinstance(value, _NO_ARRAYS)
