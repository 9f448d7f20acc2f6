"""The operator of async functions: order, watermarks, capacity, timeouts, retries, and calls that outlive an epoch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.operators.async_functions import async_wait
from penstock._engine.operators.async_functions.async_wait import REPEATED_CALLS, AsyncWaitOperator
from penstock._engine.protocol.rows import MAX_WATERMARK
from penstock.common import Row
from penstock.common.time import Time
from penstock.datastream import AsyncDataStream, StreamExecutionEnvironment
from penstock.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from penstock.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy, NoRetryStrategy
from penstock.datastream.functions import AsyncFunction, AsyncRetryStrategy
from penstock.testing._virtual_loop import VirtualLoop
from penstock.testing.harness import OperatorHarness, StreamRecord, Watermark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.datastream.data_stream import DataStream


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


class After(AsyncFunction):
    """A record (name, milliseconds) is answered by its name after that time."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.open_calls = self.most_open = 0

    async def async_invoke(self, value: Any) -> Any:
        self.asked.append(value[0])
        self.open_calls += 1
        self.most_open = max(self.most_open, self.open_calls)
        try:
            await asyncio.sleep(value[1] / 1000)
        finally:
            self.open_calls -= 1
        return [value[0]]


class Waiting:
    """A harness with an operator whose calls run on a loop of the test."""

    def __init__(
        self,
        loop: VirtualLoop,
        function: AsyncFunction[Any, Any],
        *,
        ordered: bool = True,
        timeout_ms: int = 0,
        capacity: int = 100,
        strategy: Any = None,
    ) -> None:
        self.loop = loop
        self.operator = AsyncWaitOperator(function, timeout_ms, capacity, ordered, strategy or NoRetryStrategy())
        self.operator.loop = loop
        self.harness = OperatorHarness(self.operator)

    def pass_ms(self, by_ms: float) -> list[Any]:
        """Let time pass, and return all results so far."""
        self.loop.pass_ms(by_ms)
        self.harness._take(self.operator.on_processing_time(0))
        return self.harness.values()


def test_results_keep_the_order_of_the_records_or_come_as_they_come(loop: VirtualLoop) -> None:
    for ordered, first, last in ((True, [], ["a", "b", "c"]), (False, ["b"], ["b", "c", "a"])):
        waiting = Waiting(loop, After(), ordered=ordered)
        waiting.harness.process_elements([("a", 50), ("b", 10), ("c", 30)], timestamp=7)
        assert waiting.pass_ms(10) == first
        assert waiting.pass_ms(50) == last
        assert waiting.harness.output() == [StreamRecord(name, 7) for name in last]
        waiting.harness.close()


def test_no_result_comes_over_a_watermark(loop: VirtualLoop) -> None:
    waiting = Waiting(loop, After(), ordered=False)
    harness = waiting.harness
    harness.process_elements([("a", 50), ("b", 10)], timestamp=1)
    harness.process_watermark(5)
    harness.process_elements([("c", 20), ("d", 5)], timestamp=6)
    harness.process_watermark(9)
    assert waiting.pass_ms(40) == ["b"]
    assert not waiting.operator.is_idle(upstream_idle=True)  # else the receiver would not wait for the watermark
    waiting.pass_ms(20)
    a, b, c, d = (StreamRecord(name, 1 if name in "ab" else 6) for name in "abcd")
    assert harness.output() == [b, a, Watermark(5), d, c, Watermark(9)]
    assert waiting.operator.is_idle(upstream_idle=True)
    harness.close()


def test_as_many_calls_are_open_as_the_capacity_says(loop: VirtualLoop) -> None:
    function = After()
    waiting = Waiting(loop, function, capacity=2)
    waiting.harness.process_elements([(name, 10) for name in "abcde"])
    assert waiting.harness.values() == ["a", "b", "c", "d"]  # the batch waited until the last one had a call
    assert waiting.pass_ms(30) == ["a", "b", "c", "d", "e"]
    assert function.most_open == 2
    waiting.harness.close()


def test_an_epoch_does_not_wait_for_slow_calls_and_their_records_are_its_state(loop: VirtualLoop) -> None:
    function = After()
    waiting = Waiting(loop, function, capacity=1)
    waiting.harness.process_elements([("a", 5_000), ("b", 10)], timestamp=3)
    assert loop.now_ms() == 1_000  # no longer than an interval, here the one that stands for none
    snapshot = waiting.harness.snapshot()
    assert loop.now_ms() == 1_100
    assert waiting.harness.values() == []
    waiting.harness.close()
    again = Waiting(loop, function)
    again.harness.restore(snapshot)
    again.harness.end_input()
    assert again.harness.output() == [StreamRecord("a", 3), StreamRecord("b", 3), Watermark(MAX_WATERMARK)]
    assert function.asked == ["a", "a", "b"]
    assert again.harness.metrics.snapshot()[REPEATED_CALLS]["count"] == 1  # b was never asked before
    again.harness.close()


def test_calls_go_on_in_the_next_epoch(loop: VirtualLoop) -> None:
    function = After()
    waiting = Waiting(loop, function)
    waiting.harness.process_element(("a", 1_000))
    for _ in range(5):
        waiting.harness.snapshot()
    assert waiting.pass_ms(600) == ["a"]
    assert function.asked == ["a"]
    waiting.harness.close()


def test_more_records_than_are_left_to_the_next_epoch_wait_for_answers(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_wait, "_MOST_WAITING", 2)
    waiting = Waiting(loop, After(), capacity=1)
    waiting.harness.process_elements([(name, 3_000) for name in "abcde"])
    assert waiting.harness.values() == ["a", "b"]
    assert loop.now_ms() == 6_000
    waiting.harness.close()


def test_the_end_of_the_input_waits_for_all_answers(loop: VirtualLoop) -> None:
    waiting = Waiting(loop, After(), ordered=False, capacity=2)
    waiting.harness.process_elements([("a", 900_000), ("b", 40_000), ("c", 10_000)])
    waiting.harness.end_input()
    assert waiting.harness.values() == ["b", "c", "a"]
    assert waiting.harness.output()[-1] == Watermark(MAX_WATERMARK)
    waiting.harness.close()


class Late(After):
    def timeout(self, value: Any) -> Any:
        return ["late", value[0]]


class LateToo(After):
    async def timeout(self, value: Any) -> Any:
        await asyncio.sleep(0.005)
        return ["late", value[0]]


@pytest.mark.parametrize("function", [Late(), LateToo()])
def test_a_call_that_takes_too_long_gives_what_timeout_gives(loop: VirtualLoop, function: Late) -> None:
    waiting = Waiting(loop, function, timeout_ms=20)
    waiting.harness.process_elements([("a", 30), ("b", 10)])
    assert waiting.pass_ms(60) == ["late", "a", "b"]
    assert function.open_calls == 0  # the late one was cancelled
    waiting.harness.close()


def test_the_default_timeout_fails_with_the_record(loop: VirtualLoop) -> None:
    waiting = Waiting(loop, After(), timeout_ms=20)
    waiting.harness.process_element(("a", 30))
    with pytest.raises(TimeoutError, match=r"After.async_invoke has not answered .* \('a', 30\)"):
        waiting.pass_ms(60)
    assert waiting.operator.current_record() == (True, ("a", 30))
    waiting.harness.close()


def test_a_worker_that_is_met_again_goes_on_with_its_calls_and_drops_those_that_others_have_answered(
    loop: VirtualLoop,
) -> None:
    function = Late()
    waiting = Waiting(loop, function, timeout_ms=500)
    harness = waiting.harness
    harness.process_element(("a", 300))
    before = harness.snapshot()
    harness.process_elements([("b", 400), ("c", 400)])
    after = harness.snapshot()
    assert function.open_calls == 3
    harness._begin(before, current=False)  # another worker has run an epoch, and b and c are no state after it
    waiting.pass_ms(0)
    assert function.open_calls == 1
    assert waiting.pass_ms(300) == ["a"]
    assert function.asked == ["a", "b", "c"]
    harness._begin(after, current=False)  # what a call came to that was dropped does not count
    assert waiting.pass_ms(1_000) == ["a", "a", "b", "c"]
    assert function.asked == ["a", "b", "c", "a", "b", "c"]
    harness.close()


def test_an_error_of_a_call_that_is_not_wanted_any_more_fails_nothing(loop: VirtualLoop) -> None:
    waiting = Waiting(loop, Answers(OSError("too late")))
    before = waiting.harness.snapshot()
    waiting.harness.process_element("a")
    loop.pass_ms(10)  # it has failed, and the operator has not heard of it
    waiting.harness._begin(before, current=False)
    assert waiting.pass_ms(10) == []
    waiting.harness.close()


class Fails(AsyncFunction):
    """Fails, or gives nothing, as often as the record says."""

    def __init__(self, error: type[BaseException] | None) -> None:
        self.error = error
        self.attempts: list[float] = []

    async def async_invoke(self, value: int) -> Any:
        self.attempts.append(round(asyncio.get_running_loop().time() * 1000))
        if len(self.attempts) <= value:
            if self.error is not None:
                raise self.error("not yet")
            return []
        return [value]


def test_calls_are_tried_again_as_the_strategy_says(loop: VirtualLoop) -> None:
    strategy = ExponentialBackoffDelayRetryStrategy(
        3, 10, 30, 2.0, empty_result_predicate, lambda error: exception_type_predicate(error, OSError)
    )
    for function in (Fails(OSError), Fails(None)):
        waiting = Waiting(loop, function, timeout_ms=1_000, strategy=strategy)
        waiting.harness.process_element(3)
        assert waiting.pass_ms(100) == [3]
        first = function.attempts[0]
        assert [at - first for at in function.attempts] == [0, 10, 30, 60]
        waiting.harness.close()
    for function, error in ((Fails(OSError), OSError), (Fails(ValueError), ValueError)):
        waiting = Waiting(loop, function, timeout_ms=1_000, strategy=strategy)
        waiting.harness.process_element(9)
        with pytest.raises(error, match="not yet"):
            waiting.pass_ms(100)
        assert len(function.attempts) == (4 if error is OSError else 1)
        waiting.harness.close()


@pytest.mark.parametrize("results", [iter, tuple, lambda found: map(int, found), lambda found: {*found}])
def test_a_retry_predicate_that_reads_the_results_leaves_them_to_the_record(loop: VirtualLoop, results: Any) -> None:
    class Reading(AsyncFunction):
        async def async_invoke(self, value: Any) -> Any:
            return results([value, value + 1])

    strategy = AsyncRetryStrategy.fixed_delay(3, 10, lambda found: len(list(found)) == 0, None)
    waiting = Waiting(loop, Reading(), strategy=strategy)
    waiting.harness.process_elements([1, 5])
    assert waiting.pass_ms(1) == [1, 2, 5, 6]
    waiting.harness.close()


def test_what_is_no_results_is_refused_before_a_retry_predicate_reads_it(loop: VirtualLoop) -> None:
    class Number(AsyncFunction):
        async def async_invoke(self, value: Any) -> Any:
            return value

    strategy = AsyncRetryStrategy.fixed_delay(3, 10, lambda found: not list(found), None)
    waiting = Waiting(loop, Number(), strategy=strategy)
    waiting.harness.process_elements([1])
    with pytest.raises(Exception, match="must return a list of the record's results"):
        waiting.pass_ms(1)


def test_the_timeout_counts_for_all_attempts(loop: VirtualLoop) -> None:
    strategy = AsyncRetryStrategy.fixed_delay(100, 30, None, has_exception_predicate)
    waiting = Waiting(loop, Fails(OSError), timeout_ms=100, strategy=strategy)
    waiting.harness.process_element(50)
    with pytest.raises(TimeoutError):
        waiting.pass_ms(200)
    waiting.harness.close()


class Answers(AsyncFunction):
    """Returns what it was made with, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def async_invoke(self, value: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [None, 7, "text", b"bytes", {"one": "record"}, Row(one="record")])
def test_an_answer_that_is_no_list_is_refused(loop: VirtualLoop, answer: Any) -> None:
    waiting = Waiting(loop, Answers(answer))
    waiting.harness.process_element(1)
    with pytest.raises(TypeError, match="async_invoke and timeout of Answers must return a list"):
        waiting.pass_ms(1)
    waiting.harness.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (KeyError("a"), KeyError),
        (SystemExit(3), SystemExit),
        (KeyboardInterrupt("no"), KeyboardInterrupt),
        (asyncio.CancelledError("no"), asyncio.CancelledError),
    ],
)
def test_what_a_call_raises_fails_the_operator_and_leaves_the_loop_alone(
    loop: VirtualLoop, answer: BaseException, error: type[BaseException]
) -> None:
    waiting = Waiting(loop, Answers(answer))
    waiting.harness.process_element("record")
    with pytest.raises(error):
        waiting.pass_ms(1)
    assert waiting.operator.current_record() == (True, "record")
    waiting.harness.close()
    another = Waiting(loop, Answers([1]))
    another.harness.process_element("record")
    assert another.pass_ms(1) == [1]
    another.harness.close()


def test_records_and_results_belong_to_their_receivers(loop: VirtualLoop) -> None:
    class Spoils(AsyncFunction):
        def __init__(self) -> None:
            self.same: list[Any] = []

        async def async_invoke(self, value: Any) -> Any:
            value.append("spoiled")
            await asyncio.sleep(1)
            return [self.same]

    waiting = Waiting(loop, Spoils())
    waiting.harness.process_elements([["a"], ["b"]])
    snapshot = waiting.harness.snapshot()
    first, second = waiting.pass_ms(1_000)
    assert first is not second
    again = Waiting(loop, Answers([1]))
    again.harness.restore(snapshot)
    again.harness.open()
    assert [call.value for call in again.operator._pending()] == [["a"], ["b"]]
    waiting.harness.close()
    again.harness.close()


def test_closing_ends_open_calls_before_the_function(loop: VirtualLoop) -> None:
    events: list[str] = []

    class Resource(AsyncFunction):
        async def async_invoke(self, value: Any) -> Any:
            try:
                await asyncio.sleep(100)
            finally:
                events.append("call ended")

        def close(self) -> None:
            events.append("function closed")

    waiting = Waiting(loop, Resource())
    waiting.harness.process_element(1)
    waiting.harness.close()
    assert events == ["call ended", "function closed"]


def test_the_loop_of_a_worker_is_a_thread_of_its_own_and_outlives_its_calls() -> None:
    """The only test here with the loop that jobs have."""
    for _ in range(2):
        operator = AsyncWaitOperator(After(), 10_000, 2, False, NoRetryStrategy())
        with OperatorHarness(operator) as harness:
            harness.process_elements([("a", 5), ("b", 0), ("c", 0)])
            harness.end_input()
            assert sorted(harness.values()) == ["a", "b", "c"]


class NoCoroutine(AsyncFunction):
    def async_invoke(self, value: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return [value]


class Yields(AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        yield value


def test_bad_settings_are_refused_where_they_are_made() -> None:
    stream: DataStream[Any] = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    wait, retrying = AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait_with_retry
    for function in (NoCoroutine(), Yields()):
        with pytest.raises(TypeError, match="must be declared as 'async def'"):
            wait(stream, function, Time.seconds(1))
    with pytest.raises(TypeError, match=r"did you mean After\(\)"):
        wait(stream, After, Time.seconds(1))  # type: ignore[arg-type]
    for capacity in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="capacity of After"):
            wait(stream, After(), Time.seconds(1), capacity)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="timeout must be a Time"):
        wait(stream, After(), 1_000)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot be negative"):
        wait(stream, After(), Time.milliseconds(-1))
    strategy = AsyncRetryStrategy.fixed_delay(1, 1, None, None)
    with pytest.raises(ValueError, match="timeout above 0"):
        retrying(stream, After(), Time.milliseconds(0), strategy)
    with pytest.raises(TypeError, match="must be an AsyncRetryStrategy"):
        retrying(stream, After(), Time.seconds(1), 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="data_stream must be a DataStream"):
        wait([1], After(), Time.seconds(1))  # type: ignore[arg-type]
    for numbers in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="greater than zero"):
            AsyncRetryStrategy.fixed_delay(*numbers, None, None)
    with pytest.raises(TypeError, match="result_predicate must be a function"):
        AsyncRetryStrategy.fixed_delay(1, 1, 7, None)  # type: ignore[arg-type]
