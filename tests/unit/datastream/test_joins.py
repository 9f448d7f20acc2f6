"""Interval joins, window joins and co-groups: what they add to a job, what they give, and what they refuse."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.without_spark import Cluster
from tests.unit.graph.graphs import environment, job_graph, operator

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import OutputTag, RuntimeExecutionMode
from penstock.datastream.functions import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    KeySelector,
    ProcessJoinFunction,
)
from penstock.datastream.window import CountEvictor, EventTimeTrigger, TumblingEventTimeWindows
from penstock.errors import KeyRequiredError, UnsupportedOperationError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datastream import DataStream, StreamExecutionEnvironment

TENS = TumblingEventTimeWindows.of(Time.milliseconds(10))
FIRST = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("a", 12), ("b", 13)]
SECOND = [(5, "a"), (6, "b"), (7, "a"), (8, "d"), (19, "a"), (11, "c")]


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left, right


class Stamp(TimestampAssigner):
    """The whole number in a pair."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return next(field for field in value if isinstance(field, int))


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return environment(2)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(tmp_path).patch(monkeypatch)


def streams(env: StreamExecutionEnvironment) -> tuple[DataStream, DataStream]:
    stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    first, second = (env.from_collection(rows).assign_timestamps_and_watermarks(stamps) for rows in (FIRST, SECOND))
    return first, second


def keyed(env: StreamExecutionEnvironment) -> Any:
    first, second = streams(env)
    return first.key_by(lambda row: row[0]), second.key_by(lambda row: row[1])


def windows(env: StreamExecutionEnvironment, method: str) -> Any:
    first, second = streams(env)
    both = getattr(first, method)(second)
    return both.where(lambda row: row[0]).equal_to(lambda row: row[1]).window(TENS)


# ---------------------------------------------------------------------------------------------------- interval joins


@pytest.mark.parametrize(
    ("build", "bounds"),
    [
        (lambda joined: joined, (-5, 2000)),
        (lambda joined: joined.lower_bound_exclusive(), (-4, 2000)),
        (lambda joined: joined.upper_bound_exclusive(), (-5, 1999)),
    ],
)
def test_an_interval_join_is_an_operator_of_both_streams(env: Any, build: Any, bounds: tuple[int, int]) -> None:
    first, second = keyed(env)
    joined = build(first.interval_join(second).between(Time.milliseconds(-5), Duration.of_seconds(2)))
    joined.side_output_right_late_data(OutputTag("late")).process(Pairs()).print()
    members = pickle.loads(operator(job_graph(env), "Interval Join").payload)
    assert (members["lower_ms"], members["upper_ms"]) == bounds
    assert members["late_tags"] == (None, "late")


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_an_interval_join_in_a_job(env: Any, mode: RuntimeExecutionMode) -> None:
    env.set_runtime_mode(mode)
    first, second = keyed(env)
    joined = first.interval_join(second).between(Time.milliseconds(-1), Time.milliseconds(4)).process(Pairs())
    wanted = [(one, two) for one in FIRST for two in SECOND if one[0] == two[1] and -1 <= two[0] - one[1] <= 4]
    assert sorted(joined.execute_and_collect()) == sorted(wanted)


def test_an_empty_interval_is_refused_where_it_is_given(env: Any) -> None:
    first, second = keyed(env)
    join, ms = first.interval_join(second), Time.milliseconds
    with pytest.raises(ValueError, match=r"\[2 ms, 1 ms\] of the join is empty"):
        join.between(ms(2), ms(1))
    with pytest.raises(ValueError, match=r"\(1 ms, 1 ms\] of the join is empty"):
        join.between(ms(1), ms(1)).lower_bound_exclusive()
    with pytest.raises(ValueError, match=r"\(1 ms, 2 ms\) of the join is empty"):
        join.between(ms(1), ms(2)).lower_bound_exclusive().upper_bound_exclusive()


def test_interval_joins_need_keys_event_time_and_things_of_the_right_kind(env: Any) -> None:
    first, second = keyed(env)
    plain, _ = streams(env)
    join: Any = first.interval_join(second)
    with pytest.raises(KeyRequiredError, match=r"interval_join\(\) works on the records of a key.*key_by"):
        plain.interval_join(second)  # type: ignore[attr-defined]
    with pytest.raises(KeyRequiredError, match=r"key_by.* on both streams"):
        first.interval_join(plain)
    with pytest.raises(UnsupportedOperationError, match="another environment"):
        first.interval_join(keyed(environment(1))[1])
    with pytest.raises(UnsupportedOperationError, match="timestamps of the records"):
        join.in_processing_time()
    with pytest.raises(TypeError, match="lower_bound must be a Time"):
        join.between(-5, Time.seconds(1))
    joined = join.in_event_time().between(Time.seconds(0), Time.seconds(1))
    with pytest.raises(TypeError, match="output_tag must be an OutputTag"):
        joined.side_output_left_late_data("late")
    with pytest.raises(TypeError, match="must be a ProcessJoinFunction"):
        joined.process(print)


# ------------------------------------------------------------------------------------------- window joins, co-groups


def model() -> dict[tuple[str, int], tuple[list[Any], list[Any]]]:
    """The records of each key and window, by stream."""
    found: dict[tuple[str, int], tuple[list[Any], list[Any]]] = {}
    for key, stamp in FIRST:
        found.setdefault((key, stamp // 10), ([], []))[0].append((key, stamp))
    for stamp, key in SECOND:
        found.setdefault((key, stamp // 10), ([], []))[1].append((stamp, key))
    return found


class OnePair(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first, second


class SomePairs(FlatJoinFunction):
    """None for most pairs."""

    def join(self, first: Any, second: Any) -> Any:
        return [(first, second)] * 2 if first[0] == "b" else None


class Groups(CoGroupFunction):
    def clear(self) -> None:
        """A method of the program's own, of which windows know nothing."""
        raise AssertionError

    def open(self, runtime_context: Any) -> None:
        self.is_open = True

    def co_group(self, first: Any, second: Any) -> Any:
        assert self.is_open
        yield first, second


class Second(KeySelector):
    """Knows the place of the key once it is open."""

    def open(self, runtime_context: Any) -> None:
        self.place = 1

    def get_key(self, value: Any) -> Any:
        return value[self.place]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("function", [OnePair(), SomePairs(), lambda first, second: (first, second)])
def test_a_window_join_gives_all_pairs_of_a_key_and_window(env: Any, function: Any) -> None:
    pairs = [(one, two) for first, second in model().values() for one in first for two in second]
    wanted = [pair for pair in pairs if pair[0][0] == "b"] * 2 if isinstance(function, SomePairs) else pairs
    assert sorted(windows(env, "join").apply(function).execute_and_collect()) == sorted(wanted)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_a_co_group_gives_all_records_of_a_key_and_window(env: Any, mode: RuntimeExecutionMode) -> None:
    env.set_runtime_mode(mode)
    first, second = streams(env)
    both = first.key_by(lambda row: row[1]).co_group(second).where(lambda row: row[0]).equal_to(Second()).window(TENS)
    assert sorted(both.apply(Groups()).execute_and_collect()) == sorted(model().values())


def test_windows_of_both_have_the_settings_of_windows(env: Any) -> None:
    both = windows(env, "co_group").trigger(EventTimeTrigger()).evictor(CountEvictor.of(3)).allowed_lateness(7)
    both.apply(Groups()).print()
    members = pickle.loads(operator(job_graph(env), "Co-Group").payload)
    assert members["allowed_lateness_ms"] == 7
    assert isinstance(members["trigger"], EventTimeTrigger)
    assert isinstance(members["evictor"], CountEvictor)


def test_joins_refuse_what_they_cannot_take(env: Any) -> None:
    first, second = streams(env)
    for method in ("join", "co_group"):
        with pytest.raises(TypeError, match=rf"{method}\(\) takes streams"):
            getattr(first, method)([1])
        with pytest.raises(UnsupportedOperationError, match="another environment"):
            getattr(first, method)(streams(environment(1))[0])
        with pytest.raises(TypeError, match="key_selector must be"):
            getattr(first, method)(second).where(7)
        with pytest.raises(TypeError, match="window_assigner must be"):
            getattr(first, method)(second).where("a").equal_to("a").window(10)
    with pytest.raises(TypeError, match="must be a JoinFunction or FlatJoinFunction or a callable"):
        windows(env, "join").apply(Groups())
    with pytest.raises(TypeError, match="must be a CoGroupFunction"):
        windows(env, "co_group").apply(print)
