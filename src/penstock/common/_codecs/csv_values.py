"""The text of each value in CSV, and the value of each text, by the type of its column; rules that all of CSV shares.

What is written is read back as it was, or refused. Four things change, as in Flink: without a null value, None in a
column of text, bytes or arrays comes back as an empty value; a float of a type of 32 bits is
rounded to them; a time with a zone is written in UTC; and a tuple or an array of NumPy comes back as a list.
"""

from __future__ import annotations

import base64
import datetime
import math
import re
import struct
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from penstock.common._codecs.times import in_utc, time_of_day, without_zeros
from penstock.common._conversion.checked import CHECKS, RANGES, TypeMismatchError
from penstock.common._conversion.row_values import elements_of, values_of
from penstock.common.record_text import float32_text, float_text
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    Types,
)
from penstock.common.types import RowKind, make_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

    Read = Callable[[str], Any]
    Write = Callable[[Any], str]

TEXTS: Final = frozenset({Types.STRING(), Types.CHAR()})
BYTES: Final = Types.PRIMITIVE_ARRAY(Types.BYTE())
#: The types that have a value whose text is empty.
_EVEN_EMPTY: Final = TEXTS | {BYTES}
#: What readers and writers raise for a text or a value that does not fit.
UNFIT: Final = (ValueError, TypeError, AttributeError, ArithmeticError, TypeMismatchError)
_BLANKS: Final = "".join(map(chr, range(0x21)))
_NUMBERS: Final[dict[Any, str]] = {int: "whole number", float: "number", Decimal: "decimal number"}
_FLOAT32: Final = struct.Struct("<f")
_BELOW_MICROSECONDS: Final = re.compile(r"[.,]\d{6}\d*[1-9]")


@dataclass(frozen=True, slots=True)
class CsvColumn:
    """One column.

    Args:
        name: Its name.
        type_info: The type of its values.
        separator: The separator of the elements of an array or of a row; None for single values.
    """

    name: str
    type_info: TypeInformation
    separator: str | None = None

    @staticmethod
    def of(name: str, type_info: TypeInformation, separator: str) -> CsvColumn:
        """Return a column, with a separator if its type has elements."""
        has_elements = isinstance(type_info, RowTypeInfo) or element_type(type_info) is not None
        return CsvColumn(name, type_info, separator if has_elements else None)


def element_type(type_info: TypeInformation) -> TypeInformation | None:
    """Return the type of the elements of an array; None for bytes, and for what is no array."""
    arrays = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo, PrimitiveArrayTypeInfo)
    return type_info.elem_type if isinstance(type_info, arrays) and type_info != BYTES else None


# ------------------------------------------------------------------------------------------------------ texts to values


def reader(column: CsvColumn, null_value: str | None) -> Read:
    """Return the function from the text of a field to its value.

    Raises:
        ValueError: The column's type cannot be read from CSV.
    """
    type_info, separator = column.type_info, column.separator
    if isinstance(type_info, RowTypeInfo):
        return _row_reader(column, type_info, separator or "", null_value)
    elements = element_type(type_info)
    if elements is None or separator is None:
        return _single_reader(column.name, type_info, null_value)
    read = _single_reader(column.name, elements, null_value)
    # Decides for integers without a look at each of them; others are read one by one.
    limits = RANGES.get(elements.basic_type) if isinstance(elements, BasicTypeInfo) else None

    def array(text: str) -> Any:
        if text == null_value:
            return None
        if limits and separator and text.isascii() and "_" not in text and not (null_value and null_value in text):
            try:
                numbers = list(map(int, text.split(separator)))
            except ValueError:
                pass
            else:
                if limits[0] <= min(numbers) and max(numbers) <= limits[1]:
                    return numbers
        return [read(part) for part in (text.split(separator) if separator else [text])] if text else []

    return array


def _row_reader(column: CsvColumn, type_info: RowTypeInfo, separator: str, null_value: str | None) -> Read:
    names = list(type_info.get_field_names())
    parts = [_single_reader(column.name, one, null_value) for one in type_info.get_field_types()]

    def row(text: str) -> Any:
        if text in ("", null_value):
            return None
        texts = text.split(separator) if separator else [text]
        if len(texts) != len(parts):
            raise ValueError(f"{text!r:.80} has {len(texts)} fields, and {type_info} has {len(parts)}")
        return make_row(names, [read(one) for read, one in zip(parts, texts, strict=True)], RowKind.INSERT)

    return row


def _single_reader(name: str, type_info: TypeInformation, null_value: str | None) -> Read:
    read = _READERS.get(type_info)
    if read is None:
        msg = (
            f"The column {name!r} has the type {type_info}, which CSV does not have: its values are numbers, text, "
            "truth values, bytes, dates and times, and arrays and rows of these."
        )
        raise ValueError(msg)
    if type_info in _EVEN_EMPTY:
        return lambda text: None if text == null_value else read(text)
    return lambda text: None if text in ("", null_value) else read(text)


def _truth(text: str) -> bool:
    found = _TRUTHS.get(text.strip(_BLANKS).lower())
    if found is None:
        raise ValueError(f"{text!r:.80} is neither true nor false")
    return found


def _number(make: Callable[[str], Any], text: str) -> Any:
    """Return a number; Python's may have underscores and digits of other scripts, and no others."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r:.80} is no number")
    try:
        return make(text)
    except (ValueError, InvalidOperation):
        pass
    try:
        return make(text.strip(_BLANKS))
    except (ValueError, InvalidOperation):
        raise ValueError(f"{text!r:.80} is no {_NUMBERS[make]}") from None


def _whole(low: int | None, high: int | None) -> Read:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = _number(int, text)
        if "_" in text or not text.isascii():
            _number(int, text)
        if low is not None and high is not None and not low <= number <= high:
            raise ValueError(f"{number} is not between {low} and {high}")
        return number

    return read


def _double(text: str) -> float:
    number = _number(float, text)
    if math.isinf(number) and "inf" not in text.lower():
        raise ValueError(f"{text!r:.80} is beyond the floats of 64 bits")
    return number


def _single(text: str) -> float:
    number = _double(text)
    try:
        return _FLOAT32.unpack(_FLOAT32.pack(number))[0]
    except OverflowError:
        raise ValueError(f"{text!r:.80} is beyond the floats of 32 bits") from None


def _decimal(text: str) -> Decimal:
    number = _number(Decimal, text)
    if not number.is_finite():
        raise ValueError(f"{text!r:.80} is no finite number")
    return number


def _exact(text: str) -> str:
    """Return the text of a time; Python would cut what is smaller than a microsecond."""
    if not text.isascii() or _BELOW_MICROSECONDS.search(text):
        raise ValueError(f"{text!r:.80} has nanoseconds, and Python has microseconds")
    return text


_TRUTHS: Final = {"true": True, "false": False}
_READERS: Final[dict[TypeInformation, Read]] = {
    **dict.fromkeys(TEXTS, str),
    **{BasicTypeInfo(kind): _whole(low, high) for kind, (low, high) in RANGES.items()},
    Types.BIG_INT(): _whole(None, None),
    Types.BOOLEAN(): _truth,
    Types.FLOAT(): _single,
    Types.DOUBLE(): _double,
    Types.BIG_DEC(): _decimal,
    Types.SQL_DATE(): lambda text: datetime.date.fromisoformat(_exact(text)),
    Types.SQL_TIME(): lambda text: time_of_day(datetime.time.fromisoformat(_exact(text))),
    Types.SQL_TIMESTAMP(): lambda text: in_utc(datetime.datetime.fromisoformat(_exact(text))),
    BYTES: lambda text: base64.b64decode(text, validate=True),
}


# ------------------------------------------------------------------------------------------------------ values to texts


def writer(column: CsvColumn, null_value: str | None) -> Write:
    """Return the function from a value, which is not None, to its text.

    Raises:
        ValueError: The column's type has no CSV.
    """
    reader(column, null_value)
    type_info, separator = column.type_info, column.separator
    if isinstance(type_info, RowTypeInfo):
        names = list(type_info.get_field_names())
        parts = [_part_writer(one, null_value) for one in type_info.get_field_types()]
        return lambda value: _joined(
            [write(one) for write, one in zip(parts, values_of(value, names), strict=True)], separator or "", null_value
        )
    elements = element_type(type_info)
    if elements is None:
        return _own(WRITERS[type_info], null_value)
    write = _part_writer(elements, null_value)

    def array(value: Any) -> str:
        texts = [write(one) for one in elements_of(value)]
        return _joined(texts, separator or "", null_value) if texts else ""

    return _own(array, null_value)


def _own(write: Write, null_value: str | None) -> Write:
    """Return a writer that refuses what stands for None."""
    if null_value is None:
        return write

    def own(value: Any) -> str:
        text = write(value)
        if text == null_value:
            raise ValueError(f"the text {null_value!r} stands for None here")
        return text

    return own


def _part_writer(type_info: TypeInformation, null_value: str | None) -> Write:
    """Return the writer of a part of an array or a row, which may be None where that has a text of its own."""
    write = _own(WRITERS[type_info], null_value)
    if type_info not in _EVEN_EMPTY or null_value is not None:
        return lambda value: null_value or "" if value is None else write(value)

    def text(value: Any) -> str:
        if value is None:
            raise ValueError("None in it would come back as an empty value: set a null value")
        return write(value)

    return text


def _joined(texts: list[str], separator: str, null_value: str | None) -> str:
    if len(texts) > 1 and not separator:
        raise ValueError("it has more than one element, and nothing separates elements here")
    joined = separator.join(texts)
    if separator and joined.split(separator) != texts:
        raise ValueError(f"its text {joined!r:.80} has {separator!r}, which stands between elements, elsewhere, too")
    if not joined:
        raise ValueError("its only element has no text, so that it would come back without any")
    if joined == null_value:
        raise ValueError(f"its text is {null_value!r}, which stands for None here")
    return joined


def texts_at_once(type_info: TypeInformation, values: tuple[Any, ...]) -> list[str] | None:
    """Return the texts of numbers that need no look at single ones; None for others."""
    limits = _LIMITS.get(type_info)
    kinds = set(map(type, values))
    if limits is None or len(kinds) != 1 or limits[0] not in kinds:
        return None
    _, low, high = limits
    if not (low <= min(values) and max(values) <= high):
        return None
    if type_info == Types.FLOAT():
        return _singles(values)
    # NaN is neither less nor greater than anything.
    return None if type_info == Types.DOUBLE() and math.isnan(sum(values)) else list(map(repr, values))


def _singles(values: tuple[Any, ...]) -> list[str] | None:
    import pyarrow as pa

    found: Any = pa.array(values, pa.float32())
    texts: list[str] = found.cast(pa.string()).to_pylist()
    return None if "nan" in texts else [text if "." in text else f"{text}.0" for text in texts]


#: The class and the limits of numbers whose text is that of Python.
_LIMITS: Final[dict[TypeInformation, tuple[type, float, float]]] = {
    **{BasicTypeInfo(kind): (int, low, high) for kind, (low, high) in RANGES.items()},
    Types.DOUBLE(): (float, 1e-3, 9999999.0),
    Types.FLOAT(): (float, 1e-3, 9999999.0),
}


_double_of, _single_of = CHECKS[Types.DOUBLE()], CHECKS[Types.FLOAT()]
_timestamp_of, _truth_of = CHECKS[Types.SQL_TIMESTAMP()], CHECKS[Types.BOOLEAN()]


def _plain(type_info: TypeInformation) -> Write:
    check = CHECKS[type_info]
    return lambda value: str(check(value))


#: The texts of single values; those of `RAW` types are not quoted, as in Jackson.
WRITERS: Final[dict[TypeInformation, Write]] = {
    **{BasicTypeInfo(kind): _plain(BasicTypeInfo(kind)) for kind in RANGES},
    **{one: _plain(one) for one in (Types.BIG_INT(), Types.BIG_DEC(), Types.SQL_DATE())},
    **{one: CHECKS[one] for one in (Types.STRING(), Types.CHAR())},
    Types.BOOLEAN(): lambda value: "true" if _truth_of(value) else "false",
    Types.DOUBLE(): lambda value: float_text(_double_of(value), repr),
    Types.FLOAT(): lambda value: float_text(_single_of(value), float32_text),
    Types.SQL_TIME(): lambda value: without_zeros(str(CHECKS[Types.SQL_TIME()](value))),
    Types.SQL_TIMESTAMP(): lambda value: without_zeros(str(_timestamp_of(value))),
    BYTES: lambda value: base64.b64encode(CHECKS[BYTES](value)).decode(),
}
RAW: Final = frozenset(
    {*map(BasicTypeInfo, RANGES), *(BasicTypeInfo(one) for one in (BasicType.BIG_INT, BasicType.BIG_DEC))}
    | {Types.BOOLEAN(), Types.FLOAT(), Types.DOUBLE()}
)
