"""What jobs count: each record that was processed, once, whatever happened in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.kit.driving import Epochs
from tests.kit.stories import Chapter, Sheet, Story

from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.client.job_client import DriverJobClient
from penstock._engine.protocol import metadata
from penstock._engine.protocol.control import OperatorAck, StopMode, encode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.savepoints.inspection import inspect
from penstock.common.accumulators import Accumulator, Histogram, IntCounter, ListAccumulator, Maximum
from penstock.common.job_status import JobStatus
from penstock.datastream import CheckpointedFunction, KeyedProcessFunction, KeySelector, MapFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import (
    AccumulatorSizeError,
    AccumulatorTypeError,
    JobExecutionError,
    UnclaimedStateError,
    UnpicklableAccumulatorError,
    UnsupportedOperationError,
)
from penstock.testing.in_process import Chaos

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.sampled(2)

SHORT, LONG = [100, 200], list(range(13))
NUMBERS = [*SHORT, *LONG]


class Distinct(Accumulator[Any, int]):
    """A user's own."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def add(self, value: Any) -> None:
        self.seen.add(value)

    def get_local_value(self) -> int:
        return len(self.seen)

    def reset_local(self) -> None:
        self.seen.clear()

    def merge(self, other: Any) -> None:
        self.seen |= other.seen


class Grumpy(Distinct):
    """Cannot be merged."""

    def merge(self, other: Any) -> None:
        raise ValueError("not with that one")


class Counts(MapFunction):
    """Counts each record in every way; fails once at a number where a file says that it has not yet."""

    def __init__(self, fails_at: int | None = None, mark: Path | None = None) -> None:
        self.fails_at, self.mark = fails_at, mark
        self.highest = Maximum[int]()

    def open(self, runtime_context: Any) -> None:
        self.records = runtime_context.get_int_counter("records")
        self.rests = runtime_context.get_histogram("rests")
        self.large: ListAccumulator[int] = ListAccumulator()
        self.distinct = Distinct()
        for name, one in (("large", self.large), ("highest", self.highest), ("distinct", self.distinct)):
            runtime_context.add_accumulator(name, one)

    def map(self, value: Any) -> Any:
        self.records.add(1)
        self.rests.add(value % 3)
        self.highest.add(value)
        self.distinct.add(value % 5)
        if value >= 100:
            self.large.add(value)
        if value == self.fails_at and self.mark is not None and not self.mark.exists():
            self.mark.touch()
            raise ValueError(value)
        return value


class Keyed(KeyedProcessFunction):
    """Counts under a name that another operator has, too, and at the end of the job."""

    def open(self, runtime_context: Any) -> None:
        self.context = runtime_context
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.context.get_int_counter("records").add(1000)
        self.count.update((self.count.value() or 0) + 1)
        yield value


TRUTH = {
    "records": 1001 * len(NUMBERS),
    "rests": {rest: sum(number % 3 == rest for number in NUMBERS) for rest in range(3)},
    "large": SHORT,
    "highest": 200,
    "distinct": 5,
}


def program(function: Any = None, *, maps: int = 1, keyed: int = 1) -> Any:
    def write(sheet: Sheet) -> None:
        stream = sheet.source("numbers", SHORT, LONG).set_parallelism(maps)
        stream = stream.map(function or Counts()).uid("counts").set_parallelism(maps)
        stream = stream.key_by(lambda n: n % 4).process(Keyed()).uid("keyed").set_parallelism(keyed)
        sheet.collect(stream)

    return write


def counted(chapter: Chapter) -> dict[str, Any]:
    found = DriverJobClient(chapter.driver).get_accumulators().result()
    return {name: sorted(value) if isinstance(value, list) else value for name, value in found.items()}


# ------------------------------------------------------------------------------------------------------------- exactly


@pytest.mark.parametrize(("maps", "keyed"), [(1, 1), (2, 3)])
def test_every_record_counts_once(tmp_path: Path, maps: int, keyed: int) -> None:
    chapter = Story(tmp_path, workers=3).run(program(maps=maps, keyed=keyed))
    assert chapter.status is JobStatus.FINISHED
    assert counted(chapter) == TRUTH
    result = chapter.driver.result.result(0)
    assert result.get_all_accumulator_results().keys() == TRUTH.keys()
    assert result.get_accumulator_result("records") == TRUTH["records"]
    assert f"- records (int): {TRUTH['records']}" in str(result).splitlines()


def test_values_are_those_of_completed_checkpoints(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def look(instruction: do.Instruction, perform: Any) -> None:
        perform(instruction)
        if isinstance(instruction, do.PublishProgress):
            value = metadata_value(instruction.snapshot.operators["counts"].accumulators["records"])
            seen.append((instruction.progress.records, value))

    Story(tmp_path).run(program(), step=look)
    assert len(seen) > 3
    assert [value for _, value in seen] == [read for read, _ in seen]


def metadata_value(record: metadata.StoredAccumulator) -> int:
    return int(record.text)


@pytest.mark.parametrize("fails_at", [100, 0, 7, 12])
def test_what_a_failed_epoch_counted_counts_once_it_has_run_again(tmp_path: Path, fails_at: int) -> None:
    function = Counts(fails_at, tmp_path / "failed")
    chapter = Story(tmp_path, workers=2).run(program(function), restart="fixed-delay")
    assert chapter.driver.progress.restarts == 1
    assert counted(chapter) == TRUTH


class Unruly(Epochs):
    """Runs tasks twice, and loses epochs."""

    def __init__(self, records: int, **options: Any) -> None:
        super().__init__(records, **options)
        self.attempts = 0

    def _attempt(self, *arguments: Any) -> Any:
        self.attempts += 1
        return super()._attempt(*arguments)


@pytest.mark.parametrize("seed", range(4))
def test_tasks_that_run_twice_count_once(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(tmp_path, workers=3, seed=seed, chaos=Chaos(retries=0.3, mixtures=0.1, losses=0.1))
    monkeypatch.setattr("tests.kit.stories.Epochs", Unruly)
    chapter = story.run(program(maps=2, keyed=2))
    assert chapter.status is JobStatus.FINISHED
    assert isinstance(chapter.runner, Unruly)
    epochs = len({plan.checkpoint_id for plan in chapter.runner.plans})
    assert chapter.runner.attempts > epochs * sum(len(level.slots) for level in chapter.runner.plans[0].levels)
    assert counted(chapter) == TRUTH


class KilledError(BaseException):
    """Stands for SIGKILL."""


def test_crash_before_any_step_changes_no_value(tmp_path: Path) -> None:
    whole = Story(tmp_path / "whole", records=8).run(program())
    for number in range(1, len(whole.steps)):
        story, left = Story(tmp_path / str(number), records=8), iter(range(1, 10_000))

        def step(instruction: do.Instruction, perform: Any, left: Any = left, number: int = number) -> None:
            if next(left) == number:
                raise KilledError
            perform(instruction)

        try:
            story.run(program(), step=step, recover="latest", job_id="a" * 32, first="true")
        except KilledError:
            again = story.run(program(), recover="latest", job_id="a" * 32, first="true")
            assert again.status is JobStatus.FINISHED
            assert counted(again) == TRUTH, number


def test_job_that_has_finished_already_still_has_its_values(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.run(program(), job_id="a" * 32)
    again = story.run(program(), recover="latest", job_id="a" * 32)
    assert [type(step) for step in again.steps].count(do.RunEpoch) == 0
    assert counted(again) == TRUTH
    assert again.driver.result.result(0).get_accumulator_result("records") == TRUTH["records"]


@pytest.mark.parametrize("first", [{}, {"maps": 2, "keyed": 2}])
@pytest.mark.parametrize("then", [{}, {"maps": 2, "keyed": 3}])
@pytest.mark.parametrize("epoch", [1, 2, 4])
def test_a_savepoint_carries_the_values_to_any_parallelism(
    tmp_path: Path, epoch: int, first: dict[str, int], then: dict[str, int]
) -> None:
    story = Story(tmp_path)
    stopped = story.run(program(**first), asks={epoch: StopMode.SUSPEND})
    before = counted(stopped).get("records", 0)
    assert before < TRUTH["records"]
    again = story.run(program(**then), recover=stopped.savepoint)
    assert counted(again) == TRUTH


def two_pipelines(sheet: Sheet) -> None:
    for uid, numbers in (("short", SHORT), ("long", LONG)):
        sheet.collect(sheet.source(uid, numbers).map(Counts()).uid(f"{uid}-counts"), f"{uid}-out")


@pytest.mark.parametrize("epoch", [None, 4])
def test_what_has_finished_keeps_its_values(tmp_path: Path, epoch: int | None) -> None:
    story = Story(tmp_path)
    chapter = story.run(two_pipelines, asks={epoch: StopMode.SUSPEND} if epoch else None)
    last = [step for step in chapter.steps if isinstance(step, do.RunEpoch)][-1]
    assert len(last.dispatches) < 4, "something finishes before the rest"
    if epoch is not None:
        chapter = story.run(two_pipelines, recover=chapter.savepoint)
    assert counted(chapter) == {**TRUTH, "records": len(NUMBERS)}


class Lists(Counts, CheckpointedFunction):
    """Has a union list, so that it is made anew in the next epoch wherever that runs."""

    def initialize_state(self, context: Any) -> None:
        self.seen = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("seen"))

    def snapshot_state(self, context: Any) -> None:
        self.records.add(0)

    def map(self, value: Any) -> Any:
        self.seen.add(value)
        return super().map(value)


def test_functions_that_are_made_anew_in_their_process_count_on(tmp_path: Path) -> None:
    chapter = Story(tmp_path).run(program(Lists(), maps=2))
    assert chapter.status is JobStatus.FINISHED
    assert counted(chapter) == TRUTH


def test_a_drain_counts_what_was_read(tmp_path: Path) -> None:
    chapter = Story(tmp_path).run(program(), asks={3: StopMode.DRAIN})
    assert counted(chapter)["records"] == 1001 * chapter.driver.progress.records
    assert chapter.driver.result.result(0).get_accumulator_result("records") == counted(chapter)["records"]


# --------------------------------------------------------------------------------------------- what goes on, what not


def test_values_of_an_operator_that_is_gone_are_told_before_they_are_dropped(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(program(), asks={3: StopMode.SUSPEND})

    def without(sheet: Sheet) -> None:
        stream = sheet.source("numbers", SHORT, LONG)
        sheet.collect(stream.key_by(lambda n: n % 4).process(Keyed()).uid("keyed"))

    refused = story.run(without, recover=stopped.savepoint)
    assert isinstance(refused.error, UnclaimedStateError)
    assert refused.error.uid == "counts"
    again = story.run(without, recover=stopped.savepoint, ignore="true")
    assert counted(again) == {"records": 1000 * len(NUMBERS)}


def test_a_value_whose_class_is_gone_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    chapter = Story(tmp_path).run(program())
    monkeypatch.delattr(f"{__name__}.Distinct")
    assert set(counted(chapter)) == set(TRUTH) - {"distinct"}
    assert "'distinct' (5) cannot be read" in caplog.text


def test_a_savepoint_is_looked_into_without_the_users_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = Story(tmp_path).run(program(), asks={3: StopMode.SUSPEND})
    monkeypatch.delattr(f"{__name__}.Distinct")
    (operator,) = (one for one in inspect(stopped.savepoint).operators if one.uid == "counts")
    shown = {one.name: (one.type, one.value) for one in operator.accumulators}
    assert shown["records"] == ("IntCounter", str(stopped.driver.progress.records))
    assert shown["distinct"][0] == "Distinct"
    assert operator.has_state


# ------------------------------------------------------------------------------------------------------------ refusals


class Uses(MapFunction):
    """Does something with accumulators in open, and adds each record to what comes of it."""

    def __init__(self, use: Any) -> None:
        self.use = use

    def open(self, runtime_context: Any) -> None:
        self.one = self.use(runtime_context)

    def map(self, value: Any) -> Any:
        if self.one is not None:
            self.one.add(value)
        return value


def added(name: str, make: Any) -> Any:
    """Return a use: an accumulator under a name."""

    def use(context: Any) -> Any:
        one = make()
        context.add_accumulator(name, one)
        return one

    return use


def failed(tmp_path: Path, *functions: Any, restart: str = "none") -> JobExecutionError:
    def write(sheet: Sheet) -> None:
        stream = sheet.source("numbers", LONG)
        for number, function in enumerate(functions):
            stream = stream.map(function).uid(f"uses-{number}").name(f"uses {number}")
        sheet.collect(stream)

    chapter = Story(tmp_path).run(write, restart=restart)
    assert chapter.driver.progress.restarts == 0
    error = chapter.error
    assert isinstance(error, JobExecutionError)
    return error


def test_a_merge_that_raises_fails_the_job_as_its_operator(tmp_path: Path) -> None:
    error = failed(tmp_path, Uses(added("moods", Grumpy)))
    assert error.reason == "ValueError: not with that one (in the merge of accumulator 'moods')"
    assert isinstance(error.__cause__, ValueError)
    assert error.place is not None
    assert (error.place.operator_name, error.place.operator_uid) == ("uses 0", "uses-0")
    assert str(error.place.location).startswith(__file__)


class CountsDigits(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_int_counter("digits")

    def map(self, value: Any) -> Any:
        self.count.add(10**5000)
        return value


def test_a_count_of_more_digits_than_python_prints_is_what_it_is(tmp_path: Path) -> None:
    def write(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", SHORT).map(CountsDigits()))

    result = Story(tmp_path).run(write).driver.result.result(0)
    assert result.get_accumulator_result("digits") == len(SHORT) * 10**5000
    assert "digits (int): <int whose repr raises ValueError>" in str(result)


def test_two_operators_with_different_kinds_under_one_name_are_told(tmp_path: Path) -> None:
    uses = Uses(lambda context: context.get_int_counter("n")), Uses(lambda context: context.get_double_counter("n"))
    error = failed(tmp_path, *uses, restart="fixed-delay")
    assert isinstance(error.__cause__, AccumulatorTypeError)
    assert (error.__cause__.name, error.__cause__.found[-10:], error.__cause__.wanted[-13:]) == (
        "n",
        "IntCounter",
        "DoubleCounter",
    )
    assert error.place is not None
    assert error.place.operator_uid == "uses-1"


def test_another_kind_in_the_place_of_a_restored_one_is_told(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(program(Uses(added("n", IntCounter))), asks={3: StopMode.SUSPEND})
    again = story.run(program(Uses(added("n", ListAccumulator))), recover=stopped.savepoint)
    assert isinstance(again.error, JobExecutionError)
    assert isinstance(again.error.__cause__, AccumulatorTypeError)
    renamed = story.run(program(Uses(added("m", ListAccumulator))), recover=stopped.savepoint)
    assert sum(counted(renamed)["m"]) + counted(renamed)["n"] == sum(NUMBERS)


@pytest.mark.parametrize("limit", [60, 100])
def test_accumulators_that_grow_beyond_the_limit_fail_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(metadata, "MAX_ACCUMULATOR_BYTES", limit)  # that of one epoch's ack, and that of all epochs
    error = failed(tmp_path, Uses(added("big", ListAccumulator)), restart="fixed-delay")
    assert isinstance(error.__cause__, AccumulatorSizeError)
    assert (error.__cause__.name, error.__cause__.limit) == ("big", limit)
    assert error.place is not None
    assert error.place.operator_uid == "uses-0"


class ByAccumulator(KeySelector):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_int_counter("keys")

    def get_key(self, value: Any) -> Any:
        return value


def test_a_key_selector_has_no_accumulators(tmp_path: Path) -> None:
    chapter = Story(tmp_path).run(
        lambda sheet: sheet.collect(sheet.source("n", LONG).key_by(ByAccumulator()).reduce(max))
    )
    assert isinstance(chapter.error, JobExecutionError)
    assert isinstance(chapter.error.__cause__, UnsupportedOperationError)
    assert "count in the function before" in str(chapter.error)


def taken_twice(context: Any) -> None:
    context.add_accumulator("n", IntCounter())
    assert context.get_accumulator("m") is None
    assert isinstance(context.get_accumulator("n"), IntCounter)
    context.add_accumulator("n", IntCounter())


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (taken_twice, UnsupportedOperationError, "has an accumulator of that name"),
        (lambda c: (c.get_int_counter("n"), c.get_histogram("n")), AccumulatorTypeError, "both a .*IntCounter and a"),
        (lambda c: c.add_accumulator("n", 7), AccumulatorTypeError, "both a builtins.int and a"),
        (lambda c: c.get_int_counter(7), UnsupportedOperationError, "a text"),
        (lambda c: c.get_int_counter("\udcff"), UnsupportedOperationError, "which can be shown"),
        (lambda c: c.get_histogram("n").add(n for n in ()), UnpicklableAccumulatorError, "'n' holds something"),
    ],
)
def test_uses_that_are_refused(tmp_path: Path, use: Any, kind: type[Exception], text: str) -> None:
    def once(context: Any) -> None:
        use(context)

    error = failed(tmp_path, Uses(once))
    assert isinstance(error.__cause__, kind)
    assert error.place is not None
    assert error.place.operator_uid == "uses-0"
    with pytest.raises(kind, match=text):
        raise error.__cause__


# -------------------------------------------------------------------------------------------------------------- formats


def test_a_job_without_accumulators_sends_not_a_byte_of_them_and_merges_nothing(tmp_path: Path) -> None:
    assert b"accumulators" not in encode(OperatorAck())
    assert "accumulators" in msgspec.msgpack.decode(encode(OperatorAck(accumulators={"n": b""})))
    story = Story(tmp_path)
    story.run(lambda sheet: sheet.collect(sheet.source("n", LONG).map(str)), retention="RETAIN_ON_CANCELLATION")
    assert not any(isinstance(step, do.MergeAccumulators) for step in story.chapters[0].steps)


def test_the_last_record_of_a_finished_job_has_its_values(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.run(program())
    last = story.records_of_jobs()[-1]
    assert last.kind is ChainEntryKind.FINISHED
    assert last.accumulators["counts"]["rests"].text == str(TRUTH["rests"])
    assert last.accumulators["counts"]["rests"].type.endswith(f".{Histogram.__name__}")
