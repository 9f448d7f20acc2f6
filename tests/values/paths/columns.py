"""What jobs do with columns: functions of batches, aggregates, windows, sorting and cached streams.

All run without a declared type, so that columns follow from values, and once more at parallelism 2, where records that
were beside each other are apart: nothing else may become of a value there. Many values share a job, each in a stream of
its own; only one that is refused has a job to itself.
"""

from __future__ import annotations

import math
import os
import pickle
import tempfile
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.without_spark import Cluster
from tests.values.same import same
from tests.values.table import NotAskedError, Outcome, Path
from tests.values.values import FIELD

from penstock.common import Configuration, Duration, Row, WatermarkStrategy
from penstock.common.order import Order
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.values.values import Value


#: The column by which records are found again.
NUMBER = "n"
#: The campaign takes all paths, the other runs those that show what these would as well.
ALL = "PENSTOCK_ALL_CELLS" in os.environ
#: The most values of a job.
_TOGETHER = 64


def _environment(parallelism: int) -> StreamExecutionEnvironment:
    options = {"execution.batch.adaptive.auto-parallelism.enabled": "false"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    return env.set_parallelism(parallelism).set_runtime_mode(RuntimeExecutionMode.BATCH)


def _collected(values: Sequence[Value], through: Any, parallelism: int) -> list[list[Any]]:
    """Run one job with some values, and return what came back of each."""
    env = _environment(parallelism)
    streams: list[Any] = []
    for place, value in enumerate(values):
        records = [{NUMBER: number, **record} for number, record in enumerate(value.records)]
        stream = through(env.from_collection(records), value)
        streams.append(stream.map(partial(_of, place)))
    first, *others = streams
    with (first.union(*others) if others else first).execute_and_collect() as results:
        found = sorted(results, key=lambda one: one[:2])
    return [[record for at, _, record in found if at == place] for place in range(len(values))]


def _may_be_handed_on(value: Value) -> bool:
    """Tell whether records can come to an operator at all: no other one gets what cannot be copied."""
    try:
        pickle.dumps(value.records)
    except (TypeError, AttributeError, pickle.PicklingError):
        return False
    return True


def _of(place: int, record: Any) -> tuple[int, int, Any]:
    fields = record.as_dict() if isinstance(record, Row) else dict(record)
    return place, fields.pop(NUMBER), fields


def _outcomes(values: Sequence[Value], through: Any, parallelism: int) -> Iterator[Outcome]:
    """Yield what becomes of each value; where one is refused, the others run again without it."""
    if not values:
        return
    try:
        yield from _collected(values, through, parallelism)
    except Exception as error:  # noqa: BLE001 - it is judged
        if len(values) == 1:
            yield error
        else:
            half = len(values) // 2
            for part in (values[:half], values[half:]):
                yield from _outcomes(part, through, parallelism)


def _run(through: Any, recorded: Callable[[], set[str]], values: Sequence[Value]) -> list[Outcome]:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
        Cluster(File(place)).patch(patch)
        found: dict[Value, Outcome] = {}
        if through in {_greatest, _keys, _windows}:  # which are about one column
            found |= {value: NotAskedError() for value in values if {FIELD} != set().union(*value.records)}
        found |= {value: NotAskedError() for value in values if not _may_be_handed_on(value)}
        asked = [value for value in values if value not in found]
        alone = [value for value in asked if str(value) in recorded()]
        others = [value for value in asked if value not in alone]
        groups = [[value] for value in alone]
        groups += [others[at : at + _TOGETHER] for at in range(0, len(others), _TOGETHER)]
        for group in groups:
            found |= zip(group, _outcomes(group, through, 1), strict=True)
        several = [value for value in asked if len(value.records) > 1]
        kept = [value for value in several if isinstance(found[value], list)]
        refused = [value for value in several if not isinstance(found[value], list)]
        for group in (kept, *[[value] for value in refused]):
            for value, outcome in zip(group, _outcomes(group, through, 2), strict=True):
                if not agree(found[value], outcome):
                    found[value] = AssertionError(f"parallelism 2 gives {outcome!r:.300}, and 1 {found[value]!r:.300}")
        return [found[value] for value in values]


def agree(one: Outcome, other: Outcome) -> bool:
    """Tell whether two outcomes of a value are one, but for what depends on the values in its column."""
    if isinstance(one, Exception) or isinstance(other, Exception):
        return type(one) is type(other)
    return same(bare(one), bare(other))


def bare(value: Any) -> Any:
    """Return a value without what depends on those in its column: the class of a number, and fields that are None."""
    if isinstance(value, dict):
        return {name: bare(one) for name, one in sorted(value.items()) if one is not None}
    if isinstance(value, list):
        return [bare(one) for one in value]
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return str(Decimal(value).normalize())
    if isinstance(value, float):
        return str(Decimal(value).normalize()) if math.isfinite(value) else str(value)
    return value.timestamp() if hasattr(value, "timestamp") and value.tzinfo else value


def _itself(batch: Any) -> Any:
    return batch


def _mapped(batch_format: str) -> Any:
    return lambda stream, _: stream.map_batches(_itself, batch_format=batch_format)


def _nested(through: Any) -> Any:
    """Let values be two levels deep: in a struct in a list."""

    def of(stream: Any, value: Value) -> Any:
        inner = stream.map(lambda one: one | {FIELD: [{"inner": one[FIELD]}]} if FIELD in one else one)
        return through(inner, value).map(lambda one: one | {FIELD: one[FIELD][0]["inner"]} if FIELD in one else one)

    return of


def _greatest(stream: Any, _: Value) -> Any:
    return stream.key_by(NUMBER).aggregate_batches({FIELD: "max"}).map(_renamed)


def _keys(stream: Any, _: Value) -> Any:
    sums = stream.key_by(FIELD).aggregate_batches({NUMBER: ["min", "count"]})
    return sums.flat_map(lambda one: [{NUMBER: one["n_min"], FIELD: one[FIELD]}] * one["n_count"])


def _windows(stream: Any, _: Value) -> Any:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(9)).with_timestamp_assigner(NUMBER)
    windows = stream.assign_timestamps_and_watermarks(strategy).key_by(NUMBER)
    return (
        windows.window(TumblingEventTimeWindows.of(Duration.of_millis(5)))
        .aggregate_batches({FIELD: "max"})
        .map(_renamed)
    )


def _renamed(one: dict[str, Any]) -> dict[str, Any]:
    return {NUMBER: one[NUMBER], FIELD: one[f"{FIELD}_max"]}


def _sorted(stream: Any, _: Value) -> Any:
    """Sort in one partition, whatever the parallelism."""
    keyed = stream.map(lambda one: one | {"key": 0}).key_by("key").full_window_partition()
    return keyed.sort_partition_batches([(NUMBER, Order.DESCENDING)]).map(lambda one: _without(one, "key"))


def _without(record: dict[str, Any], name: str) -> dict[str, Any]:
    return {field: part for field, part in record.items() if field != name}


def _cached(stream: Any, _: Value) -> Any:
    return stream.map_batches(_itself).cache()


def _path(name: str, about: str, through: Any, *, is_there: bool = True) -> Path:
    def alone() -> set[str]:
        from tests.values.page import refused

        return refused(path)

    path = Path(name, about, partial(_run, through, alone), is_there, names_operator=True)
    return path


PATHS = (
    _path(
        "Columns",
        "Records as columns without a type, by `map_batches` with a function that returns its batches.",
        _mapped("arrow"),
        is_there=ALL,
    ),
    _path("Columns, nested", "The same, two levels deep: in a struct in a list.", _nested(_mapped("arrow"))),
    _path("Columns, pandas", "The same, by a function of data frames of pandas.", _mapped("pandas"), is_there=ALL),
    _path("Columns, pandas nested", "The same, two levels deep.", _nested(_mapped("pandas"))),
    _path(
        "Columns, polars",
        "The same, by a function of data frames of polars.",
        _mapped("polars"),
        is_there=find_spec("polars") is not None,
    ),
    _path("Columns, greatest", "The greatest value of a key, by `aggregate_batches`.", _greatest, is_there=ALL),
    _path("Columns, keys", "Keys of `aggregate_batches`.", _keys),
    _path("Columns, windows", "The greatest value of each key in a window.", _windows),
    _path("Columns, sorted", "By `sort_partition_batches` in one partition, by another column.", _sorted),
    _path("Columns, cached", "A cached stream of batches.", _cached),
)
