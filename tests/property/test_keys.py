from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy
import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.key_selection import KeySelection
from penstock._engine.protocol.key_blocks import normal_keys
from penstock._engine.protocol.key_groups import (
    default_max_parallelism,
    int_key_groups,
    key_group,
    key_group_range,
    subtask_of_key_group,
)
from penstock._engine.protocol.key_values import key_value
from penstock._engine.protocol.keys import decode_normal, encode_key, encode_normal, normal_key
from penstock._engine.runtime.column_routing import KeyColumn
from penstock._engine.runtime.key_routes import KeyRoutes
from penstock.common.columns import RecordLayout

#: Few distinct values, so that equal keys of different types meet.
small = st.integers(-3, 3)
numbers = st.one_of(
    small,
    st.integers(),
    st.booleans(),
    small.map(float),
    st.floats(allow_nan=False),
    small.map(Decimal),
    st.decimals(allow_nan=False, places=2),
    st.builds(Fraction, small, st.integers(1, 4)),
    st.builds(complex, small, small),
)
zones = st.sampled_from([UTC, timezone(timedelta(hours=2)), timezone(-timedelta(minutes=90)), None])
#: Nights in which the clocks of these zones skip an hour or repeat one, and an ordinary one.
nights = st.builds(
    datetime,
    st.just(2026),
    *(st.sampled_from([3, 10]), st.sampled_from([24, 25, 29]), st.integers(0, 4), st.sampled_from([0, 30])),
    tzinfo=st.sampled_from([UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("Europe/London"), ZoneInfo("Europe/Paris")]),
    fold=st.integers(0, 1),
)
atoms = st.one_of(
    st.none(),
    numbers,
    st.text(max_size=3),
    st.binary(max_size=3),
    st.dates(),
    st.builds(date, st.just(2026), st.just(1), st.integers(1, 3)),
    st.builds(datetime, st.just(2026), st.just(1), st.just(1), st.integers(0, 4), tzinfo=zones),
    st.builds(time, st.integers(10, 14), tzinfo=zones),
    st.builds(timedelta, seconds=small),
    st.uuids(),
)
keys = st.recursive(
    atoms, lambda parts: st.lists(parts, max_size=3).map(tuple) | st.frozensets(parts, max_size=3), max_leaves=6
)


@given(keys, keys)
def test_keys_are_equal_exactly_when_their_bytes_are(left: Any, right: Any) -> None:
    assert (left == right) == (encode_key(left) == encode_key(right))


@settings(max_examples=500)
@given(nights, nights)
def test_times_of_hours_that_a_clock_skips_or_repeats_are_keys_as_python_compares_them(
    left: datetime, right: datetime
) -> None:
    assert (left == right) == (encode_key(left) == encode_key(right))
    assert key_value(normal_key(left)) == left


@given(keys)
def test_what_an_encoding_stands_for_is_equal_to_the_key(key: Any) -> None:
    value = key_value(normal_key(key))
    assert value == key
    assert encode_key(value) == encode_key(key)


@given(
    st.times(
        timezones=st.timedeltas(-timedelta(hours=23), timedelta(hours=23)).map(
            lambda offset: timezone(offset - offset % timedelta(minutes=1))
        )
    )
)
def test_times_keep_what_they_are_compared_by(key: time) -> None:
    assert key_value(normal_key(key)) == key


@given(keys, keys)
def test_normal_keys_are_equal_exactly_when_keys_are(left: Any, right: Any) -> None:
    assert (left == right) == (normal_key(left) == normal_key(right))


@given(st.lists(numbers, min_size=2, max_size=8))
def test_lookalike_numbers_fall_together_as_they_do_in_a_dict(values: list[Any]) -> None:
    assert len({encode_key(value) for value in values}) == len(set(values))


@given(keys)
def test_normal_key_goes_to_bytes_and_back(key: Any) -> None:
    normal = normal_key(key)
    assert encode_normal(normal) == encode_key(key)
    assert decode_normal(encode_normal(normal)) == normal
    assert type(decode_normal(encode_normal(normal))) is type(normal)


@given(keys, st.integers(1, 32_768), st.integers(1, 1_000))
def test_key_belongs_to_the_one_subtask_whose_range_has_its_group(
    key: Any, max_parallelism: int, parallelism: int
) -> None:
    assume(parallelism <= max_parallelism)
    group = key_group(normal_key(key), max_parallelism)
    owners = [
        subtask for subtask in range(parallelism) if group in key_group_range(subtask, parallelism, max_parallelism)
    ]
    assert owners == [subtask_of_key_group(group, parallelism, max_parallelism)]


@given(st.integers(1, 100_000))
def test_default_max_parallelism_is_a_power_of_two_with_room(parallelism: int) -> None:
    most = default_max_parallelism(parallelism)
    assert most & (most - 1) == 0
    assert 128 <= most <= 32_768
    assert most >= min(parallelism + parallelism // 2, 32_768)


@given(
    st.lists(st.tuples(st.sampled_from([-(1 << 63), -3, (1 << 63) - 40]), st.integers(0, 39)), min_size=1),
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
)
def test_ints_close_together_have_the_receivers_of_their_key_groups(
    starts: list[tuple[int, int]], sizes: list[int]
) -> None:
    routes = KeyRoutes(3, 128)
    for place, (start, more) in enumerate(starts):
        keys = [start + (more + step) % 40 for step in range(sizes[place % len(sizes)])]
        found = routes.of_dense_ints(numpy.array(keys, numpy.int64))
        if found is None:  # then it had no table for these, and a new one would have been larger than the keys are many
            assert max(keys) - min(keys) > len(keys)
        else:
            assert found.tolist() == routes.of(keys, KeySelection(lambda key: key))


@given(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-300, 300), min_size=1),
    st.sampled_from(["int8", "int32", "uint16", "uint32", "int64", "uint64"]),
    st.booleans(),
    st.integers(1, 5),
)
def test_columns_and_rows_send_a_key_to_one_receiver(keys: list[int], kind: str, nulls: bool, parallelism: int) -> None:
    column = pa.array(keys, pa.int64()).cast(pa.type_for_alias(kind), safe=False)
    if nulls:
        column = pa.concat_arrays([column, pa.nulls(1, column.type)])
    batch = ColumnBatch(pa.record_batch({"key": column}), RecordLayout.DICTS, None, [])
    routes, values = KeyRoutes(parallelism, 128), column.to_pylist()
    by_columns = KeyColumn("key").receivers(batch, routes).tolist()
    assert by_columns == [subtask_of_key_group(key_group(normal_key(key), 128), parallelism, 128) for key in values]
    assert by_columns == routes.of(values, KeySelection(lambda key: key))
    numbers = numpy.array(keys)
    assert int_key_groups(numbers, 128).tolist() == [key_group(key, 128) for key in keys]


@given(
    st.integers(0, 3).flatmap(
        lambda fields: st.lists(
            st.tuples(*([small | st.integers() | st.text() | st.text("é", min_size=124) | st.booleans()] * fields))
        )
    ),
    st.lists(st.tuples(small) | st.tuples(small, st.text()) | atoms),
)
def test_many_keys_have_the_normal_keys_of_each(tuples: list[Any], mixed: list[Any]) -> None:
    for keys in (tuples, [(number, "a") for number in range(3)], mixed):
        assert normal_keys(keys) == list(map(normal_key, keys))
