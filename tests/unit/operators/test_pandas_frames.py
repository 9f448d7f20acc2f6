"""What a function of pandas' data frames gets and gives back: the values of records, to the last bit."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from tests.values.same import same

from penstock._engine.operators.columnar.frames import Frames
from penstock.common.columns import records_of
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Callable

EAST = datetime.timezone(datetime.timedelta(hours=2))
MOMENT = datetime.datetime(2020, 1, 1, tzinfo=EAST)
COUNTS = pa.map_(pa.string(), pa.int64())
PARTS = pa.list_(pa.struct([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))


def through(batch: Any, function: Callable[[Any], Any] = lambda frame: frame, declared: Any = None) -> list[Any]:
    """Return the records behind a function of data frames."""
    frames = Frames("pandas", declared or {})
    return [record for one in frames.taken(function(frames.given(batch))) for record in records_of(one)]


COLUMNS: dict[str, Any] = {
    "whole numbers with nulls": pa.array([2**60 + 1, None]),
    "unsigned": pa.array([2**64 - 1, None], pa.uint64()),
    "truth values": pa.array([True, None]),
    "whole numbers in lists": pa.array([[2**60 + 1, None], None, []]),
    "whole numbers in structs": pa.array([{"a": 2**60 + 1}, {"a": None}, None]),
    "lists in structs": pa.array([{"a": [2**60 + 1, None]}]),
    "zones in lists": pa.array([[MOMENT, None]], pa.list_(pa.timestamp("us", "+02:00"))),
    "zones in structs": pa.array([{"at": MOMENT}], pa.struct([("at", pa.timestamp("us", "UTC"))])),
    "maps": pa.array([{"a": 1}, {"b": None}, {}, None], COUNTS),
    "maps of numbers": pa.array([{1: 2}, {3: 4}], pa.map_(pa.int64(), pa.int64())),
    "maps in lists": pa.array([[{"a": 1}, {}], None], pa.list_(COUNTS)),
    "maps in maps": pa.array([{"k": {"a": 1}}], pa.map_(pa.string(), COUNTS)),
    "structs in lists": pa.array([[{"n": 2**60 + 1, "at": MOMENT}, None]], PARTS),
    "texts": pa.array(["a", None]),
    "nothing but nulls": pa.array([None, None], pa.string()),
    "bytes": pa.array([b"a", None]),
    "decimals": pa.array([Decimal("1.10"), None], pa.decimal128(10, 2)),
    "dates": pa.array([datetime.date(1, 1, 1), None]),
    "times of day": pa.array([datetime.time(1, 2, 3, 4), None]),
    "durations": pa.array([datetime.timedelta(1, 2, 3)]),
    "moments": pa.array([-62_135_596_800_000_000], pa.timestamp("us")),
    "categories": pa.array(["a", None, "a"]).dictionary_encode(),
    "empty structs": pa.array([{}]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_values_are_as_they_were_behind_a_frame(name: str) -> None:
    batch = pa.record_batch([COLUMNS[name], pa.array(range(len(COLUMNS[name])))], names=["v", "n"])
    assert same(through(batch), records_of(batch))
    assert same(through(batch.select(["v"])), records_of(batch.select(["v"])))


@pytest.mark.parametrize("name", ["maps", "maps in lists", "maps of numbers"])
def test_maps_of_a_declared_type_are_maps_whatever_the_columns_were_called(name: str) -> None:
    batch = pa.record_batch([COLUMNS[name]], names=["v"])
    renamed = through(batch, lambda frame: frame.rename(columns={"v": "w"}), {"w": COLUMNS[name].type})
    assert [one["w"] for one in renamed] == [one["v"] for one in records_of(batch)]


def test_dicts_that_have_got_more_fields_keep_all_of_them() -> None:
    batch = pa.record_batch([pa.array([{"a": 1}])], names=["v"])
    more = through(batch, lambda frame: frame.assign(v=[{"a": 1, "b": 2}]))
    assert more == [{"v": {"a": 1, "b": 2}}]


def test_a_named_index_becomes_a_column() -> None:
    batch = pa.record_batch({"k": ["x", "y", "x"], "v": [1, 2, 3], "w": [1, 1, 1]})
    assert through(batch, lambda frame: frame.groupby("k").sum()) == [
        {"k": "x", "v": 4, "w": 2},
        {"k": "y", "v": 2, "w": 1},
    ]
    assert through(batch, lambda frame: frame.groupby(["k", "w"]).sum())[0] == {"k": "x", "w": 1, "v": 4}
    assert through(batch, lambda frame: frame[frame["v"] > 1]) == batch.to_pylist()[1:]


def test_moments_of_objects_are_no_dates() -> None:
    """Arrow's own guess takes the time of day away."""
    batch = pa.record_batch({"v": [1, 2]})
    day, moment = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 5, 6)  # noqa: DTZ001
    with pytest.raises(BatchColumnsError, match=r"column 'v' .*datetime\.datetime\(2020, 1, 1, 5, 6\).*stands beside"):
        through(batch, lambda frame: frame.assign(v=[day, moment]))
    with pytest.raises(BatchColumnsError, match=r"column 'v' .*b'x'.*stands beside 'x'"):
        through(batch, lambda frame: frame.assign(v=["x", b"x"]))
    with pytest.raises(BatchColumnsError, match=r"column 'v' .*b'x'.*stands beside 'x'"):
        through(batch, lambda frame: frame.assign(v=pd.Categorical(["x", b"x"])))


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda frame: frame.set_index(pd.Index(["x", "y"])), "'x', has no name; name it"),
        (lambda frame: frame.describe(), "'count', has no name; name it"),
        (lambda frame: frame.set_index("v", drop=False), "the name of a column, 'v'"),
        (lambda frame: frame[[]], "rows and no columns"),
        (lambda frame: pd.concat([frame, frame], axis=1), "two columns of the name 'v'"),
    ],
)
def test_a_frame_of_which_something_would_be_lost_is_refused(function: Any, told: str) -> None:
    with pytest.raises(BatchColumnsError, match=told):
        through(pa.record_batch({"v": [1, 2]}), function)


def test_a_value_without_a_counterpart_names_its_column() -> None:
    for column in (pa.array([1], pa.time64("ns")), pa.array([[2**62]], pa.list_(pa.timestamp("s")))):
        batch = pa.record_batch([pa.array([1]), column], names=["n", "v"])
        with pytest.raises(BatchColumnsError, match="in its column 'v' has no counterpart in pandas"):
            through(batch)


def test_polars_has_no_maps() -> None:
    batch = pa.record_batch([pa.array([[{"a": 1}]], pa.list_(COUNTS))], names=["v"])
    with pytest.raises(BatchColumnsError, match=r"polars has no type for map<string, int64> in its column 'v'"):
        Frames("polars", {}).given(batch)
