"""Checks the fields that a program names against the declared types of its records, where it names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.record_fields import named_position
from penstock.common.typeinfo import BasicTypeInfo, RowTypeInfo, TupleTypeInfo
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.common.typeinfo import TypeInformation


def check_field(call: str, field: int | str, type_info: TypeInformation | None) -> None:
    """Make sure that records of a type have a field.

    Args:
        call: The method that names the field.
        field: The field's index or name.
        type_info: The declared type, None without one; only tuples, rows and single values are looked at.

    Raises:
        TypeError: The field is neither an index nor a name.
        UnsupportedOperationError: They do not have it.
    """
    if not isinstance(field, (int, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"The field of {call} must be an index or a name, not {field!r}."
        raise TypeError(msg)
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        names: Sequence[str] = type_info.get_field_names() if isinstance(type_info, RowTypeInfo) else ()
        size = len(type_info.get_field_types())
        has_it = field in names if isinstance(field, str) else -size <= field < size
    else:
        has_it = field == 0 or not isinstance(type_info, BasicTypeInfo)
    if not has_it:
        reason = f"the records are declared as {type_info}, which has no such field"
        raise UnsupportedOperationError(f"{call}({field!r})", reason)


def check_sort_field(call: str, field: int | str, type_info: TypeInformation | None) -> None:
    """Make sure that records of a type can be sorted by a field.

    Args:
        call: The method that names the field.
        field: The field's position, counted from 0, or its name; the fields of tuples are called f0, f1 and so on.
        type_info: The declared type, None without one; only tuples, rows and single values are looked at.

    Raises:
        ValueError: The position is negative.
        UnsupportedOperationError: They do not have it.
    """
    if isinstance(field, int) and field < 0:
        msg = f"The position of a field is counted from 0; got {field}."
        raise ValueError(msg)
    if isinstance(type_info, BasicTypeInfo):
        reason = f"the records are declared as {type_info}, which has no fields; sort by a key selector"
        raise UnsupportedOperationError(f"{call}({field!r})", reason)
    if isinstance(type_info, TupleTypeInfo) and isinstance(field, str):
        field = named_position(field) or 0  # a named tuple has names of its own
    check_field(call, field, type_info)


def projected_types(type_info: TypeInformation, field_indexes: Sequence[int]) -> list[TypeInformation]:
    """Return the types of some fields of tuples.

    Raises:
        TypeError: The type is no tuple, or a field is no index.
        ValueError: There is no field.
        IndexError: The tuples lack a field.
    """
    if not isinstance(type_info, TupleTypeInfo):
        msg = f"Only a stream declared as tuples (output_type) can be projected; this one is {type_info!r}."
        raise TypeError(msg)
    if not field_indexes:
        msg = "project() takes the indexes of one field or more."
        raise ValueError(msg)
    types = type_info.get_field_types()
    for field in field_indexes:
        if not isinstance(field, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"The fields of project() are indexes, not {field!r}."
            raise TypeError(msg)
        if not 0 <= field < len(types):
            msg = f"project() of the field {field}: the tuples have {len(types)} fields, counted from 0."
            raise IndexError(msg)
    return [types[field] for field in field_indexes]
