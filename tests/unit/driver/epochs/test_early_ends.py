"""What comes up while a long epoch runs does not wait for its end: questions of readers, splits, requests."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells
from tests.kit.exchange import BLOCKING, PIPELINED, SETTINGS
from tests.kit.settings import configured

from penstock._engine.coordinator.epochs.budget import BudgetPlanner, ReadBudget
from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.plan.dispatches import pack
from penstock._engine.plan.epoch_plan import EpochOutcome
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.rows import PayloadKind, subtask_target
from penstock._engine.runtime.row_buffer import ExchangeRow
from penstock.common import Configuration, WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.datastream import FilterFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.base import (
    Boundedness,
    InputStatus,
    Source,
    SourceEvent,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.functions import KeyedProcessFunction
from penstock.errors import ConfigurationError, JobCancelledError, JobExecutionError
from penstock.testing.in_process import InProcessEpochRunner, _Task

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.plan.epoch_plan import EpochPlan

#: How long an epoch lasts that nothing ends, and when at the latest that has come which a test waits for.
EPOCH_S, SOON_S = 60, 15
ASKED = 3

EXCHANGES = {BLOCKING: {}, PIPELINED: SETTINGS}


@dataclass(frozen=True)
class Number(SourceSplit):
    number: int

    def split_id(self) -> str:
        return str(self.number)


@dataclass(frozen=True)
class Text(SourceEvent):
    text: str


class Asking(Source[int, Number, None]):
    """Its reader always has records, and ends when its enumerator has given it some things.

    Args:
        gives: "answers" to its questions, "splits" that it requests, splits that come "by themselves", or "nothing".
    """

    def __init__(self, gives: str) -> None:
        self.gives = gives

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, enum_context: Any) -> Answering:
        return Answering(enum_context, self.gives)

    def restore_enumerator(self, enum_context: Any, checkpoint: Any) -> Answering:
        return Answering(enum_context, self.gives)

    def create_reader(self, reader_context: Any) -> Asks:
        return Asks(reader_context, self.gives)


class Answering(SplitEnumerator[Number, None]):
    def __init__(self, context: Any, gives: str) -> None:
        self.context, self.gives, self.given = context, gives, 0

    def start(self) -> None:
        if self.gives == "by themselves":
            self.context.call_async(lambda: None, lambda *_: self._give(), 300, 300)

    def _give(self) -> None:
        self.given += 1
        self.context.assign_split(Number(self.given), 0)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None = None) -> None:
        self._give()

    def handle_source_event(self, subtask_id: int, source_event: Any) -> None:
        self.context.send_event_to_source_reader(subtask_id, Text(f"answer to {source_event.text}"))

    def add_splits_back(self, splits: Any, subtask_id: int) -> None: ...

    def add_reader(self, subtask_id: int) -> None: ...

    def snapshot_state(self, checkpoint_id: int) -> None: ...

    def close(self) -> None: ...


class Asks(SourceReader[int, Number]):
    def __init__(self, context: Any, gives: str) -> None:
        self.context, self.gives, self.got, self.asked = context, gives, 0, -1

    def start(self) -> None: ...

    def _ask(self) -> None:
        self.asked = self.got
        if self.gives == "answers":
            self.context.send_source_event_to_coordinator(Text(str(self.got)))
        elif self.gives == "splits":
            self.context.send_split_request()

    def poll_next(self, output: Any) -> InputStatus:
        if self.got >= ASKED:
            return InputStatus.END_OF_INPUT
        if self.asked < self.got:
            self._ask()
        time.sleep(0.002)
        output.collect(self.got)
        return InputStatus.MORE_AVAILABLE

    def handle_source_events(self, source_event: Any) -> None:
        assert source_event.text == f"answer to {self.got}"
        self.got += 1

    def add_splits(self, splits: Any) -> None:
        self.got += len(splits)

    def notify_no_more_splits(self) -> None: ...

    def snapshot_state(self, checkpoint_id: int) -> list[Number]:
        return []

    def is_available(self, timeout_ms: int) -> bool:
        return True

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def long_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BudgetPlanner, "budget", lambda self, vertex: ReadBudget(0, 0, EPOCH_S * 1_000))


def nothing(_: Any) -> bool:
    return False


class FailsOnce(FilterFunction):
    """Fails in the first of its subtasks, at a record behind the first ones."""

    def open(self, runtime_context: Any) -> None:
        self.is_first, self.seen = runtime_context.get_index_of_this_subtask() == 0, 0

    def filter(self, value: Any) -> bool:
        self.seen += 1
        if self.is_first and self.seen > ASKED:
            raise ValueError("on purpose")
        return False


def started(
    place: Path,
    source: Any,
    exchange: str,
    then: Any = nothing,
    *,
    parallelism: int = 1,
    runner: InProcessEpochRunner | None = None,
    **others: str,
) -> JobDriver:
    configuration = configured(
        checkpoints=str(place / "checkpoints"), interval=f"{EPOCH_S} s", **EXCHANGES[exchange], **others
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "asking").uid("asking")
    if isinstance(then, KeyedProcessFunction):
        numbers.key_by(nothing).process(then).print()
    else:
        numbers.filter(then).print()
    world = RuntimeEnvironment(runner or InProcessEpochRunner(), 2, place / "state", host="127.0.0.1", bind="127.0.0.1")
    driver, loop = assemble(
        build_job_graph(env._stream_graph("asking")), Configuration(env._configuration), None, world
    )
    driver.start(loop)
    return driver


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("gives", ["answers", "splits", "by themselves"])
def test_reader_and_enumerator_need_not_wait_for_an_epoch(tmp_path: Path, gives: str, exchange: str) -> None:
    driver = started(tmp_path, Asking(gives), exchange)
    driver.result.result(SOON_S)
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.checkpoint_id <= 2 * ASKED + 2  # no epoch ended without a reason


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_folder_is_read_although_its_files_come_one_after_the_other(tmp_path: Path, exchange: str) -> None:
    for number in range(4):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{number}").write_text(f"{number}\n")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "in")).build()
    driver = started(tmp_path, source, exchange)
    driver.result.result(SOON_S)
    assert driver.progress.records == 4


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_pause_between_checkpoints_is_kept_unless_a_request_comes(tmp_path: Path, exchange: str) -> None:
    driver = started(tmp_path, Asking("answers"), exchange, pause=f"{EPOCH_S} s")
    asked_for = driver.trigger_checkpoint().result(SOON_S)
    time.sleep(2.0)
    assert driver.progress.checkpoint_id == asked_for
    driver.savepoint(str(tmp_path / "savepoints"), StopMode.SUSPEND).result(SOON_S)
    driver.result.result(SOON_S)


def test_an_interval_that_is_longer_than_the_timeout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"not less than execution\.checkpointing\.timeout"):
        started(tmp_path, Asking("nothing"), "pipelined", timeout=f"{EPOCH_S} s")


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_failure_is_told_at_once_although_other_sources_read_on(tmp_path: Path, exchange: str) -> None:
    how = {"restart": "none", "pause": f"{EPOCH_S} s"}  # what readers want would wait for so long
    driver = started(tmp_path, Asking("nothing"), exchange, FailsOnce(), parallelism=2, **how)
    assert isinstance(driver.result.exception(SOON_S), JobExecutionError)


class Opens(KeyedProcessFunction):
    def __init__(self, *, fails: bool) -> None:
        self.fails = fails

    def open(self, runtime_context: Any) -> None:
        if self.fails:
            raise ValueError("on purpose")

    def process_element(self, value: Any, ctx: Any) -> Any: ...


class LowestFirst(InProcessEpochRunner):
    """Runs the second level before the first one, whose sources read on while it fails.

    Args:
        rows: What the second level gets.
    """

    def __init__(self, rows: list[ExchangeRow]) -> None:
        super().__init__()
        self._rows = rows

    def _run(self, plan: EpochPlan) -> EpochOutcome:
        if plan.releases:
            return super()._run(plan)
        dispatches = pack(plan)
        told = self._attempt(_Task(plan, dispatches, 1, 0), self._rows)
        self._attempt(_Task(plan, dispatches, 0, 0), [])
        return EpochOutcome.of_rows((row.kind, row.payload) for row in told)


@cells(
    "function, rows, words",
    {
        "a function that fails to open": (Opens(fails=True), [], "on purpose"),
        "a row of a stranger": (
            Opens(fails=False),
            [ExchangeRow(0, subtask_target(1, 0), 0, 0, 7, PayloadKind.DATA, b"made up")],
            "no task of this job has sent it so",
        ),
    },
)
def test_a_failure_behind_the_sources_of_a_pipelined_epoch_ends_it_at_once(
    tmp_path: Path, function: Any, rows: list[ExchangeRow], words: str
) -> None:
    runner, how = LowestFirst(rows), {"restart": "none", "pause": f"{EPOCH_S} s"}
    driver = started(tmp_path, Asking("nothing"), PIPELINED, function, runner=runner, **how)
    assert words in str(driver.result.exception(SOON_S))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_requests_are_answered_while_a_long_epoch_runs(tmp_path: Path, exchange: str) -> None:
    driver = started(tmp_path, Asking("nothing"), exchange)
    checkpoints = [driver.trigger_checkpoint().result(SOON_S) for _ in range(3)]
    assert checkpoints == sorted(set(checkpoints))
    driver.savepoint(str(tmp_path / "savepoints"), StopMode.NO).result(SOON_S)
    driver.savepoint(str(tmp_path / "savepoints"), StopMode.SUSPEND).result(SOON_S)
    assert driver.status is JobStatus.FINISHED


class Interrupted(InProcessEpochRunner):
    """Counts how often it has interrupted an epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.interruptions, self.interrupted = 0, threading.Event()

    def cancel(self) -> None:
        self.interruptions += 1
        self.interrupted.set()
        super().cancel()


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_cancel_lets_a_long_epoch_end_by_itself(tmp_path: Path, exchange: str) -> None:
    runner = Interrupted()
    driver = started(tmp_path, Asking("nothing"), exchange, runner=runner)
    driver.trigger_checkpoint().result(SOON_S)  # so the next epoch begins
    driver.cancel()
    assert isinstance(driver.result.exception(SOON_S), JobCancelledError)
    assert runner.interruptions == 0


class Busy(FilterFunction):
    """Holds its first record until the epoch is interrupted."""

    holds = interrupted = threading.Event()

    def filter(self, value: Any) -> bool:
        self.holds.set()
        assert self.interrupted.wait(SOON_S)
        return False


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_cancel_interrupts_an_epoch_that_does_not_end_by_itself(
    tmp_path: Path, exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Interrupted()
    monkeypatch.setattr(Busy, "interrupted", runner.interrupted)
    monkeypatch.setattr(Busy, "holds", threading.Event())
    driver = started(tmp_path, Asking("nothing"), exchange, Busy(), runner=runner)
    assert Busy.holds.wait(SOON_S)
    driver.cancel()
    assert isinstance(driver.result.exception(SOON_S), JobCancelledError)
    assert runner.interruptions == 1
