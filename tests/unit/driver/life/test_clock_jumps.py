"""A machine's clock that is set while a job runs: nothing that has a length notices, and a person reads of it."""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.world import Numbers, NumbersEnumerator, TargetSink, World, numbers_job
from tests.unit.driver.life.runs import failing

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.loop import ClockJumpDetector
from penstock._engine.protocol.clocks import Moment
from penstock._engine.protocol.control import StopMode
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors import base

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.driver.loop import JobLoop

_names = itertools.count()
DAY_MS = 86_400_000
JUMPS_MS = (1_000, 60_000, 3_600_000, DAY_MS)
WAYS = {
    "ahead": JUMPS_MS,
    "back": tuple(-jump_ms for jump_ms in JUMPS_MS),
    "to and fro": (DAY_MS, -60_000, 1_000, -3_600_000, -1_000, 60_000),
}
ways = pytest.mark.parametrize("jumps_ms", WAYS.values(), ids=WAYS)
#: A clock is set before each step whose number this divides.
EVERY = 5


class Finding(Numbers):
    """Numbers of which the enumerator finds a split every half a minute."""

    def create_enumerator(self, enum_context: Any) -> Any:
        return FindingEnumerator(enum_context, [])


class FindingEnumerator(NumbersEnumerator):
    def start(self) -> None:
        self.found = 0
        self.waiting: list[int] = []
        self.context.call_async(lambda: None, self.find, 30_000, 30_000)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        self.waiting.append(subtask_id)

    def find(self, _result: None, _error: Any) -> None:
        self.found += 1
        for subtask in self.waiting if self.found > 4 else ():
            self.context.signal_no_more_splits(subtask)
        if self.waiting and self.found <= 4:
            self.context.assign_split((self.found * 5, self.found * 5 + 5), self.waiting.pop(0))


class Reluctant(base.Committer):
    """Publishes each committable at the third try."""

    tries = 0

    def commit(self, requests: Any) -> None:
        self.tries += 1
        for request in requests if self.tries % 3 else ():
            request.retry_later()


class ReluctantSink(TargetSink):
    def create_committer(self, context: Any) -> Any:
        return Reluctant()


def steadily(world: World, **settings: str) -> tuple[JobDriver, JobLoop]:
    return world.driver(f"memory://clocks-{next(_names)}", **{"interval": "2 s", **settings})


def finding() -> Any:
    world = World(numbers_job("finding", source=Finding(25, 5), readers=1))
    return world, *steadily(world)


def failing_thrice(**settings: str) -> Any:
    world = World(numbers_job("failing"), patience=2, trouble=dict.fromkeys((2, 4, 7), failing))
    return world, *steadily(world, **settings)


def fixed_delay() -> Any:
    return failing_thrice(restart="fixed-delay", attempts="9", delay="7 s")


def growing_delay() -> Any:
    return failing_thrice(restart="exponential-delay", jitter="0")


def failure_rate() -> Any:
    """One failure in a minute is tolerated; the second one comes within it."""
    return failing_thrice(restart="failure-rate")


def expiring() -> Any:
    world = World(numbers_job("expiring"), patience=2, stuck=frozenset({3, 5}))
    return world, *steadily(world, timeout="1 min", tolerable="5")


def late_stop() -> Any:
    world = World(numbers_job("late"), patience=2, stuck=frozenset({3}))
    driver, loop = steadily(world)
    perform = loop.perform

    def asking(instruction: do.Instruction) -> None:
        if isinstance(instruction, do.RunEpoch) and instruction.checkpoint_id == 4:
            driver.savepoint("memory://late", StopMode.SUSPEND, 20_000)
        perform(instruction)

    loop.perform = asking
    return world, driver, loop


def uncertain_record() -> Any:
    world = World(numbers_job("uncertain"), patience=2)
    driver, loop = steadily(world)
    put, puts = loop._handlers[do.PutChainEntry], itertools.count()

    def sometimes(instruction: Any) -> Any:
        return ev.ChainEntryUncertain(OSError("no answer")) if 4 < next(puts) < 8 else put(instruction)

    loop._handlers[do.PutChainEntry] = sometimes
    return world, driver, loop


def reluctant_commits() -> Any:
    world = World(numbers_job("reluctant", sink=ReluctantSink("reluctant")), patience=2)
    return world, *steadily(world)


WAITS = [
    finding,
    fixed_delay,
    growing_delay,
    failure_rate,
    expiring,
    late_stop,
    uncertain_record,
    reluctant_commits,
]


def diary(
    parts: Any, jumps_ms: tuple[int, ...] = (0,), every: int = EVERY
) -> tuple[list[tuple[str, int]], JobStatus, Any]:
    """Run a job while the clock is set; return what its driver does and when, by the time that passes."""
    world, driver, loop = parts
    perform, lines, jumps = loop.perform, list[tuple[str, int]](), itertools.cycle(jumps_ms)

    def watched(instruction: do.Instruction) -> None:
        if len(lines) % every == every - 1:
            world.jumped_ms += next(jumps)
        lines.append((type(instruction).__name__, world.time_ms))
        perform(instruction)

    loop.perform = watched
    driver.run(loop)
    return lines, driver.status, driver.view


@pytest.mark.parametrize("wait", WAITS)
@ways
def test_a_clock_that_is_set_changes_nothing_of_what_a_driver_does_and_when(
    wait: Callable[[], Any], jumps_ms: tuple[int, ...]
) -> None:
    steady = diary(wait())
    shaken = diary(wait(), jumps_ms)
    assert shaken[:2] == steady[:2]
    assert steady[0][-1][1] - steady[0][0][1] >= 1_000, "it has waited"


@ways
def test_no_duration_is_negative_and_the_times_are_those_that_the_clock_has_shown(jumps_ms: tuple[int, ...]) -> None:
    steady = diary(fixed_delay())[2]
    _, status, view = diary(fixed_delay(), jumps_ms)
    assert status is JobStatus.FINISHED
    assert view.ended.since(view.started) == steady.ended.since(steady.started) > 0
    assert view.running_ms == steady.running_ms > 0
    assert view.checkpoints.durations_ms == steady.checkpoints.durations_ms
    assert min(view.checkpoints.durations_ms.values) >= 0
    assert abs(view.ended.now_ms - view.started.now_ms) >= DAY_MS // 2


def test_a_jump_is_logged_once_with_its_size(caplog: pytest.LogCaptureFixture) -> None:
    diary(fixed_delay(), (-60_000,), every=13)
    lines = [record.getMessage() for record in caplog.records if "clock" in record.getMessage()]
    assert lines
    assert all("set back by 60.0 s" in line and "'numbers'" in line for line in lines)
    caplog.clear()
    diary(fixed_delay())
    assert not [record for record in caplog.records if "clock" in record.getMessage()]


@pytest.mark.parametrize(
    ("looks", "logged"),
    [
        pytest.param([(0, 100), (3_600_100, 200)], ["went ahead by 3600.0 s"], id="ahead"),
        pytest.param([(-59_900, 100), (-59_800, 200)], ["set back by 60.0 s"], id="back, once"),
        pytest.param([(10_500, 10_000), (20_500, 20_000)], [], id="too little"),
        pytest.param([(3_601_800, 3_600_000)], [], id="a clock that is being slowed for an hour"),
        pytest.param([(3_610_000, 3_600_000)], ["went ahead by 10.0 s"], id="during an hour's pause"),
        pytest.param([(1_500, 0), (0, 0)], ["went ahead by 1.5 s", "set back by 1.5 s"], id="there and back"),
    ],
)
def test_what_differs_between_the_clocks_beyond_a_threshold_is_a_jump(
    looks: list[tuple[int, int]], logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        watch = ClockJumpDetector("prices", Moment(0, 0))
        for now_ms, passed_ms in looks:
            watch.look(Moment(now_ms, passed_ms))
    messages = [record.getMessage() for record in caplog.records]
    assert [text for text, message in zip(logged, messages, strict=True) if text in message] == logged
