"""The one function that makes columns of Python values changes none of them, however values are nested and cut."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock._formats.arrow_misfits import MisfitError
from penstock._formats.arrow_runs import array_as
from penstock._formats.arrow_types import kind_of
from penstock._formats.arrow_values import array_of, arrow_array
from penstock._formats.arrow_widening import alike, joined, wider_type
from penstock._formats.frame_types import of_frames
from penstock.common.columns import python_values
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Callable

ZONES = st.sampled_from([None, datetime.UTC, datetime.timezone(datetime.timedelta(hours=5, minutes=30))])
BEGIN = datetime.datetime(1900, 1, 1)  # noqa: DTZ001 - the strategy wants it so
SINGLES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.integers(-3, 3),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=3),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.dates(),
    st.times(),
    st.datetimes(BEGIN, BEGIN.replace(year=2200), timezones=ZONES),
    st.timedeltas(),
)
VALUES = st.recursive(
    SINGLES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
#: Columns in which values are often alike: several of one kind.
COLUMNS = st.lists(VALUES, min_size=1, max_size=4) | st.sampled_from(
    [st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6), st.lists(st.integers(-9, 9)), st.decimals(-99, 99, places=2)]
).flatmap(lambda kind: st.lists(kind | st.none(), max_size=5))


def whole(value: Any, kind: Any) -> Any:
    """Return a value with the fields that the structs of its type have."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: whole(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [whole(one, kind.value_type) for one in value]
    return value


def kinds_in(value: Any) -> set[type]:
    """Return the classes of what a value has in it."""
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return {type(value), *(kind for part in parts for kind in kinds_in(part))}


def or_error(make: Callable[[], Any]) -> Any:
    """Return what a function makes, or that values do not fit."""
    try:
        return make()
    except (MisfitError, BatchColumnsError) as error:
        return error


@given(COLUMNS)
def test_a_column_has_the_values_that_it_was_made_of_or_an_error_names_the_place(values: list[Any]) -> None:
    made = or_error(lambda: array_of(values))
    if isinstance(made, MisfitError):
        assert any(kind.__name__ in str(made) for kind in kinds_in(values[made.place]))
        return
    assert made.to_pylist() == [whole(value, made.type) for value in values]
    made.validate(full=True)


@given(COLUMNS, COLUMNS)
def test_columns_that_are_joined_have_the_values_of_both_or_an_error_names_both_types(
    first: list[Any], second: list[Any]
) -> None:
    columns = [or_error(lambda values=values: array_of(values)) for values in (first, second)]
    if any(isinstance(one, MisfitError) for one in columns):
        return
    table = or_error(lambda: joined([pa.table({"x": one}) for one in columns]))
    if isinstance(table, MisfitError):
        assert "'x'" in str(table)
        assert any(str(one.type) in str(table) for one in columns)
        return
    column = table.column("x")
    assert column.to_pylist() == [whole(value, column.type) for value in first + second]


@example([[None, None]], 0)
@example([{"a": [None, None]}, {"a": [None, None], "b": 1}], 1)
@given(COLUMNS, st.integers(0, 4))
def test_how_records_were_cut_into_batches_does_not_decide_what_stands_in_a_column(values: list[Any], cut: int) -> None:
    """What one batch can hold, several can; where one refuses, several may only differ by more digits."""
    parts = [values[:cut], values[cut:]]
    at_once = or_error(lambda: array_of(values))
    if isinstance(at_once, MisfitError):
        return
    column = joined([pa.table({"x": array_of(part)}) for part in parts]).column("x")
    assert column.to_pylist() == at_once.to_pylist()
    assert kind_of(column.type) == kind_of(at_once.type)


@example([{"a": [None, None], "b": BEGIN.replace(tzinfo=ZoneInfo("Europe/Berlin"))}])
@given(COLUMNS)
def test_columns_of_a_data_frame_have_the_same_values_or_an_error_names_the_column(values: list[Any]) -> None:
    made = or_error(lambda: array_of(values))
    if isinstance(made, MisfitError):
        return
    table = or_error(lambda: of_frames(pa.table({"x": made})))
    if isinstance(table, BatchColumnsError):
        assert "'x'" in str(table)
        return
    column = table.column("x")
    column.validate(full=True)
    assert column.to_pylist() == [whole(value, column.type) for value in values]


@given(COLUMNS)
def test_a_column_of_the_type_that_was_found_is_the_same(values: list[Any]) -> None:
    made = or_error(lambda: array_of(values))
    if not isinstance(made, MisfitError):
        assert arrow_array(values, made.type).equals(made)


def test_maps_in_lists_and_maps_are_dicts() -> None:
    counts = pa.map_(pa.string(), pa.int64())
    nested = pa.array([[{"a": 1}, {}]], pa.list_(counts))
    assert python_values(nested) == [[{"a": 1}, {}]]
    assert python_values(pa.array([{"a": {"b": 1}}], pa.map_(pa.string(), counts))) == [{"a": {"b": 1}}]


def test_a_map_with_a_key_twice_is_no_dict() -> None:
    column = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))
    with pytest.raises(ValueError, match=r"\[\('a', 1\), \('a', 2\)\] has a key twice"):
        python_values(column)


def test_decimals_get_as_many_digits_as_both_need() -> None:
    kind = wider_type(pa.array([Decimal("1.5")]).type, pa.array([Decimal("1.123456789")]).type)
    assert kind == pa.decimal128(10, 9)


#: A type that a column had before, and values for it, at the top and inside.
DAY, HALF = datetime.date(2020, 1, 1), pa.float32()
KEPT = [
    (pa.list_(HALF), [0.1]),
    (pa.list_(HALF), [0.5]),
    (pa.struct([("a", HALF)]), {"a": 0.1}),
    (pa.struct([("a", HALF), ("b", pa.float64())]), {"a": 0.1, "b": 0.1}),
    (pa.map_(pa.string(), pa.list_(HALF)), {"k": [0.1]}),
    (pa.list_(pa.int64()), [1.0]),
    (pa.list_(pa.float64()), [1]),
    (pa.list_(pa.timestamp("us")), [DAY]),
    (pa.list_(pa.struct([("a", pa.timestamp("us")), ("b", pa.int8())])), [{"a": DAY, "b": 1}]),
    (pa.list_(pa.int16()), [7]),
    (pa.list_(pa.dictionary(pa.int8(), pa.string())), ["a"]),
]


def test_values_for_a_column_that_had_a_type_stay_what_they_are_also_inside() -> None:
    for kind, value in KEPT:
        (found,) = array_as([value], kind).to_pylist()
        assert repr(dict(found) if pa.types.is_map(kind) else found) == repr(value), kind
    same = [kind for kind, value in KEPT if array_as([value], kind).type == kind]
    assert same == [pa.list_(HALF), pa.list_(pa.int16()), pa.list_(pa.dictionary(pa.int8(), pa.string()))]


def test_a_moment_that_python_does_not_have_is_told_by_its_column() -> None:
    kinds = [pa.struct([("t", pa.timestamp("us", zone)), ("n", pa.null())]) for zone in ("Europe/Berlin", "UTC")]
    with pytest.raises(MisfitError, match="'x'"):
        alike("x", [pa.array([{"t": 2**60, "n": None}], kind) for kind in kinds])
