"""Checks for many values at once whether they match their type exactly, by a function that is compiled for each type.

Most records need no conversion, so this check is the whole cost of a declared type. For rows, tuples, lists and
dicts the source of a function is written, with the checks of all parts in one expression, and compiled: a call for each
part of each record would cost several times as much. Single values are checked in C. Of records whose shape is known
only their ranges are checked. What is written to state is checked value by value, by a function made of the same text.
"""

from __future__ import annotations

import datetime
import struct
from array import array
from collections.abc import Callable, Iterable
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec

from penstock.common._conversion.checked import RANGES
from penstock.common.time import Instant
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.common.types import Row, RowKind, bare_row, make_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.common._conversion.values import Converter

Quick: TypeAlias = Callable[[list[Any]], "list[Any] | None"]
"""Takes records and returns them in their type; None where one by one has to be looked at."""

#: The checks of `msgspec`: exactly this type or None, and an int for a float, which rounds it.
_CHECKED: Final[dict[BasicType, Any]] = {
    kind: list[Annotated[int, msgspec.Meta(ge=low, le=high)] | None] for kind, (low, high) in RANGES.items()
} | {BasicType.BIG_INT: list[int | None], BasicType.DOUBLE: list[float | None], BasicType.BOOLEAN: list[bool | None]}

#: What an int of Python has in one digit: it compares them much faster.
_DIGIT: Final = (1 << 30) - 1
_SMALL: Final = f"{{v}} <= {_DIGIT} and {{v}} >= -{_DIGIT}"

#: Types whose values are of one Python class, with a further condition on a value `v`.
_CLASSES: Final[dict[TypeInformation, tuple[type, str]]] = {
    **{
        BasicTypeInfo(kind): (
            int,
            f"({_SMALL} or {low} <= {{v}} <= {high})" if high > _DIGIT else f"{low} <= {{v}} <= {high}",
        )
        for kind, (low, high) in RANGES.items()
    },
    BasicTypeInfo(BasicType.BIG_INT): (int, ""),
    BasicTypeInfo(BasicType.DOUBLE): (float, ""),
    BasicTypeInfo(BasicType.FLOAT): (float, "is_single({v})"),
    BasicTypeInfo(BasicType.BOOLEAN): (bool, ""),
    BasicTypeInfo(BasicType.STRING): (str, ""),
    BasicTypeInfo(BasicType.CHAR): (str, "len({v}) == 1"),
    BasicTypeInfo(BasicType.BIG_DEC): (Decimal, "{v}.is_finite()"),
    BasicTypeInfo(BasicType.INSTANT): (Instant, ""),
    BasicTypeInfo.INSTANT_TYPE_INFO(): (Instant, ""),
    DateTypeInfo(): (datetime.date, ""),
    TimeTypeInfo(): (datetime.time, "{v}.tzinfo is None"),
    TimestampTypeInfo(): (datetime.datetime, "{v}.tzinfo is None"),
    LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE): (datetime.date, ""),
    LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME): (datetime.time, "{v}.tzinfo is None"),
    LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME): (datetime.datetime, "{v}.tzinfo is None"),
    PrimitiveArrayTypeInfo(BasicTypeInfo.BYTE_TYPE_INFO()): (bytes, ""),
}


def quick_check(type_info: TypeInformation) -> Quick:
    """Return a fast check that records have a type."""
    if isinstance(type_info, BasicTypeInfo) and type_info.basic_type in _CHECKED:
        return _checked(_CHECKED[type_info.basic_type])
    if type_info == BasicTypeInfo.FLOAT_TYPE_INFO():
        return _singles
    if type_info == BasicTypeInfo.STRING_TYPE_INFO():
        return _of_class(str)
    holds = _Source().block(type_info)
    return lambda records: records if holds(records) else None


def quick_one(type_info: TypeInformation, convert: Converter) -> Converter:
    """Return a function that returns a value in its type, and leaves what does not match it to a converter."""
    return _Source().call((("value", type_info, convert),), ("value",), "value")(None)


def quick_result(type_info: TypeInformation, convert: Converter) -> Callable[[Any], Any]:
    """Return a function that makes of one of two arguments one that returns its results in their type."""
    return _Source().call((("value", type_info, convert),), ("first", "second"), "value", "value = call(first, second)")


def quick_arguments(types: Sequence[tuple[TypeInformation, Converter] | None]) -> Callable[[Any], Any]:
    """Return a function that makes of a function one that gets its arguments in their types; None for any."""
    names = [f"argument_{place}" for place in range(len(types))]
    typed = [(name, *one) for name, one in zip(names, types, strict=True) if one is not None]
    return _Source().call(typed, names, f"call({', '.join(names)})")


def shape_and_ranges(type_info: TypeInformation) -> tuple[Any, tuple[str, ...]]:
    """Return the shape of records that match a type without a None, and the further condition on each part.

    Returns:
        The class, or the classes of the fields of tuples; None for types whose values have no shape. A condition is an
        expression over ``{v}`` and `RANGE_FUNCTIONS`, empty where the class is all.

    Example:
        >>> shape_and_ranges(BasicTypeInfo.SHORT_TYPE_INFO())
        (<class 'int'>, ('-32768 <= {v} <= 32767',))
    """
    if isinstance(type_info, TupleTypeInfo):
        parts = [_CLASSES.get(field_type, (None, "")) for field_type in type_info.get_field_types()]
        kinds = tuple(kind for kind, _ in parts)
        return (kinds if kinds and None not in kinds else None), tuple(more for _, more in parts)
    kind, more = _CLASSES.get(type_info, (None, ""))
    return kind, (more,)


def ranges_check(ranges: tuple[str, ...]) -> Callable[[list[Any]], bool]:
    """Return a check of tuples that have the shape of their type: of ranges, and of what else a class does not tell."""
    return _Source().ranges(ranges)


def row_names(type_info: RowTypeInfo, convert: Converter) -> Callable[[Iterable[Any]], list[Any]]:
    """Return a function that gives rows and tuples the names of their type, and leaves the rest to a converter."""
    return _Source().rows(type_info, convert)


def _checked(wanted: Any) -> Quick:
    convert = msgspec.convert

    def check(records: list[Any]) -> list[Any] | None:
        try:
            found = convert(records, wanted)
        except (msgspec.ValidationError, ValueError):  # of texts with halves of surrogates, and signaling NaN
            return None
        return found if found == records else None

    return check


def _singles(records: list[Any]) -> list[Any] | None:
    """Return floats rounded to 32 bits; what is no float, or infinite once rounded, is left to the converter."""
    if set(map(type, records)) != {float}:
        return None
    rounded = array("f", records).tolist()
    return None if inf in rounded or -inf in rounded else rounded


def _of_class(kind: type) -> Quick:
    def check(records: list[Any]) -> list[Any] | None:
        kinds = list(map(type, records))
        found = kinds.count(kind)
        return records if found == len(kinds) or found + kinds.count(type(None)) == len(kinds) else None

    return check


def _is_single(value: float) -> bool:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0] == value or value != value  # noqa: PLR0124 - it is NaN
    except OverflowError:
        return False


#: What the further conditions on values call.
RANGE_FUNCTIONS: Final[dict[str, Any]] = {"is_single": _is_single}


class _Source:
    """The source of the functions that check one type."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = (
            {"Row": Row, "bare_row": bare_row, "INSERT": RowKind.INSERT} | RANGE_FUNCTIONS | _BUILTINS
        )
        self._count = 0

    def block(self, type_info: TypeInformation) -> Callable[[list[Any]], bool]:
        """Return the function that checks whether all records have the type."""
        value = self._new("value")
        body = self._check(type_info, value, "        ")
        holds = self._compile(
            "holds", f"def holds(records, LOCALS):\n    for {value} in records:\n{body}    return True\n"
        )

        def check(records: list[Any]) -> bool:
            try:
                return holds(records)
            except ValueError:  # a row with more or fewer values than it has names
                return False

        return check

    def call(
        self,
        typed: Iterable[tuple[str, TypeInformation, Converter]],
        arguments: Sequence[str],
        result: str,
        first: str = "pass",
    ) -> Callable[[Any], Any]:
        """Return the function that takes a `call`, and returns a function that brings variables into their types.

        Args:
            typed: The variables, their types and converters.
            arguments: The names of the function's arguments.
            result: What it returns.
            first: What it does first.
        """
        lines = "".join(self._converted(*one) for one in typed)
        return self._compile(
            "make",
            f"def make(call, LOCALS):\n    def made({', '.join(arguments)}):\n        {first}\n{lines}"
            f"        return {result}\n    return made\n",
        )

    def _converted(self, name: str, type_info: TypeInformation, convert: Converter) -> str:
        """Return lines that leave a variable as it is, or convert it if it does not match its type."""
        converted, indent = f"{name} = {self._constant(convert)}({name})", " " * 8
        if type_info in _CLASSES:
            return f"{indent}if not {self._condition(type_info, name)}: {converted}\n"
        if isinstance(type_info, RowTypeInfo):
            body = self._row_check(type_info, name, f"{indent}    ", gives_names=True)
        else:
            body = self._check(type_info, name, f"{indent}    ")
        body = body.replace("return False", "raise ValueError")
        return f"{indent}try:\n{body}{indent}except ValueError: {converted}\n"  # see `block`

    def ranges(self, ranges: tuple[str, ...]) -> Callable[[list[Any]], bool]:
        """Return the function that checks tuples of the shape of their type."""
        fields = [(self._new("field") if more else "_", more) for more in ranges]
        conditions = [f"({more.format(v=name)})" for name, more in fields if more]
        return self._compile(
            "within",
            f"def within(records, LOCALS):\n    for {_unpacked([name for name, _ in fields])} in records:\n"
            f"        if not ({_all(conditions)}): return False\n    return True\n",
        )

    def rows(self, type_info: RowTypeInfo, convert: Converter) -> Callable[[Iterable[Any]], list[Any]]:
        """Return the function that gives rows their names, and makes rows of tuples."""
        make_row(type_info.get_field_names(), (), RowKind.INSERT)  # so that rows have these names, see `bare_row`
        names, fields = self._constant(type_info.get_field_names()), self._fields(type_info.get_field_types())
        convert_name = self._constant(convert)
        return self._compile(
            "named",
            "def named(records, LOCALS):\n"
            "    rows = []\n"
            "    put = rows.append\n"
            "    for record in records:\n"
            "        values = None\n"
            "        if type(record) is Row and record._fields is None:\n"
            "            values, row_kind = record._values, record._row_kind\n"
            "        elif type(record) is tuple:\n"
            "            values, row_kind = list(record), INSERT\n"
            "        if values is not None:\n"
            f"            if len(values) == {len(fields)}:\n"
            f"                {_unpacked([name for name, _ in fields])} = values\n"
            "                try:\n"
            f"                    fits = {_all(condition for _, condition in fields)}\n"
            "                except ValueError:\n"  # see `block`
            "                    fits = False\n"
            "                if fits:\n"
            "                    row = bare_row(Row)\n"
            f"                    row._fields = {names}\n"
            "                    row._values = values\n"
            "                    row._row_kind = row_kind\n"
            "                    put(row)\n"
            "                    continue\n"
            f"        put({convert_name}(record))\n"
            "    return rows\n",
        )

    def _check(self, type_info: TypeInformation, value: str, indent: str) -> str:
        """Return lines that return False where a value is not of its type."""
        match type_info:
            case RowTypeInfo():
                return self._row_check(type_info, value, indent)
            case TupleTypeInfo():
                fields = self._fields(type_info.get_field_types())
                return _lines(indent, value, "tuple", _fields_fit(value, fields))
            case _ if type_info in _CLASSES:  # of the arrays, those of bytes
                return f"{indent}if not {self._condition(type_info, value)}: return False\n"
            case ListTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo() | PrimitiveArrayTypeInfo():
                item = self._new("item")
                fits = self._condition(type_info.elem_type, item)
                if isinstance(type_info, PrimitiveArrayTypeInfo):
                    fits = f"{item} is not None and {fits}"
                return _lines(indent, value, "list", [f"for {item} in {value}:", f"    if not ({fits}): return False"])
            case MapTypeInfo():
                key, item = self._new("key"), self._new("item")
                fits = self._condition(type_info.key_type, key), self._condition(type_info.value_type, item)
                inner = f"    if {key} is None or not ({fits[0]} and {fits[1]}): return False"
                return _lines(indent, value, "dict", [f"for {key}, {item} in {value}.items():", inner])
            case _:
                return f"{indent}if not {self._condition(type_info, value)}: return False\n"

    def _row_check(self, type_info: RowTypeInfo, value: str, indent: str, *, gives_names: bool = False) -> str:
        """Return lines that return False where a value is no such row; one without names may become one with them."""
        names, fields = self._constant(type_info.get_field_names()), self._fields(type_info.get_field_types())
        found = self._new("names")
        differs = f"{found} is not {names} and {found} != {names}"
        checks = [
            f"{found} = {value}._fields",
            f"if {f'{found} is not None and ' if gives_names else ''}{differs}: return False",
            *_fields_fit(f"{value}._values", fields),
        ]
        if gives_names:
            make_row(type_info.get_field_names(), (), RowKind.INSERT)  # so that rows have these names, see `bare_row`
            row = self._new("row")
            values = ", ".join(field for field, _ in fields)
            checks += [
                f"if {found} is None:",
                f"    {row} = bare_row(Row)",
                f"    {row}._fields, {row}._values, {row}._row_kind = {names}, [{values}], {value}._row_kind",
                f"    {value} = {row}",
            ]
        return _lines(indent, value, "Row", checks)

    def _condition(self, type_info: TypeInformation, value: str) -> str:
        """Return an expression that is true where a value is None or of its type."""
        single = _CLASSES.get(type_info)
        if single is not None:
            kind, more = single
            condition = f"type({value}) is {self._constant(kind)}"
            return f"({condition}{' and ' + more.format(v=value) if more else ''} or {value} is None)"
        if not isinstance(type_info, _MADE_OF_OTHERS):
            return "True"
        inner, name = self._new("value"), self._new("holds")
        body = self._check(type_info, inner, "    ")
        self._names[name] = self._compile(name, f"def {name}({inner}, LOCALS):\n{body}    return True\n")
        return f"({value} is None or {name}({value}))"

    def _fields(self, types: list[TypeInformation]) -> list[tuple[str, str]]:
        """Return a variable and a condition for each field."""
        variables = [self._new("field") for _ in types]
        return [(variable, self._condition(kind, variable)) for variable, kind in zip(variables, types, strict=True)]

    def _new(self, name: str) -> str:
        self._count += 1
        return f"{name}_{self._count}"

    def _constant(self, value: Any) -> str:
        if isinstance(value, type) and _BUILTINS.get(value.__name__) is value:
            return value.__name__
        name = self._new("constant")
        self._names[name] = value
        return name

    def _compile(self, name: str, source: str) -> Callable[..., Any]:
        # Python finds locals faster than globals.
        source = source.replace("LOCALS", ", ".join(f"{one}={one}" for one in self._names))
        # The name of a file of Penstock's, so that errors name the user's own line, which is before it.
        code = compile(source, f"{Path(__file__).parent}/<check of {name}>", "exec")
        exec(code, self._names)  # noqa: S102 - made of nothing of the user's
        return self._names[name]


_BUILTINS: Final[dict[str, Any]] = {
    kind.__name__: kind for kind in (type, int, float, bool, str, bytes, tuple, list, dict, len)
}

_MADE_OF_OTHERS: Final = (
    RowTypeInfo,
    TupleTypeInfo,
    ListTypeInfo,
    BasicArrayTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    MapTypeInfo,
)


def _lines(indent: str, value: str, kind: str, checks: list[str]) -> str:
    """Return the checks of a value of a class; None passes."""
    inner = "".join(f"{indent}    {check}\n" for check in checks)
    return f"{indent}if type({value}) is {kind}:\n{inner}{indent}elif {value} is not None: return False\n"


def _fields_fit(values: str, fields: list[tuple[str, str]]) -> list[str]:
    if not fields:
        return [f"if len({values}): return False"]
    unpacked = f"{_unpacked([name for name, _ in fields])} = {values}"
    return [unpacked, f"if not ({_all(condition for _, condition in fields)}): return False"]


def _unpacked(names: list[str]) -> str:
    return f"({', '.join(names)},)" if names else "()"


def _all(conditions: Iterable[str]) -> str:
    return " and ".join(condition for condition in conditions if condition != "True") or "True"
