"""Converts rows and values to what fastavro writes by a schema; it would cut and round what does not fit a type."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from operator import index
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.common._codecs.avro_schema import plain
from penstock.common._codecs.avro_values import note, resolved, without_null
from penstock.common._codecs.row_values import elements_of, octets_of, values_of
from penstock.common.types import Row, field_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common._codecs.avro_values import Names

    Converter = Callable[[Any], Any]


def to_avro(definition: Any, names: Names | None = None) -> Converter:
    """Return the converter from our values to those that fastavro writes by a schema.

    Records are dicts, Rows with names, and by position tuples, lists and all other Rows. The names f0, f1 and so on are
    those of a type without names; they count only where the schema has them.

    The converter raises:
        ValueError: A value does not fit, as do TypeError, AttributeError and OverflowError.
    """
    names = {} if names is None else names
    definition, kind = resolved(definition, names)
    if kind == "union":
        left = without_null(definition)
        converters = [to_avro(one, names) for one in left]
        if len(left) != 1:
            return plain  # fastavro looks for the one that fits
        return lambda value: None if value is None else converters[0](value)
    if kind == "record":
        return definition["ready"] if "ready" in definition else _record(definition, names)
    if kind == "array":
        convert = to_avro(definition["items"], names)
        return lambda value: [convert(one) for one in elements_of(value)]
    if kind == "map":
        convert = to_avro(definition["values"], names)
        return lambda value: {key: convert(one) for key, one in value.items()}
    return plain if "logicalType" in definition else _SINGLE.get(kind, plain)


def _record(definition: dict[str, Any], names: Names) -> Converter:
    fields = [str(one["name"]) for one in definition["fields"]]
    converters: dict[str, Converter] = {}

    def convert(value: Any) -> dict[str, Any]:
        given = _by_name(value, fields)
        unknown = next((name for name in given if name not in converters), None)
        if unknown is not None:
            raise ValueError(f"it has a field {unknown!r}, and the schema has {', '.join(fields)}")
        return {name: converters[name](one) for name, one in given.items()}

    note(definition, {**definition, "ready": convert}, names)  # it may have records of its own kind in it
    converters.update({str(one["name"]): to_avro(one["type"], names) for one in definition["fields"]})
    return convert


def _by_name(value: Any, fields: list[str]) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    own = field_names(value) if isinstance(value, Row) else None
    if own is not None and not _are_of_a_type(own, fields):
        return {name: value[name] for name in own}
    return dict(
        zip(fields, values_of(tuple(value if isinstance(value, Row) else elements_of(value)), fields), strict=True)
    )


def _are_of_a_type(own: list[str], fields: list[str]) -> bool:
    """Tell whether a row has the names f0, f1 and so on that a type gives it, and the schema has others."""
    return own == [f"f{number}" for number in range(len(own))] and not set(own) <= set(fields)


def _whole(bits: int) -> Converter:
    most = 1 << bits - 1

    def convert(value: Any) -> int:
        number = index(value)
        if not -most <= number < most:
            raise ValueError(f"{number} is not between {-most} and {most - 1}")
        return number

    return convert


def _double(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise ValueError(f"{value!r:.80} is no number")  # noqa: TRY004 - of the value, as all that does not fit
    return float(value)


def _float(value: Any) -> float:
    number = _double(value)
    struct.pack("<f", number)  # an error where it is more than 32 bits can hold
    return number


def _truth(value: Any) -> bool:
    found = value.item() if hasattr(value, "item") else value  # NumPy's
    if not isinstance(found, bool):
        raise ValueError(f"{value!r:.80} is neither true nor false")  # noqa: TRY004 - as above
    return found


def _same(value: Any) -> Any:
    return value


_SINGLE: Final[dict[str, Converter]] = {
    "int": _whole(32),
    "long": _whole(64),
    "float": _float,
    "double": _double,
    "boolean": _truth,
    "bytes": octets_of,
    "fixed": octets_of,
    "string": _same,
    "enum": _same,
    "null": _same,
}
