"""Python values as columns: the one place that decides which values stand in one column, and of which type it is.

Nothing is changed to make a column: whole numbers, fractions and decimals stand beside each other where each keeps its
value, moments of several zones become moments of UTC, and None stands beside anything. Everything else is refused by
its place and both types. ``arrow_widening`` joins columns that were made apart by the same rules.
"""

from __future__ import annotations

import datetime
import decimal
import math
from bisect import bisect_right
from contextlib import contextmanager
from functools import cache
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._formats.arrow_misfits import MisfitError, made, misfits, with_class
from penstock._formats.arrow_types import kind_of
from penstock.common.time import Instant
from penstock.common.types import Row, field_names

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

#: The families of values, by their classes; the first that fits counts.
_FAMILIES: Final[dict[str, tuple[type[Any], ...]]] = {
    "truth value": (bool,),
    "integer": (int,),
    "fraction": (float,),
    "decimal": (decimal.Decimal,),
    "text": (str,),
    "bytes": (bytes, bytearray, memoryview),
    "point in time": (datetime.datetime,),
    "date": (datetime.date,),
    "time of day": (datetime.time,),
    "duration": (datetime.timedelta,),
    "struct": (dict,),
    "list": (list,),
}
_SINGLE: Final = frozenset(_FAMILIES) - {"struct", "list"}
_EPOCH: Final = datetime.datetime.fromtimestamp(0, datetime.UTC)
#: The families of values that a column of a kind takes, where they are others than the kind itself.
_TAKEN: Final[dict[str, set[str]]] = {
    "null": set(),
    "integer": {"integer", "fraction", "decimal"},
    "fraction": {"fraction", "integer"},
    "decimal": {"decimal", "integer"},
    "date": {"date", "point in time"},
    "point in time": {"point in time", "date"},
    "map": {"struct", "list"},
    "UUID": {"UUID"},
    "month_day_nano_interval": {"list"},
}


# ------------------------------------------------------------------------------------------------------- plain values


def plain(value: Any) -> Any:
    """Return a value of Python's own classes: rows as dicts, tuples and arrays as lists, at every level."""
    if isinstance(value, Row) and field_names(value) is not None:
        value = value.as_dict()
    if isinstance(value, Instant):
        return _moment(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in cast("list[Any]", value)]
    return _of_numpy(value) if _is_of_numpy(type(value)) else value


def _moment(instant: Instant) -> Any:
    """Return an instant as a datetime, or as it is if that would change it."""
    try:
        whole = _EPOCH + datetime.timedelta(seconds=instant.seconds, microseconds=instant.nanos // 1000)
    except OverflowError:
        return instant
    return instant if instant.nanos % 1000 else whole


def _of_numpy(value: Any) -> Any:
    """Return an array of NumPy as a list, and a scalar as Python's of the same value; another class as it is."""
    import pyarrow as pa

    if hasattr(value, "shape") and value.shape:
        return [plain(item) for item in value]
    if not hasattr(value, "dtype") or value.dtype.kind not in "biufUSMm":
        return value
    if value != value:  # noqa: PLR0124 - only what is no time differs from itself
        return value if value.dtype.kind in "Mm" else value.item()
    found = value.item()
    if value.dtype.kind not in "Mm" or isinstance(found, (datetime.date, datetime.timedelta)):
        return found
    try:
        return cast("Any", pa).scalar(value).as_py()  # of pandas, which has nanoseconds
    except misfits():  # pandas is not there, or the unit is none of a time
        return value


@cache
def _family(kind: Any) -> str:
    """Return the family of the values of a class; the class's name where Arrow has no type for it, None has none."""
    if kind is type(None):
        return ""
    return next((family for family, classes in _FAMILIES.items() if issubclass(kind, classes)), kind.__name__)


def _is_of_numpy(kind: Any) -> bool:
    return kind.__module__ == "numpy"


def families_of(values: Sequence[Any]) -> set[str]:
    """Return the families of values that are plain; None has none."""
    kinds: set[Any] = set(map(type, values))
    return set(map(_family, kinds)) - {""}


def _sorted_out(values: Sequence[Any]) -> tuple[Sequence[Any], set[str]]:
    """Return plain values, and their families."""
    kinds = cast("set[Any]", set(map(type, values)))
    families = set(map(_family, kinds)) - {""}
    if families <= _SINGLE and "numpy" not in {kind.__module__ for kind in kinds}:
        return values, families
    made = list(map(plain, values))
    return made, families_of(made)


def _first_of(values: Sequence[Any], family: str) -> int:
    return next(place for place, value in enumerate(values) if families_of((value,)) == {family})


# ---------------------------------------------------------------------------------------- the type follows from values


def array_of(values: Sequence[Any]) -> Any:
    """Return values as an array of the type that they have, without changing any.

    Raises:
        MisfitError: They have no type in common, or Arrow has no type for one.
    """
    import pyarrow as pa

    values, families = _sorted_out(values)
    if not families:
        return cast("Any", pa).nulls(len(values))
    for family in families - _FAMILIES.keys():
        place = _first_of(values, family)
        raise MisfitError(place, f"{with_class(values[place])} is of a class that columns do not have")
    if len(families) > 1:
        values, family = _widened(values, families)
    else:
        (family,) = families
    if family == "struct":
        return _structs(values)
    return _lists(values) if family == "list" else _singles(values, family)


def _widened(values: Sequence[Any], families: set[str]) -> tuple[Sequence[Any], str]:
    """Return numbers of several classes as numbers of one.

    Raises:
        MisfitError: They are no numbers, or one would be changed.
    """
    if families == {"integer", "decimal"}:
        return [None if value is None else decimal.Decimal(value) for value in values], "decimal"
    if families == {"integer", "fraction"}:
        return _as_fractions(values), "fraction"
    first, second = sorted(_first_of(values, family) for family in families)[:2]
    raise MisfitError(
        second, f"{with_class(values[second])} stands beside {with_class(values[first])}, which no column can"
    )


def _as_fractions(values: Sequence[Any]) -> list[float | None]:
    made: list[float | None] = []
    for place, value in enumerate(values):
        if isinstance(value, int) and abs(value) > 2**53:
            told = f"{with_class(value)} stands beside fractions, and a column of fractions would change it"
            raise MisfitError(place, told)
        made.append(None if value is None else float(value))
    return made


def _singles(values: Sequence[Any], family: str) -> Any:
    """Return values of one family that have no parts."""
    make: Callable[[Sequence[Any]], Any] = lambda given: _array(given, _single_type(given, family))  # noqa: E731
    if family in {"point in time", "time of day"}:
        _check_times(values)
        _check_years(values, datetime.UTC)
    return made(values, make)


def _single_type(values: Sequence[Any], family: str) -> Any:
    """Return the type of values of one family."""
    import pyarrow as pa

    match family:
        case "integer":
            return _whole_type(values)
        case "decimal":
            return _array(values).type
        case "point in time":
            return cast("Any", pa).timestamp("ns" if _have_nanoseconds(values) else "us", _zone(values))
        case "duration":
            return pa.duration("ns" if _have_nanoseconds(values) else "us")
        case _:
            simple = {
                "truth value": pa.bool_(),
                "fraction": pa.float64(),
                "text": pa.string(),
                "bytes": pa.binary(),
                "date": pa.date32(),
                "time of day": pa.time64("us"),
            }
            return simple[family]


def _whole_type(values: Sequence[Any]) -> Any:
    """Return the type of whole numbers, of 64 bits with a sign or without one."""
    import pyarrow as pa

    least, greatest = (edge(value for value in values if value is not None) for edge in (min, max))
    if least >= -(2**63) and greatest < 2**63:
        return pa.int64()
    if least >= 0 and greatest < 2**64:
        return pa.uint64()
    edge, other = (greatest, least) if greatest >= 2**63 else (least, greatest)
    told = (
        f"{with_class(edge)} stands beside {with_class(other)}, and"
        if edge < 2**64 and least != greatest
        else f"{with_class(edge)}"
    )
    raise MisfitError(values.index(edge), f"{told} has no place in 64 bits; a Decimal has")


def _have_nanoseconds(values: Sequence[Any]) -> bool:
    """Tell whether one of them is of pandas, and has what Python's own classes do not have."""
    kinds: set[type[Any]] = set(map(type, values))
    return any(hasattr(kind, "nanosecond") or hasattr(kind, "nanoseconds") for kind in kinds) and any(
        getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0) for value in values
    )


def _zone(values: Sequence[Any]) -> str | None:
    """Return the zone of moments: their own if it is one that Arrow can name, else UTC; None if they have none."""
    import pyarrow as pa

    zones: set[Any] = {value.tzinfo for value in values if value is not None}
    if zones == {None}:
        return None
    try:
        names: set[str] = set(map(cast("Any", pa).lib.tzinfo_to_string, zones))
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError):
        return "UTC"
    return names.pop() if len(names) == 1 else "UTC"


def _check_times(values: Sequence[Any], *, has_zone: bool | None = None) -> None:
    """Refuse moments with a zone beside others without one, times of day with a zone, and what is no time.

    Args:
        values: The times.
        has_zone: Whether their column has a zone; by default as the first moment.
    """
    first: Any = None
    for place, value in enumerate(values):
        if value is None:
            continue
        if value != value:  # noqa: PLR0124 - only what is no time differs from itself
            raise MisfitError(place, f"{value!r} is no time")
        is_aware = value.tzinfo is not None
        if isinstance(value, datetime.time):
            if is_aware:
                raise MisfitError(place, f"{with_class(value)} has a time zone, and columns of times of day have none")
        elif has_zone is None:
            first, has_zone = value, is_aware
        elif is_aware is not has_zone:
            beside = "its column has" if first is None else f"{with_class(first)} in its column has"
            told = f"has a time zone, and {beside} none" if is_aware else f"has no time zone, and {beside} one"
            raise MisfitError(place, f"{with_class(value)} {told}")


def _check_years(values: Sequence[Any], zone: Any) -> None:
    """Refuse moments that have no year in UTC, or in the zone of their column: nobody could read them in Python."""
    import pyarrow as pa

    for place, value in enumerate(values):
        if isinstance(value, datetime.datetime) and value.tzinfo is not None and value.year in {1, 9999}:
            there = cast("Any", pa).lib.string_to_tzinfo(zone) if isinstance(zone, str) else zone
            try:
                value.astimezone(datetime.UTC).astimezone(there)
            except OverflowError:
                raise MisfitError(place, f"{with_class(value)} has no year in {there}") from None


def _may_be_field(name: Any) -> bool:
    return isinstance(name, str) and name.encode(errors="replace").decode() == name  # no half of a surrogate pair


def _structs(values: Sequence[Any]) -> Any:
    import pyarrow as pa

    names: list[Any] = list(dict.fromkeys(chain.from_iterable(value for value in values if value is not None)))
    for name in names:
        if not _may_be_field(name):
            place = next(place for place, value in enumerate(values) if value is not None and name in value)
            raise MisfitError(place, f"{with_class(values[place])} has the key {name!r}; declare the type of a map")
    if not names:
        return _array(values, cast("Any", pa).struct([]))
    children = [_of_field(values, name, array_of) for name in names]
    nulls: Any = _array([value is None for value in values])
    return cast("Any", pa.StructArray).from_arrays(children, names=names, mask=nulls)


def _of_field(values: Sequence[Any], name: str, make: Callable[[Sequence[Any]], Any]) -> Any:
    """Return an array of one field of dicts."""
    try:
        return make([None if value is None else value.get(name) for value in values])
    except MisfitError as error:
        raise MisfitError(error.place, f"in its field {name!r} {error.reason}") from error


def _lists(values: Sequence[Any]) -> Any:
    import pyarrow as pa

    items, ends = _flat(values)
    with _in_lists(ends):
        made = array_of(items)
    offsets: Any = _array([0, *ends], pa.int32())
    nulls: Any = _array([value is None for value in values])
    return cast("Any", pa.ListArray).from_arrays(offsets, made, mask=nulls)


def _flat(values: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return the items of lists, and where those of each list end."""
    items = [item for value in values if value is not None for item in value]
    return items, list(accumulate(0 if value is None else len(value) for value in values))


@contextmanager
def _in_lists(ends: list[int]) -> Generator[None]:
    """Let errors about items tell the place of the list."""
    try:
        yield
    except MisfitError as error:
        raise MisfitError(bisect_right(ends, error.place), f"among its items {error.reason}") from error


def _array(values: Sequence[Any], arrow_type: Any = None) -> Any:
    import pyarrow as pa

    return cast("Any", pa).array(values, arrow_type)


# ------------------------------------------------------------------------------------------------------ a type is given


def arrow_array(values: Sequence[Any], arrow_type: Any) -> Any:
    """Return values as an array of a type, without changing any.

    Raises:
        MisfitError: A value does not fit or would be changed, also inside lists, maps and structs: such as 1.5 in a
            column of integers, a time in a column of dates, or a time without a zone in a column with one.
    """
    import pyarrow as pa

    types: Any = pa.types
    if types.is_dictionary(arrow_type):
        found: Any = arrow_array(values, arrow_type.value_type).dictionary_encode()
        indices = found.indices.cast(arrow_type.index_type)
        return cast("Any", pa.DictionaryArray).from_arrays(indices, found.dictionary)
    kind = kind_of(arrow_type)
    values, families = _sorted_out(values)
    if kind in _FAMILIES or kind in _TAKEN:
        for family in families - _TAKEN.get(kind, {kind}):
            place = _first_of(values, family)
            raise MisfitError(place, f"{with_class(values[place])} is no value of a column of {arrow_type}")
    if types.is_nested(arrow_type):
        _check_parts(values, arrow_type)
    return made(values, lambda given: _exact(given, kind, arrow_type))


def _exact(values: Sequence[Any], kind: str, arrow_type: Any) -> Any:
    """Return values of the right families as an array; a direct conversion would cut some of them silently."""
    import pyarrow as pa

    match kind:
        case "integer":
            return _array(list(map(_whole, values)), arrow_type)
        case "date":
            return _array(list(map(_day, values)), arrow_type)
        case "point in time" | "time of day" | "duration":
            if kind == "point in time":
                values = list(map(_midnight, values))
            if kind != "duration":
                _check_times(values, has_zone=kind == "time of day" or arrow_type.tz is not None)
                _check_years(values, None if kind == "time of day" else arrow_type.tz)
            if not families_of(values):
                return cast("Any", pa).nulls(len(values), arrow_type)
            return _array(values, _single_type(values, kind)).cast(arrow_type)
        case _:
            made: Any = _array(values, arrow_type)
            if pa.types.is_float32(arrow_type) or pa.types.is_float16(arrow_type):
                _check_numbers(values, made)
            return made


def _whole(value: Any) -> Any:
    if value is None or isinstance(value, int):
        return value
    whole = int(value)
    if whole != value:
        msg = "it is no whole number"
        raise ValueError(msg)
    return whole


def _day(value: Any) -> Any:
    if not isinstance(value, datetime.datetime):
        return value
    if value.time() != datetime.time.min or value.tzinfo is not None:
        msg = "a time of day in a column of dates would be lost"
        raise ValueError(msg)
    return value.date()


def _midnight(value: Any) -> Any:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime.combine(value, datetime.time.min)
    return value


def _check_numbers(values: Sequence[Any], made: Any) -> None:
    """Refuse numbers beyond those of a size, and whole ones that are not among them; fractions are rounded."""
    for place, (value, single) in enumerate(zip(values, made.to_pylist(), strict=True)):
        if single is not None and math.isinf(single) and not math.isinf(value):
            raise MisfitError(place, f"{value} is more than a number of this size can be")
        if isinstance(value, int) and single != value:
            raise MisfitError(place, f"{value} has more digits than a number of this size")


def _check_parts(values: Sequence[Any], arrow_type: Any) -> None:
    """Refuse values with a part that would be changed, or that is null where the type has none."""
    import pyarrow as pa

    kind: Any = pa.types
    if kind.is_struct(arrow_type):
        names = {field.name for field in arrow_type}
        for place, value in enumerate(values):
            if value is not None and not value.keys() <= names:
                raise MisfitError(
                    place, f"{with_class(value)} has fields that its column of {arrow_type} does not have"
                )
        for field in arrow_type:
            there = [place for place, value in enumerate(values) if value is not None]
            _check_nulls([values[place].get(field.name) for place in there], field, there)
            _of_field(values, field.name, lambda parts, field=field: arrow_array(parts, field.type))
    elif kind.is_map(arrow_type):
        _check_pairs(values, arrow_type)
    elif not kind.is_union(arrow_type):
        items, ends = _flat(values)
        with _in_lists(ends):
            _check_nulls(items, arrow_type.value_field, range(len(items)))
            arrow_array(items, arrow_type.value_type)


def _check_pairs(values: Sequence[Any], arrow_type: Any) -> None:
    pairs: list[Any] = [list(cast("Any", value).items()) if isinstance(value, dict) else value for value in values]
    for place, value in enumerate(pairs):
        if value is not None and not isinstance(values[place], dict):
            keys: list[Any] = [key for key, _ in value]
            if any(key in keys[:number] for number, key in enumerate(keys)):
                raise MisfitError(place, f"{with_class(value)} has a key twice, of which readers keep one")
    items, ends = _flat(pairs)
    with _in_lists(ends):
        _check_nulls([key for key, _ in items], arrow_type.key_field, range(len(items)))
        _check_nulls([item for _, item in items], arrow_type.item_field, range(len(items)))
        stored: Any = arrow_array([key for key, _ in items], arrow_type.key_type)
        if kind_of(arrow_type.key_type) not in {"text", "integer"}:  # of which different ones stay so
            _check_keys(stored.to_pylist(), ends)
        arrow_array([item for _, item in items], arrow_type.item_type)


def _check_keys(keys: list[Any], ends: list[int]) -> None:
    """Refuse maps of which two keys become one in their column, such as fractions that are rounded."""
    for begin, end in zip([0, *ends], ends, strict=False):
        if len(set(keys[begin:end])) < end - begin:
            raise MisfitError(begin, f"two of the keys are one in their column, of {keys[begin:end]}")


def _check_nulls(values: Sequence[Any], field: Any, places: Sequence[int]) -> None:
    if not field.nullable and None in (found := [value if value is None else 0 for value in values]):
        raise MisfitError(places[found.index(None)], f"its {field.name!r} is None, and the column takes no nulls there")
