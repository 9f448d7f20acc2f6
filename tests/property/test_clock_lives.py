"""Random lives of a job on a machine whose clock is set all the time: killed, stopped, rescaled, and never late.

All of the process has the clock that the test turns. It is set ahead and back at random: between the steps of the
driver, within epochs, and between two runs of the job.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import CLOCK, wait
from tests.kit.driving import CrashError, Driven

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock.common import Encoder, WatermarkStrategy
from penstock.common.configuration import Configuration
from penstock.common.job_status import JobStatus
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.base import InputStatus
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing.in_process import Chaos, InProcessEpochRunner
from penstock.testing.sources import ListSource, _ListReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.plan.epoch_plan import EpochOutcome, EpochPlan

#: The campaign asks for more.
LIVES = int(os.environ.get("PENSTOCK_CLOCK_LIVES", "5"))
FIRST = int(os.environ.get("PENSTOCK_TEST_SEED", "0"))
SPLITS, LENGTH, KEYS = 3, 12, 4
#: Starts after which a life is to come to its end.
MOST_STARTS = 5
INTERVAL_MS, RESTART_MS, EPOCH_MS, TIMER_MS = 1_000, 3_000, 100, 2_000
SIZES_MS = (1_000, 60_000, 3_600_000, 86_400_000)
#: A time of day in November 2023: clocks of machines are seldom at 1970.
BEGINNING_MS = 1_700_000_000_000


class Hand:
    """Sets the clock at random."""

    def __init__(self) -> None:
        self.choose = random.Random(0)
        self.jumps = 0

    def may_turn(self, chance: float) -> None:
        if self.choose.random() < chance:
            self.jumps += 1
            CLOCK.jump(self.choose.choice((-1, 1)) * self.choose.choice(SIZES_MS))


#: What functions of the job find by this module.
HAND = Hand()


@pytest.fixture(autouse=True)
def clocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ahead_ms = CLOCK.now_ms() - CLOCK.passed_ms()
    CLOCK.jump(BEGINNING_MS)
    monkeypatch.setattr(time, "time_ns", lambda: CLOCK.now_ms() * 1_000_000)
    monkeypatch.setattr(time, "time", lambda: CLOCK.now_ms() / 1_000)
    for name in ("monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, lambda: CLOCK.passed_ms() / 1_000)
    yield
    CLOCK.jump(ahead_ms - (CLOCK.now_ms() - CLOCK.passed_ms()))


class DrippingSource(ListSource):
    """Lists whose items come one by one, some quickly and some after a while."""

    def create_reader(self, reader_context: Any) -> DrippingReader:
        return DrippingReader(reader_context, self._lists, Path(self._happened_in), 1)


class DrippingReader(_ListReader):
    due_ms = 0

    def poll_next(self, output: Any) -> InputStatus:
        if CLOCK.passed_ms() < self.due_ms:
            return InputStatus.NOTHING_AVAILABLE
        self.due_ms = CLOCK.passed_ms() + HAND.choose.choice((10, 300, 300, 2_500))
        return super().poll_next(output)

    def is_available(self, timeout_ms: int = 0) -> bool:
        left_ms = self.due_ms - CLOCK.passed_ms()
        wait(max(0, min(left_ms, timeout_ms)))
        return left_ms <= timeout_ms


def shaken(number: int) -> int:
    HAND.may_turn(0.2)
    return number


class Reminded(KeyedProcessFunction):
    """Numbers the records of a key, and the processing-time timers that have fired for it."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + TIMER_MS)
        self.count.update((self.count.value() or 0) + 1)
        yield f"record {value} {ctx.get_current_key()} {self.count.value()}"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        assert timestamp <= ctx.timer_service().current_processing_time()
        self.fired.update((self.fired.value() or 0) + 1)
        yield f"timer {timestamp} {ctx.get_current_key()} {self.fired.value()}"


class ShakingRunner(InProcessEpochRunner):
    """Sets the clock between the tasks of an epoch, too, and takes some time for each epoch."""

    def run(self, plan: EpochPlan) -> EpochOutcome:
        wait(EPOCH_MS)
        return super().run(plan)

    def _run_task(self, *arguments: Any) -> Any:
        HAND.may_turn(0.1)
        return super()._run_task(*arguments)


class Pace:
    """Sees that each epoch begins at most an interval after it is due, by the time that passes."""

    def __init__(self) -> None:
        self._since_ms = CLOCK.passed_ms()
        self._most_ms = 2 * INTERVAL_MS
        self.epochs = 0

    def on_instruction(self, instruction: do.Instruction) -> None:
        if isinstance(instruction, do.ReportFailure):
            self._most_ms = RESTART_MS + 2 * INTERVAL_MS
        elif isinstance(instruction, do.RunEpoch):
            late_ms = CLOCK.passed_ms() - self._since_ms
            assert late_ms <= self._most_ms, f"epoch {instruction.checkpoint_id} began {late_ms} ms after the last one"
            self._since_ms, self._most_ms = CLOCK.passed_ms(), 2 * INTERVAL_MS
            self.epochs += 1


class Life:
    """One job, start after start."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.out = place, place / "out"
        self.choose = HAND.choose = random.Random(seed)
        HAND.jumps = 0
        self.epochs = 0

    def program(self, env: StreamExecutionEnvironment) -> None:
        lists = [list(range(SPLITS * LENGTH))[first::SPLITS] for first in range(SPLITS)]
        source = DrippingSource(*lists, happened_in=str(self.place / "happened"))
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        stream = stream.map(shaken).uid("shaken").key_by(lambda number: number % KEYS)
        stream = stream.process(Reminded()).uid("reminded").set_parallelism(self.choose.randrange(1, 4))
        policy = RollingPolicy.default_rolling_policy(rollover_interval=5_000, inactivity_interval=2_000)
        sink = FileSink.for_row_format(str(self.out), Encoder.simple_string_encoder()).with_rolling_policy(policy)
        sink = sink.with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd--HH-mm"))
        stream.sink_to(sink.build()).uid("files")

    def run(self, restore: str | None, *, to_the_end: bool) -> tuple[JobStatus | None, str]:
        """Run the job; return how it ended, None when it was killed, and what the next one goes on from."""
        configuration = Configuration.from_dict(
            {
                "execution.checkpointing.interval": f"{INTERVAL_MS} ms",
                "execution.checkpointing.dir": str(self.place / "checkpoints"),
                "execution.checkpointing.savepoint-dir": str(self.place / "savepoints"),
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.delay": f"{RESTART_MS} ms",
                "restart-strategy.fixed-delay.attempts": "99",
                "penstock.job-id": "c" * 32,
                "penstock.allow-first-start": "true",
                **({"execution.state-recovery.path": restore} if restore else {}),
            }
        )
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        self.program(env.set_parallelism(self.choose.randrange(1, 4)))
        runner = ShakingRunner(
            workers=self.choose.randrange(1, 4),
            chaos=Chaos(losses=0.02),
            seed=self.choose.randrange(1 << 30),
            clock=CLOCK.now_ms,
            passed=CLOCK.passed_ms,
            sleep=wait,
        )
        driven = Driven(env, self.place / "state", runner, name="shaken")
        driver, loop = driven.driver, driven.loop
        what = "end" if to_the_end else self.choose.choice(["kill", "kill", "suspend", "cancel", "fail"])
        pace, at, steps = Pace(), self.choose.randrange(4, 60), itertools.count()
        stopped: list[Any] = []

        def watched(instruction: do.Instruction) -> None:
            HAND.may_turn(0.1)
            pace.on_instruction(instruction)
            step = next(steps)
            if step == at and what == "kill":
                raise CrashError
            if isinstance(instruction, do.RunEpoch) and step >= at and not stopped:
                if what == "suspend":
                    stopped.append(driver.savepoint(None, StopMode.SUSPEND))
                elif what == "cancel" and driver.progress.checkpoint_id:  # before that there is nothing to go on from
                    stopped.append(driver.cancel())
                elif what == "fail":
                    stopped.append(None)
                    loop._mailbox.post(ev.DriverFailed(OSError("the disk is full")))

        driven.watchers.append(watched)
        try:
            driver.run(loop)
        except CrashError:
            return None, "latest"
        finally:
            runner.close()
            self.epochs += pace.epochs
        loop.coordinator.validate()
        assert driver.status is not JobStatus.FAILED, driver.view.error_text
        assert driver.view.ended is not None
        assert min((*driver.view.checkpoints.durations_ms.values, driver.view.running_ms)) >= 0
        is_saved = what == "suspend" and stopped and stopped[0].exception(0) is None
        return driver.status, stopped[0].result(0) if is_saved else "latest"

    def lines(self) -> list[list[str]]:
        files = [file for file in self.out.rglob("*") if file.is_file() and not file.name.startswith(".")]
        return [line.split() for file in files for line in file.read_text(encoding="utf-8").splitlines()]

    def check(self) -> None:
        """Compare what was published with the truth: all records and all places, once each."""
        records = [line[1:] for line in self.lines() if line[0] == "record"]
        timers = [line[1:] for line in self.lines() if line[0] == "timer"]
        assert Counter(int(number) for number, _, _ in records) == Counter(range(SPLITS * LENGTH))
        for lines in (records, timers):
            for key in range(KEYS):
                places = sorted(int(place) for _, of, place in lines if int(of) == key)
                assert places == list(range(1, len(places) + 1))
        assert set(Counter((time_of, key) for time_of, key, _ in timers).values()) <= {1}


@pytest.mark.parametrize("seed", range(FIRST, FIRST + LIVES))
def test_a_life_on_a_clock_that_jumps_loses_nothing_and_no_epoch_is_late(tmp_path: Path, seed: int) -> None:
    life, restore = Life(tmp_path, seed), None
    for start in range(MOST_STARTS):
        status, restore = life.run(restore, to_the_end=start == MOST_STARTS - 1)
        HAND.may_turn(0.9)
        if status is JobStatus.FINISHED and restore == "latest":
            break
    life.check()
    assert life.epochs > 5
    assert HAND.jumps > 5
