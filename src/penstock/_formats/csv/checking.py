"""Checks that values can be read back from a CSV file unchanged, by the types in the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock._formats.arrow_types import arrow_type
from penstock._formats.arrow_values import arrow_array
from penstock.common.typeinfo import BasicType, BasicTypeInfo, Types
from penstock.errors import RecordValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._formats.csv.schema import CsvColumn
    from penstock.common.typeinfo import TypeInformation

_WAY_OUT: Final = "Make the value one that fits, change the CsvSchema, or set lenient=True to write it as text"
_WHOLE: Final = {BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG}


def check_column(column: CsvColumn, values: Sequence[Any], null_value: str | None, records: Sequence[Any]) -> None:
    """Make sure that the values of a column can be read back.

    Args:
        column: The column.
        values: Its values.
        null_value: The text that stands for None.
        records: The records of these values.

    Raises:
        RecordValueError: A value cannot be read back.
    """
    if _flaw(column, values, null_value) is None:
        return
    for value, record in zip(values, records, strict=True):
        reason = _flaw(column, [value], null_value)
        if reason is not None:
            raise RecordValueError(column.name, f"{record!r:.200}", str(column.type_info), reason, _WAY_OUT)


def _flaw(column: CsvColumn, values: Sequence[Any], null_value: str | None) -> str | None:
    if column.separator is None:
        return _flaw_of_single(column.type_info, values, null_value)
    try:
        items = [item for value in values if value is not None for item in value]
    except TypeError:
        return "it is no list"
    if any(column.separator in item for item in items if isinstance(item, str)):
        return f"an element has the sign {column.separator!r} that stands between elements"
    return None


def _flaw_of_single(type_info: TypeInformation, values: Sequence[Any], null_value: str | None) -> str | None:
    if type_info == Types.STRING():
        is_null = null_value is not None and null_value in values
        return f"the text {null_value!r} stands for None in this file" if is_null else None
    if isinstance(type_info, BasicTypeInfo) and type_info.basic_type in _WHOLE:
        other = next((value for value in values if isinstance(value, (float, str, bool))), None)
        if other is not None:
            return f"{other!r} is written otherwise than a whole number"
    try:
        wanted = arrow_type(type_info, "")
    except ValueError:  # only the reader of this file knows the type
        return None
    try:
        arrow_array(values, wanted)
    except (ValueError, TypeError, NotImplementedError, OverflowError) as error:  # Arrow's own are among them
        return str(error).rstrip(".")
    return None
