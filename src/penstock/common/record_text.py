"""How a record prints: the text that ``print()`` and the simple string encoder write.

Without a type a record prints as Python prints it. With one it prints as PyFlink does: rows with their kind, everything
else as Java's ``toString``. The texts are part of the interface, since programs compare files written with them.
"""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from penstock.common.time import Instant
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.common.types import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def record_text(value: Any, type_info: TypeInformation | None) -> str:
    """Return the text of a record.

    Args:
        value: The record.
        type_info: The type of its stream, or None for a stream without one.

    Example:
        >>> from penstock.common.typeinfo import Types
        >>> record_text((1, "a", None), None)
        "(1, 'a', None)"
        >>> record_text((1, "a", None), Types.TUPLE([Types.INT(), Types.STRING(), Types.STRING()]))
        '(1,a,null)'
        >>> record_text(Row(1, "a", None), Types.ROW([Types.INT(), Types.STRING(), Types.STRING()]))
        '+I[1,a,None]'
    """
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return _python_text(value)
    if isinstance(type_info, RowTypeInfo) and isinstance(value, Row):
        return f"{value.get_row_kind()}[{','.join(map(str, value))}]"
    return _java_text(value, type_info)


def _python_text(value: Any) -> str:
    return repr(value) if isinstance(value, bytes) else str(value)


def _java_text(value: Any, type_info: TypeInformation) -> str:  # noqa: PLR0911 - one return for each kind of type
    if value is None:
        return "null"
    match type_info:
        case TupleTypeInfo():
            return f"({','.join(_field_texts(value, type_info.get_field_types()))})"
        case RowTypeInfo():
            kind = value.get_row_kind() if isinstance(value, Row) else "+I"
            return f"{kind}[{', '.join(_field_texts(value, type_info.get_field_types()))}]"
        case ListTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo() | PrimitiveArrayTypeInfo():
            return f"[{', '.join(_java_text(item, type_info.elem_type) for item in value)}]"
        case MapTypeInfo():
            items = cast("Mapping[Any, Any]", value).items()
            texts = (f"{_java_text(k, type_info.key_type)}={_java_text(v, type_info.value_type)}" for k, v in items)
            return f"{{{', '.join(texts)}}}"
        case BasicTypeInfo() if type_info.basic_type is BasicType.FLOAT:
            return float_text(value, float32_text)
        case BasicTypeInfo() if type_info.basic_type is BasicType.BYTE:
            # Java's bytes are signed, and iterating over a Python bytes object gives 0 to 255.
            return str((value + 128) % 256 - 128)
        case _:
            return _leaf_text(value)


def _field_texts(values: Iterable[Any], types: list[TypeInformation]) -> Iterable[str]:
    return (_java_text(value, part) for value, part in zip(values, types, strict=True))


def _leaf_text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return float_text(value, float.__repr__)
        case datetime.datetime():
            # java.sql.Timestamp: always a fraction, without zeros at its end.
            seconds = value.replace(tzinfo=None, microsecond=0).isoformat(" ")  # strftime has no zeros before a year
            return f"{seconds}.{f'{value.microsecond:06d}'.rstrip('0') or '0'}"
        case datetime.time():
            return f"{value:%H:%M:%S}"
        case Instant():
            return instant_text(value)
        case _:
            return _python_text(value)


def float_text(value: float, shortest: Callable[[float], str]) -> str:
    """Write a float as Java does: plain from 0.001 up to 10 million, else with one digit before the point and an E.

    Args:
        value: The number.
        shortest: Gives the fewest digits that read back as the same number.

    Example:
        >>> [float_text(one, repr) for one in (1.5, -0.0, 1e7, 2e-308, float("-inf"))]
        ['1.5', '-0.0', '1.0E7', '2.0E-308', '-Infinity']
    """
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - only NaN differs from itself
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124
    found = shortest(value)
    is_plain = value == 0 or 1e-3 <= abs(value) < 1e7
    if is_plain and "e" not in found:
        return found if "." in found else f"{found}.0"
    sign, digits, exponent = Decimal(found).as_tuple()
    point = len(digits) + cast("int", exponent)
    text = "".join(map(str, digits)).rstrip("0")
    minus = "-" if sign else ""
    if is_plain:
        return f"{minus}{text.ljust(point, '0')}.0"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def float32_text(value: float) -> str:
    """Return the fewest digits that read back as the same number of 32 bits."""
    packed = struct.pack("<f", value)
    texts = (f"{value:.{digits}g}" for digits in range(6, 10))  # the first leaves zeros at its end out
    return next(text for text in texts if struct.pack("<f", float(text)) == packed)


def instant_text(value: Instant) -> str:
    """Write an instant as ISO 8601 with no fraction or one of 3, 6 or 9 digits."""
    moment = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(seconds=value.seconds)
    digits = f"{value.nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{moment.replace(tzinfo=None).isoformat()}{'.' + digits if digits else ''}Z"
