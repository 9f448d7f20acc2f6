"""Process functions: state, timers, side outputs, and what a function may do with what it yielded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.operators import side_outputs
from penstock.datastream.functions import KeyedProcessFunction, ProcessFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.time_domain import TimeDomain
from penstock.errors import UnsupportedOperationError
from penstock.testing.harness import OperatorHarness, StreamRecord, Watermark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Steps(KeyedProcessFunction):
    """Does what its records say: each is (key, step), and a step is a function of the function and the context."""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("state"))
        self.timers_in_timers: list[int] = []

    def process_element(self, value: Any, ctx: Any) -> Any:
        return value[1](self, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        for later in self.timers_in_timers:
            ctx.timer_service().register_event_time_timer(later)
        self.timers_in_timers = []
        domain = "event" if ctx.time_domain() is TimeDomain.EVENT_TIME else "processing"
        yield domain, ctx.get_current_key(), timestamp


def keyed(function: KeyedProcessFunction | None = None, **subtask: int) -> OperatorHarness:
    return OperatorHarness.for_keyed_process(function or Steps(), lambda record: record[0], **subtask)


def register(*times: int) -> Callable[..., None]:
    def step(function: Steps, ctx: Any) -> None:
        for time in times:
            ctx.timer_service().register_event_time_timer(time)

    return step


def delete(time: int) -> Callable[..., None]:
    return lambda function, ctx: ctx.timer_service().delete_event_time_timer(time)


def register_processing(*times: int) -> Callable[..., None]:
    def step(function: Steps, ctx: Any) -> None:
        for time in times:
            ctx.timer_service().register_processing_time_timer(time)

    return step


@pytest.mark.behaviour(182)
def test_event_time_timers_fire_in_order_of_time_once_the_watermark_reaches_them() -> None:
    harness = keyed()
    harness.process_elements([("a", register(30, 10)), ("b", register(20))])
    harness.process_watermark(19)
    assert harness.values() == [("event", "a", 10)]
    harness.process_watermark(30)
    assert harness.output()[1:] == [
        Watermark(19),
        StreamRecord(("event", "b", 20), 20),
        StreamRecord(("event", "a", 30), 30),
        Watermark(30),
    ]


@pytest.mark.behaviour(181)
def test_a_timer_set_twice_fires_once() -> None:
    harness = keyed()
    harness.process_elements([("a", register(10, 10)), ("a", register(10))])
    harness.process_watermark(10)
    harness.process_watermark(11)
    assert harness.values() == [("event", "a", 10)]


@pytest.mark.behaviour(181)
def test_a_deleted_timer_does_not_fire() -> None:
    harness = keyed()
    harness.process_elements([("a", register(10)), ("b", register(10)), ("a", delete(10))])
    harness.process_watermark(10)
    assert harness.values() == [("event", "b", 10)]


@pytest.mark.behaviour(182)
def test_a_timer_at_or_below_the_watermark_fires_at_the_next_advance() -> None:
    harness = keyed()
    harness.process_watermark(100)
    harness.process_element(("a", register(50, 100)))
    assert harness.values() == []
    harness.process_watermark(101)
    assert harness.values() == [("event", "a", 50), ("event", "a", 100)]


@pytest.mark.behaviour(182)
def test_a_timer_that_a_timer_sets_at_or_below_the_watermark_fires_in_the_same_advance() -> None:
    function = Steps()
    harness = keyed(function)
    harness.process_elements([("a", register(10, 40))])
    function.timers_in_timers = [20, 50]
    harness.process_watermark(40)
    assert harness.values() == [("event", "a", 10), ("event", "a", 20), ("event", "a", 40)]
    harness.process_watermark(50)
    assert harness.values()[3:] == [("event", "a", 50)]


@pytest.mark.parametrize("at_once", [1, 2, 7])
def test_more_timers_than_fire_at_once_fire_in_the_same_order_and_once(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(side_outputs, "_TIMERS", at_once)
    function = Steps()
    harness = keyed(function)
    harness.process_elements([("a", register(*range(0, 20, 2))), ("b", register(*range(1, 20, 2)))])
    function.timers_in_timers = [15, 30]  # a timer of its own for the key of the first one
    harness.process_watermark(25)
    fired = [*(("event", "ab"[time % 2], time) for time in range(20)), ("event", "a", 15)]
    assert harness.output()[-1] == Watermark(25)
    assert sorted(harness.values(), key=lambda value: value[2]) == harness.values()
    assert sorted(harness.values()) == sorted(fired)
    harness.process_watermark(30)
    assert harness.values()[len(fired) :] == [("event", "a", 30)]


def test_processing_time_timers_fire_by_the_clock_and_their_records_have_no_timestamp() -> None:
    harness = keyed()
    harness.process_element(("a", register_processing(20, 10)), timestamp=5)
    harness.set_processing_time(9)
    assert harness.values() == []
    harness.set_processing_time(20)
    assert harness.output() == [
        StreamRecord(("processing", "a", 10)),
        StreamRecord(("processing", "a", 20)),
    ]


def test_the_watermark_fires_no_processing_time_timer() -> None:
    harness = keyed()
    harness.process_element(("a", register_processing(10)))
    harness.process_watermark(1_000)
    assert harness.values() == []


def test_timers_and_state_survive_a_restore() -> None:
    before = keyed()
    before.process_elements([("a", register(30)), ("b", register_processing(40))])
    before.process_elements([("a", lambda function, ctx: function.state.update("kept"))])
    after = keyed()
    after.restore(before.snapshot())
    after.process_element(("a", lambda function, ctx: [function.state.value()]))
    after.process_watermark(30)
    after.set_processing_time(40)
    assert after.values() == ["kept", ("event", "a", 30), ("processing", "b", 40)]


@pytest.mark.behaviour(184)
def test_overdue_processing_time_timers_fire_when_the_restored_function_starts() -> None:
    before = keyed()
    before.process_element(("a", register_processing(40)))
    after = keyed()
    after.restore(before.snapshot())
    after.clock.set(100)
    after.open()
    assert after.values() == [("processing", "a", 40)]


def test_the_watermark_is_still_known_after_a_restore() -> None:
    before = keyed()
    before.process_watermark(70)
    after = keyed()
    after.restore(before.snapshot())
    after.process_element(("a", lambda function, ctx: [ctx.timer_service().current_watermark()]))
    assert after.values() == [70]


def test_state_and_timers_follow_their_keys_to_another_parallelism() -> None:
    keys = [f"key-{number}" for number in range(40)]
    before = keyed()
    before.process_elements([(key, lambda function, ctx: function.state.update(ctx.get_current_key())) for key in keys])
    before.process_elements([(key, register(10)) for key in keys])
    snapshot = before.snapshot()
    found: list[Any] = []
    fired: list[Any] = []
    for subtask in range(3):
        after = keyed(subtask_index=subtask, parallelism=3)
        after.restore(snapshot)
        for key in keys:
            try:
                after.process_element((key, lambda function, ctx: [(ctx.get_current_key(), function.state.value())]))
            except ValueError:
                continue  # another subtask's key
        found += after.values()
        after.clear_output()
        after.process_watermark(10)
        fired += after.values()
    assert sorted(found) == sorted((key, key) for key in keys)
    assert sorted(fired) == sorted(("event", key, 10) for key in keys)


@pytest.mark.behaviour(180)
def test_state_of_one_key_is_not_seen_by_another() -> None:
    harness = keyed()

    def count(function: Steps, ctx: Any) -> list[Any]:
        function.state.update((function.state.value() or 0) + 1)
        return [(ctx.get_current_key(), function.state.value())]

    harness.process_elements([("a", count), ("b", count), ("a", count), (1, count), (True, count), (1.0, count)])
    assert harness.values() == [("a", 1), ("b", 1), ("a", 2), (1, 1), (1, 2), (1, 3)]


@pytest.mark.behaviour(180)
def test_a_timer_has_the_state_of_its_own_key() -> None:
    class AtTimer(Steps):
        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield ctx.get_current_key(), self.state.value()

    harness = keyed(AtTimer())
    for key in ("a", "b"):
        harness.process_elements([(key, register(10)), (key, lambda f, ctx: f.state.update(ctx.get_current_key() * 2))])
    harness.process_watermark(10)
    assert harness.values() == [("a", "aa"), ("b", "bb")]


def test_what_was_yielded_does_not_change_with_the_state_it_came_from() -> None:
    class Collect(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

        def process_element(self, value: Any, ctx: Any) -> Any:
            seen = self.seen.value() or []
            yield seen  # before the change
            seen.append(value[1])
            self.seen.update(seen)
            yield ("so far", seen)  # inside of a tuple

    harness = keyed(Collect())
    harness.process_elements([("a", 1), ("a", 2)])
    assert harness.values() == [[], ("so far", [1]), [1], ("so far", [1, 2])]


def test_what_went_to_a_side_output_does_not_change_either() -> None:
    tag = OutputTag("copies")

    class Reuse(ProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.record: dict[str, Any] = {}

        def process_element(self, value: Any, ctx: Any) -> Any:
            self.record["value"] = value
            yield tag, self.record
            yield self.record

    harness = OperatorHarness.for_process(Reuse())
    harness.process_elements([1, 2])
    assert [item.value for item in harness.side_output(tag)] == [{"value": 1}, {"value": 2}]
    assert harness.values() == [{"value": 1}, {"value": 2}]


@pytest.mark.behaviour(191)
def test_side_outputs_are_told_by_their_tag_and_keep_timestamps() -> None:
    odd = OutputTag("odd")

    class Split(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            if value % 2:
                yield OutputTag("odd"), value
            else:
                yield value

    harness = OperatorHarness.for_process(Split())
    harness.process_elements(range(5), timestamp=7)
    assert harness.output() == [StreamRecord(0, 7), StreamRecord(2, 7), StreamRecord(4, 7)]
    assert harness.side_output(odd) == [StreamRecord(1, 7), StreamRecord(3, 7)]


def test_a_record_without_a_timestamp_has_the_smallest_one() -> None:
    class Times(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            return [ctx.timestamp()]

    harness = OperatorHarness.for_process(Times())
    harness.process_element("a")
    harness.process_element("b", timestamp=3)
    assert harness.values() == [-(2**63), 3]


@pytest.mark.behaviour(179)
def test_a_stream_without_keys_has_clocks_but_no_timers_and_no_keyed_state() -> None:
    class Asks(ProcessFunction):
        def open(self, runtime_context: Any) -> None:
            with pytest.raises(UnsupportedOperationError):
                runtime_context.get_state(ValueStateDescriptor("state"))

        def process_element(self, value: Any, ctx: Any) -> Any:
            with pytest.raises(UnsupportedOperationError):
                ctx.timer_service().register_event_time_timer(1)
            return [ctx.timer_service().current_watermark()]

    harness = OperatorHarness.for_process(Asks())
    harness.process_element("a")
    harness.process_watermark(9)
    harness.process_element("b")
    assert harness.values() == [-(2**63), 9]


def test_records_of_a_timer_get_its_time_even_when_the_stream_has_no_timestamps() -> None:
    harness = keyed()
    harness.process_elements([("a", lambda function, ctx: ["now"]), ("a", register(10))])
    harness.process_watermark(10)
    assert harness.output() == [StreamRecord("now"), StreamRecord(("event", "a", 10), 10), Watermark(10)]


@pytest.mark.behaviour(40)
def test_close_is_called_also_when_open_raised() -> None:
    closed: list[str] = []

    class Fails(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            raise RuntimeError

        def process_element(self, value: Any, ctx: Any) -> Any: ...

        def close(self) -> None:
            closed.append("closed")

    harness = keyed(Fails())
    with pytest.raises(RuntimeError):
        harness.open()
    harness.close()
    assert closed == ["closed"]


class Gives(ProcessFunction):
    """Yields what its records are."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return iter(value)


def results_of(*records: Any, stamped: bool = False) -> list[tuple[str | None, Any]]:
    from penstock._engine.operators.batch import RowBatch
    from penstock._engine.operators.functions.process import ProcessOperator

    operator = ProcessOperator(Gives())
    operator.timers = None  # pyright: ignore[reportAttributeAccessIssue] - the function asks for none
    stamps = [[place] * len(records) for place in range(2)] if stamped else [None] * 2
    operator.process(RowBatch(list(records), stamps[0]), 0)  # it follows the shape of the records before
    return list(operator.process(RowBatch(list(records), stamps[1]), 0))


@pytest.mark.parametrize("stamped", [False, True])
def test_results_of_one_shape_tell_it(stamped: bool) -> None:
    [(_, numbers)] = results_of([1, 2], [], [3], stamped=stamped)
    assert (numbers.records, numbers.shape) == ([1, 2, 3], int)
    [(_, pairs)] = results_of([("a", 1)], [("b", 2)], stamped=stamped)
    assert (pairs.records, pairs.shape) == ([("a", 1), ("b", 2)], (str, int))
    assert pairs.timestamps == ([1, 1] if stamped else None)


@pytest.mark.parametrize("records", [([1], ["a"]), ([(1, 2)], [(1, "a")]), ([(1, 2)], [(1, 2, 3)]), ([[1]], [[2]])])
def test_results_of_several_shapes_and_those_that_may_change_tell_none(records: tuple[Any, ...]) -> None:
    [(_, out)] = results_of(*records)
    assert out.records == [item for given in records for item in given]
    assert out.shape is None


def test_results_of_one_shape_beside_a_side_output() -> None:
    tag = OutputTag("side")
    side, main = results_of([1, (tag, 2)], [3], stamped=True)
    assert (side[0], side[1].records, side[1].timestamps) == ("side", [2], [1])
    assert (main[1].records, main[1].timestamps) == ([1, 3], [1, 1])
