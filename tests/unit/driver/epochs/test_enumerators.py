"""Enumerators on the driver: what they may do, what they are told, and that nothing of it is lost."""

from __future__ import annotations

import itertools
import pickle
import socket
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from tests.kit.driving import CrashError
from tests.kit.world import Numbers, NumbersEnumerator, World, numbers_job, published

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.epochs.sources import EnumeratorDelivery, EnumeratorStart, SourceCoordinator
from penstock._engine.driver.epochs.enumerators import Enumerators
from penstock._engine.driver.mailbox import Mailbox
from penstock._engine.protocol.control import OperatorAck
from penstock._engine.protocol.events import AddSplitsEvent, NoMoreSplitsEvent, SourceEventWrapper, decode_event
from penstock._engine.protocol.metadata import ReaderMessages
from penstock._engine.storage.run_files import RunFiles
from penstock.common import WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import base
from penstock.datastream.connectors.enumerator_base import SplitQueueEnumerator
from penstock.errors import DriverCodeError, JobExecutionError
from penstock.testing import ListSource

if TYPE_CHECKING:
    from collections.abc import Callable


class Scripted(Numbers):
    """A source whose enumerator is whatever a test makes of it."""

    def __init__(self, kind: type[NumbersEnumerator]) -> None:
        super().__init__(40, 5)
        self.kind = kind

    def create_enumerator(self, enum_context: Any) -> NumbersEnumerator:
        return self.kind(enum_context, super().create_enumerator(enum_context).splits)

    def restore_enumerator(self, enum_context: Any, checkpoint: Any) -> NumbersEnumerator:
        return self.kind(enum_context, checkpoint)


def opened(
    kind: type[NumbersEnumerator], *, readers: int = 2, ended: int = 0
) -> tuple[Enumerators, dict, World, Mailbox]:
    """Return enumerators that have just started, with what they decided; of the readers, the last may have ended."""
    world = World(numbers_job("unused"))
    mailbox = Mailbox(world)
    enumerators = Enumerators(
        {"numbers": ("Source: numbers", Scripted(kind))}, mailbox, world, lambda: RunFiles("", "", {})
    )
    answer = enumerators.open(do.StartEnumerators({"numbers": EnumeratorStart(readers + ended, tuple(range(readers)))}))
    return enumerators, answer.assigned, world, mailbox


def decided(assigned: Any) -> dict[int, list]:
    return {
        subtask: [decode_event(event) for event in events] for subtask, events in assigned.get("numbers", {}).items()
    }


def test_readers_register_after_the_start_and_in_order() -> None:
    calls: list[object] = []

    class Watched(NumbersEnumerator):
        def start(self) -> None:
            calls.append(("start", dict(self.context.registered_readers)))

        def add_reader(self, subtask_id: int) -> None:
            calls.append(("add_reader", subtask_id, subtask_id in self.context.registered_readers))

    opened(Watched)
    assert calls == [("start", {}), ("add_reader", 0, True), ("add_reader", 1, True)]


def test_assigning_to_an_unregistered_reader_raises_and_assigns_nothing() -> None:
    class Wrong(NumbersEnumerator):
        def add_reader(self, subtask_id: int) -> None:
            self.context.assign_splits(base.SplitsAssignment({0: [(0, 5)], 9: [(5, 10)]}))

    with pytest.raises(DriverCodeError, match=r"Subtask 9 of 'Source: numbers' is not a registered reader.*: 0"):
        opened(Wrong, readers=1)


def test_no_more_splits_comes_after_all_splits_and_once() -> None:
    class Eager(NumbersEnumerator):
        def add_reader(self, subtask_id: int) -> None:
            self.context.assign_split((0, 5), subtask_id)
            self.context.signal_no_more_splits(subtask_id)
            self.context.signal_no_more_splits(subtask_id)

    _, assigned, _, _ = opened(Eager, readers=1)
    first, second = decided(assigned)[0]
    assert isinstance(first, AddSplitsEvent)
    assert isinstance(second, NoMoreSplitsEvent)


def test_assigning_after_no_more_splits_raises() -> None:
    class Wrong(NumbersEnumerator):
        def add_reader(self, subtask_id: int) -> None:
            self.context.signal_no_more_splits(subtask_id)
            self.context.assign_split((0, 5), subtask_id)

    with pytest.raises(DriverCodeError, match="after no more splits"):
        opened(Wrong)


class Hello(base.SourceEvent):
    def __init__(self, text: str) -> None:
        self.text = text


class Polite(NumbersEnumerator):
    def handle_source_event(self, subtask_id: int, source_event: Any) -> None:
        self.context.send_event_to_source_reader(subtask_id, Hello(f"{source_event.text} yourself"))


def test_source_events_travel_both_ways_in_order() -> None:
    enumerators, _, _, _ = opened(Polite)
    sent = tuple(pickle.dumps(Hello(text)) for text in ("hello", "good day"))
    answer = enumerators.call(do.CallEnumerators(0, {"numbers": EnumeratorDelivery((ReaderMessages(1, sent),))}))
    events = decided(answer.assigned)[1]
    assert all(isinstance(event, SourceEventWrapper) for event in events)
    assert [pickle.loads(event.payload).text for event in events] == ["hello yourself", "good day yourself"]


def test_answer_to_a_reader_that_ended_before_the_start_is_dropped() -> None:
    enumerators, _, _, _ = opened(Polite, readers=1, ended=1)
    messages = tuple(ReaderMessages(subtask, (pickle.dumps(Hello("hello")),)) for subtask in (0, 1))
    answer = enumerators.call(do.CallEnumerators(0, {"numbers": EnumeratorDelivery(messages)}))
    assert list(decided(answer.assigned)) == [0]


def test_event_to_a_subtask_that_does_not_exist_raises() -> None:
    class Lost(Polite):
        def handle_source_event(self, subtask_id: int, source_event: Any) -> None:
            super().handle_source_event(subtask_id + 7, source_event)

    enumerators, _, _, _ = opened(Lost)
    delivery = EnumeratorDelivery((ReaderMessages(1, (pickle.dumps(Hello("hello")),)),))
    with pytest.raises(DriverCodeError, match="Subtask 8 of 'Source: numbers' is not a registered reader"):
        enumerators.call(do.CallEnumerators(0, {"numbers": delivery}))


def test_reader_that_uses_up_its_splits_is_answered_more_often_than_it_asked() -> None:
    enumerators, _, _, _ = opened(NumbersEnumerator)
    messages = (ReaderMessages(0, (), 1), ReaderMessages(1, (), 1))
    answer = enumerators.call(do.CallEnumerators(0, {"numbers": EnumeratorDelivery(messages, {0: 3, 1: 2})}))
    counts = {
        subtask: sum(len(event.splits) for event in events) for subtask, events in decided(answer.assigned).items()
    }
    assert counts == {0: 3, 1: 2}


def test_reader_that_uses_up_its_splits_is_answered_up_to_a_limit_and_once_when_it_has_some_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock._engine.coordinator.epochs.sources._MAX_GRANT", 4)
    source, answers = SourceCoordinator(1), list[int]()
    for left in [*[False] * 5, True, False]:
        source.accepted({0: OperatorAck(split_requests=1, more_available=left)})
        delivery = source.deliver()
        assert delivery is not None
        answers.append(delivery.grants[0])
    assert answers == [1, 2, 4, 4, 4, 1, 1]


def test_last_splits_are_shared_among_the_readers() -> None:
    enumerators, _, _, _ = opened(NumbersEnumerator)  # eight splits
    messages = (ReaderMessages(0, (), 1), ReaderMessages(1, (), 1))
    answer = enumerators.call(do.CallEnumerators(0, {"numbers": EnumeratorDelivery(messages, {0: 64, 1: 64})}))
    for events in decided(answer.assigned).values():
        assert sum(len(event.splits) for event in events if isinstance(event, AddSplitsEvent)) == 4
        assert isinstance(events[-1], NoMoreSplitsEvent)


@pytest.mark.usefixtures("cluster")
def test_enumerators_learn_the_hosts_of_their_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[tuple[str | None, str]] = set()
    request = SplitQueueEnumerator.handle_split_request

    def noting(enumerator: Any, subtask_id: int, requester_hostname: str | None) -> None:
        asked.add((requester_hostname, enumerator._context.registered_readers[subtask_id].location))
        request(enumerator, subtask_id, requester_hostname)

    monkeypatch.setattr(SplitQueueEnumerator, "handle_split_request", noting)
    numbers = StreamExecutionEnvironment.get_execution_environment().from_source(
        ListSource([1, 2], [3]), WatermarkStrategy.no_watermarks(), "numbers"
    )
    assert sorted(numbers.execute_and_collect()) == [1, 2, 3]
    assert asked == {(socket.gethostname(), socket.gethostname())}


def test_enumerator_without_a_split_is_not_asked_again() -> None:
    class Empty(NumbersEnumerator):
        asked = 0

        def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
            Empty.asked += 1

    enumerators, _, _, _ = opened(Empty)
    enumerators.call(do.CallEnumerators(0, {"numbers": EnumeratorDelivery((ReaderMessages(0, (), 1),), {0: 64})}))
    assert Empty.asked == 1


class Finding(NumbersEnumerator):
    """Finds its splits asynchronously, one at a time."""

    def start(self) -> None:
        self.found: list = []
        self.waiting: list[int] = []
        self.context.call_async(self.find, self.on_found, 0, 30)

    def find(self) -> int:
        return 1

    def on_found(self, count: Any, error: Exception | None) -> None:
        assert error is None
        self.found += [self.splits.pop(0) for _ in range(min(count, len(self.splits)))]
        while self.waiting and (self.found or not self.splits):
            self.answer(self.waiting.pop(0))

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        self.answer(subtask_id)

    def answer(self, subtask: int) -> None:
        if self.found:
            self.context.assign_split(self.found.pop(0), subtask)
        elif self.splits:
            self.waiting.append(subtask)
        else:
            self.context.signal_no_more_splits(subtask)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [*self.found, *self.splits]


def test_splits_that_are_found_asynchronously_survive_a_crash_at_any_step(name: str) -> None:
    for position in itertools.count():
        target = f"{name}-{position}"

        def world(target: str = target) -> World:
            graph = numbers_job(target, source=Scripted(Finding))
            return World(graph, random=Random(target), patience=3)

        driver, loop = world().driver(f"memory://{target}", interval="1 s", recover="latest")
        perform, steps = loop.perform, itertools.count()

        def watched(
            instruction: do.Instruction, perform: Any = perform, steps: Any = steps, position: int = position
        ) -> None:
            if next(steps) == position:
                raise CrashError
            perform(instruction)

        loop.perform = watched
        try:
            driver.run(loop)
        except CrashError:
            driver, loop = world().driver(f"memory://{target}", interval="1 s", recover="latest")
            driver.run(loop)
            assert driver.status is JobStatus.FINISHED
            assert published(target) == dict.fromkeys(range(40), 1), position
        else:
            break
    assert position > 50


def test_error_of_an_asynchronous_handler_fails_the_job_with_its_cause(name: str) -> None:
    class Failing(Finding):
        def on_found(self, count: Any, error: Exception | None) -> None:
            raise LookupError("no such topic")

    driver, loop = World(numbers_job(name, source=Scripted(Failing))).driver(f"memory://{name}")
    driver.run(loop)
    error = driver.result.exception()
    assert isinstance(error, JobExecutionError)
    assert isinstance(error.__cause__, LookupError)
    assert "the enumerator of 'Source: numbers' (uid 'numbers')" in str(error)


def test_error_of_an_asynchronous_call_goes_to_its_handler() -> None:
    heard: list[Exception] = []

    class Failing(NumbersEnumerator):
        def start(self) -> None:
            self.context.call_async(lambda: 1 // 0, lambda result, error: heard.append(error))

    _, _, world, mailbox = opened(Failing)
    mailbox.receive(None)()
    assert isinstance(heard[0], ZeroDivisionError)
    assert not world.pending


def test_nothing_comes_from_an_enumerator_that_was_closed() -> None:
    heard: list[object] = []

    class Late(NumbersEnumerator):
        def start(self) -> None:
            self.context.call_async(lambda: 1, lambda result, error: heard.append(result))

    enumerators, _, world, mailbox = opened(Late)
    world.pending.pop()()
    enumerators.close(do.CloseEnumerators())
    assert mailbox.receive(None)() is None
    assert heard == []


@pytest.mark.parametrize("error", [PermissionError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("method", ["start", "add_reader", "handle_split_request", "snapshot_state"])
def test_error_of_any_method_fails_the_job_with_its_cause(name: str, method: str, error: type[BaseException]) -> None:
    def fail(*_: object) -> None:
        raise error("not for you")

    broken = type("Broken", (NumbersEnumerator,), {method: fail})
    driver, loop = World(numbers_job(name, source=Scripted(broken))).driver(f"memory://{name}")
    driver.run(loop)
    assert driver.status is JobStatus.FAILED
    assert isinstance(driver.result.exception().__cause__, error)
    assert f"{error.__name__}: not for you" in str(driver.result.exception())


class OddSource(Scripted):
    """Its own methods raise, where a driver that fell over them would never end."""

    broken: ClassVar[tuple[str, type[BaseException]]]

    def get_split_serializer(self) -> Any:
        return self._raise("get_split_serializer", super().get_split_serializer)

    def get_enumerator_checkpoint_serializer(self) -> Any:
        return self._raise("get_enumerator_checkpoint_serializer", super().get_enumerator_checkpoint_serializer)

    def create_enumerator(self, enum_context: Any) -> Any:
        return self._raise("create_enumerator", lambda: super(OddSource, self).create_enumerator(enum_context))

    def _raise(self, method: str, otherwise: Callable[[], Any]) -> Any:
        broken, error = self.broken
        if method != broken:
            return otherwise()
        raise error("not for you")


@pytest.mark.parametrize("error", [PermissionError, StopIteration, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize(
    "method", ["get_split_serializer", "get_enumerator_checkpoint_serializer", "create_enumerator"]
)
def test_error_of_a_source_fails_the_job_with_its_place(name: str, method: str, error: type[BaseException]) -> None:
    source = type("Odd", (OddSource,), {"broken": (method, error)})(NumbersEnumerator)
    driver, loop = World(numbers_job(name, source=source)).driver(f"memory://{name}")
    driver.run(loop)
    assert driver.status is JobStatus.FAILED
    assert f"{error.__name__}: not for you (in the enumerator of 'Source: numbers'" in str(driver.result.exception())


class Living(NumbersEnumerator):
    """Writes its life down, and fails once."""

    life: ClassVar[list[str]] = []

    def start(self) -> None:
        self.life.append("start")

    def close(self) -> None:
        self.life.append("close")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if len(self.life) == 1:
            raise TimeoutError("once")


def test_restart_makes_the_enumerator_anew_and_closes_the_old_one(name: str) -> None:
    driver, loop = World(numbers_job(name, source=Scripted(Living))).driver(f"memory://{name}", interval="1 s")
    driver.run(loop)
    assert driver.status is JobStatus.FINISHED
    assert published(name) == dict.fromkeys(range(40), 1)
    assert Living.life == ["start", "close", "start", "close"]
