"""What depends on time in a task, against all that passes time: work, queues, pauses, downtime, a clock that is set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.epochs import Job
from tests.kit.program import Program

from penstock._engine.plan import levels
from penstock.common.time import Duration
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream.connectors.base import Boundedness, InputStatus, Source, SourceReader, SourceSplit
from penstock.datastream.functions import KeyedProcessFunction
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: How long an input has no record until it is idle, and a time that is longer than that.
IDLE_MS, LONG_MS = 1_000, 60_000


class Times:
    """The clocks of the tasks, turned by what the tests' sources and functions do."""

    def __init__(self) -> None:
        self.passed = 1_000_000
        self.jump = self.next_jump = 0

    def now_ms(self) -> int:
        return self.passed + self.jump


TIMES = Times()


@pytest.fixture(autouse=True)
def _from_the_beginning() -> None:
    TIMES.__init__()


@dataclass(frozen=True)
class Script(SourceSplit):
    """What a reader does poll by poll: ("record", x), ("wait", ms), or "end" for nothing more in this epoch."""

    name: str
    acts: tuple[Any, ...]

    def split_id(self) -> str:
        return self.name


class Scripted(Source[Any, Any, Any]):
    def __init__(self, *scripts: Script) -> None:
        self.scripts = self._lists = scripts  # the tests' job counts splits by the second name

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, enum_context: Any) -> Any:
        raise AssertionError

    def restore_enumerator(self, enum_context: Any, checkpoint: Any) -> Any:
        raise AssertionError

    def create_reader(self, reader_context: Any) -> SourceReader[Any, Any]:
        return ScriptedReader(self)


class ScriptedReader(SourceReader[Any, Any]):
    def __init__(self, source: Scripted) -> None:
        self.source = source
        self.open: list[Script] = []
        self.quiet: Any = None

    def start(self) -> None: ...

    def add_splits(self, splits: Any) -> None:
        self.open += [split if isinstance(split, Script) else self.source.scripts[split.number] for split in splits]

    def notify_no_more_splits(self) -> None: ...

    def poll_next(self, output: Any) -> InputStatus:
        self.quiet = "end"
        for place, script in enumerate(self.open):
            if not script.acts:
                continue
            act, *rest = script.acts
            self.open[place] = replace(script, acts=tuple(rest))
            if act == "end":
                continue
            if act[0] == "record":
                output.create_output_for_split(script.name).collect(act[1])
                return InputStatus.MORE_AVAILABLE
            self.quiet = act
            break
        return InputStatus.NOTHING_AVAILABLE

    def is_available(self, timeout_ms: int) -> bool:
        if self.quiet == "end":
            return False
        TIMES.passed += self.quiet[1]
        return True

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return list(self.open)

    def close(self) -> None: ...


class Itself(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value


def slow(value: int) -> int:
    TIMES.passed += LONG_MS
    return value


def jumps(value: int) -> int:
    TIMES.jump += TIMES.next_jump
    TIMES.passed += 10
    return value


def same(value: int) -> int:
    return value


STRATEGY = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
IDLENESS = STRATEGY.with_idleness(Duration.of_millis(IDLE_MS))


def at_the_source(stream: Callable[[WatermarkStrategy], Any]) -> Any:
    return stream(IDLENESS).map(same)


def in_the_chain(stream: Callable[[WatermarkStrategy], Any]) -> Any:
    return stream(STRATEGY).map(same).assign_timestamps_and_watermarks(IDLENESS)


def a_level_below(stream: Callable[[WatermarkStrategy], Any]) -> Any:
    """Each subtask hears of one of the source's."""
    return stream(STRATEGY).map(same).rebalance().map(same).assign_timestamps_and_watermarks(IDLENESS)


RULES = [at_the_source, in_the_chain, a_level_below]


class Idleness:
    """A job with a source subtask that is busy, and one that has the acts of a test; tells whether that one is idle."""

    def __init__(self, place: Path, rule: Any, *acts: Any, busy: Any = same, slots: int = 2) -> None:
        program = Program(place, parallelism=2)
        source = Scripted(
            Script("busy", tuple([("record", n), "end"][n % 2] for n in range(40))), Script("quiet", acts)
        )
        marked = rule(lambda strategy: program.env.from_source(source, strategy, "scripted").map(busy))
        program.collect(marked.rebalance().map(same).set_parallelism(1))
        self.runner = InProcessEpochRunner(clock=TIMES.now_ms, passed=lambda: TIMES.passed)
        self.job = Job(program.graph(), place, self.runner, slots=slots)

    def epoch(self) -> bool:
        self.job.epoch()
        last = self.job.channels(len(self.job.graph.vertices) - 1, 0)
        return [status.idle for _, status in sorted(last.items())][1]

    def restart(self) -> None:
        self.job = self.job.restarted()


@pytest.mark.parametrize("rule", RULES[:2])
def test_an_input_that_could_be_read_and_had_nothing_for_the_idle_time_is_idle(tmp_path: Path, rule: Any) -> None:
    acts = (
        ("record", 1),
        "end",
        ("wait", IDLE_MS // 2),
        "end",
        ("wait", IDLE_MS // 2),
        "end",
        ("record", 1_000),
        "end",
    )
    job = Idleness(tmp_path, rule, *acts)
    assert [job.epoch() for _ in range(4)] == [False, False, True, False]


@pytest.mark.parametrize(("most_rows", "later"), [(1 << 16, []), (0, [False])], ids=["edge", "wide edge"])
def test_below_a_level_the_time_counts_in_which_all_senders_could_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_rows: int, later: list[bool]
) -> None:
    monkeypatch.setattr(levels, "MAX_CLOSING_ROWS", most_rows)
    both = tuple(act for _ in range(5) for act in (("wait", IDLE_MS // 2), "end"))
    program = Program(tmp_path, parallelism=2)
    source = Scripted(Script("0", (("record", 1), "end", *both)), Script("1", (("record", 1), "end", *both)))
    marked = a_level_below(lambda strategy: program.env.from_source(source, strategy, "scripted"))
    program.collect(marked.rebalance().map(same).set_parallelism(1))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(clock=TIMES.now_ms, passed=lambda: TIMES.passed))
    idle: list[bool] = []
    for _ in range(3 + len(later)):
        job.epoch()
        idle.append(all(status.idle for status in job.channels(2, 0).values()))
    assert idle == [False, False, *later, True], "a wide edge tells of the time one epoch later"


@pytest.mark.parametrize("most_rows", [1 << 16, 0], ids=["edges", "an edge and a wide edge"])
@pytest.mark.parametrize("wide_waits", [False, True], ids=["the wide one has no time", "the other one has no time"])
def test_below_a_level_senders_of_one_input_that_could_not_read_count_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_rows: int, *, wide_waits: bool
) -> None:
    monkeypatch.setattr(levels, "MAX_CLOSING_ROWS", most_rows)
    waits = (("record", 1), "end", *[act for _ in range(5) for act in (("wait", LONG_MS), "end")])
    queues = (("record", 1), *["end"] * 6)
    program = Program(tmp_path, parallelism=2)
    forward, wide = (queues, waits) if wide_waits else (waits, queues)
    first = program.env.from_source(Scripted(Script("0", forward), Script("1", forward)), STRATEGY, "forward")
    second = program.env.from_source(Scripted(Script("0", wide)), STRATEGY, "wide").set_parallelism(1)
    both = first.map(same).union(second.map(same).set_parallelism(1)).map(same)
    marked = both.assign_timestamps_and_watermarks(IDLENESS)
    program.collect(marked.rebalance().map(same).set_parallelism(1))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(clock=TIMES.now_ms, passed=lambda: TIMES.passed))
    last = len(job.graph.vertices) - 1
    for _ in range(4):
        job.epoch()
        assert not any(status.idle for status in job.channels(last, 0).values())


@pytest.mark.parametrize("rule", RULES)
def test_time_in_the_chain_does_not_make_idle(tmp_path: Path, rule: Any) -> None:
    job = Idleness(tmp_path, rule, *[("record", 1), "end"] * 4, busy=slow)
    assert not any(job.epoch() for _ in range(4))
    split_quiet = Idleness(tmp_path, rule, *["end"] * 3, busy=slow)
    assert not any(split_quiet.epoch() for _ in range(3))


@pytest.mark.parametrize("rule", RULES)
def test_time_in_the_queue_of_a_slot_does_not_make_idle(tmp_path: Path, rule: Any) -> None:
    job = Idleness(tmp_path, rule, *["end"] * 6, busy=slow, slots=1)
    assert not any(job.epoch() for _ in range(6))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("workers", [1, 3])
def test_time_between_epochs_does_not_make_idle(tmp_path: Path, rule: Any, workers: int) -> None:
    job = Idleness(tmp_path, rule, *["end"] * 6)
    job.runner.workers += InProcessEpochRunner(workers=workers, clock=TIMES.now_ms).workers[1:]
    for _ in range(6):
        assert not job.epoch()
        TIMES.passed += LONG_MS


@pytest.mark.parametrize("rule", RULES)
def test_time_while_the_job_is_down_does_not_make_idle_and_idleness_starts_fresh(tmp_path: Path, rule: Any) -> None:
    acts = (("record", 1), ("wait", IDLE_MS - 1), "end", ("wait", 1), "end", ("wait", IDLE_MS), "end")
    job = Idleness(tmp_path, rule, *acts)
    assert not job.epoch()
    TIMES.passed += LONG_MS
    job.restart()
    assert not job.epoch()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("jump", [LONG_MS, -LONG_MS])
def test_a_clock_that_is_set_makes_nothing_idle_and_nothing_active(tmp_path: Path, rule: Any, jump: int) -> None:
    job = Idleness(tmp_path, rule, "end", ("wait", 1), "end", ("wait", IDLE_MS), "end", ("wait", 1), "end")
    job.epoch()
    TIMES.jump += jump
    assert not job.epoch()
    if rule is not a_level_below:
        assert job.epoch()
        TIMES.jump -= jump
        assert job.epoch()


def test_a_split_is_not_idle_because_the_chain_works_on_a_batch_of_another_one(tmp_path: Path) -> None:
    program = Program(tmp_path)
    source = Scripted(
        Script("0", (("record", 100), ("record", 200), "end", ("wait", 1), ("wait", IDLE_MS), "end")),
        Script("1", (("record", 50), "end")),
    )
    stream = program.env.from_source(source, IDLENESS, "scripted").map(slow)
    program.collect(stream.rebalance().map(same).set_parallelism(2))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(clock=TIMES.now_ms, passed=lambda: TIMES.passed))
    job.epoch()
    assert job.acks[0, 0].watermark == 49


# ------------------------------------------------------------------------------------------------------- other rules


@pytest.mark.parametrize("jump", [LONG_MS, -LONG_MS])
def test_the_share_of_an_epoch_is_time_that_passes_whatever_the_clock_says(tmp_path: Path, jump: int) -> None:
    TIMES.next_jump = jump
    program = Program(tmp_path)
    program.collect(program.source(list(range(6))).map(jumps))
    runner = InProcessEpochRunner(clock=TIMES.now_ms, passed=lambda: TIMES.passed)
    assert Job(program.graph(), tmp_path, runner).epoch(max_time_ms=100)["out"] == list(range(6))


def test_a_slow_chain_uses_up_the_share_of_its_own_source_alone(tmp_path: Path) -> None:
    program = Program(tmp_path, parallelism=2)
    program.collect(program.source([1, 2, 3], [4, 5, 6]).map(slow))
    runner = InProcessEpochRunner(clock=TIMES.now_ms, passed=lambda: TIMES.passed)
    job = Job(program.graph(), tmp_path, runner, slots=1)
    assert sorted(job.epoch(max_time_ms=4 * LONG_MS)["out"]) == [1, 2, 4, 5]


class Tells(KeyedProcessFunction):
    """Tells the processing time of each record, and has the clock set with the first one of an epoch."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        before = ctx.timer_service().current_processing_time()
        if not value % 2:
            TIMES.jump += JUMPS[value // 2]
        TIMES.passed += 10
        yield before, ctx.timer_service().current_processing_time()


JUMPS = (-LONG_MS, 2 * LONG_MS, -3 * LONG_MS)


def test_processing_time_runs_evenly_within_an_epoch_and_the_next_one_takes_up_the_clock(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.collect(program.source(list(range(6))).key_by(lambda _: 0).process(Tells()))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(clock=TIMES.now_ms, passed=lambda: TIMES.passed))
    for _ in JUMPS:
        start = TIMES.now_ms()
        assert job.epoch(2)["out"] == [(start, start + 10), (start + 10, start + 20)]
        assert TIMES.now_ms() != start + 20


@pytest.mark.parametrize("jump", [LONG_MS, -LONG_MS])
def test_what_an_epoch_takes_is_told_by_the_time_that_passes(tmp_path: Path, jump: int) -> None:
    TIMES.next_jump = jump
    program = Program(tmp_path)
    program.collect(program.source([1, 2]).map(jumps))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(clock=TIMES.now_ms, passed=lambda: TIMES.passed))
    job.epoch(2)
    assert job.acks[0, 0].ended_ms - job.acks[0, 0].started_ms == 20


class Reminds(KeyedProcessFunction):
    """Sets a timer for a processing time."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + IDLE_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "timer"


def test_a_timer_waits_for_a_clock_that_was_set_back_and_fires_once(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.collect(program.source([1, 2, 3, 4, 5]).key_by(lambda value: value == 1).process(RemindsOnce()))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(clock=TIMES.now_ms, passed=lambda: TIMES.passed))
    seen: list[Any] = []
    for jump in (0, IDLE_MS, -LONG_MS, LONG_MS - IDLE_MS, IDLE_MS):
        TIMES.jump += jump
        seen.append(job.epoch(1)["out"])
    assert seen == [[1], ["timer", 2], [3], [4], [5]]


class RemindsOnce(Reminds):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return super().process_element(value, ctx) if value == 1 else [value]


@pytest.mark.parametrize(
    ("passes", "due"),
    [("pause", True), ("downtime", True), ("jump ahead", True), ("jump back", False), ("nothing", False)],
)
def test_processing_time_timers_go_by_the_time_of_day(tmp_path: Path, passes: str, due: bool) -> None:
    program = Program(tmp_path)
    program.collect(program.source([1, 2]).key_by(lambda value: value).process(Reminds()))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(clock=TIMES.now_ms, passed=lambda: TIMES.passed))
    assert job.epoch(1)["out"] == [1]
    match passes:
        case "pause":
            TIMES.passed += IDLE_MS
        case "downtime":
            TIMES.passed += IDLE_MS
            job = job.restarted()
        case "jump ahead":
            TIMES.jump += IDLE_MS
        case "jump back":
            TIMES.jump -= LONG_MS
        case _:
            pass
    assert job.epoch(1)["out"] == (["timer", 2] if due else [2])
