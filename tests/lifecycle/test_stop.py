"""What a stop promises: what is read, what is published and when, what fires, and that damage is told."""

from __future__ import annotations

import itertools
import pickle
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import CLOCK
from tests.kit.diaries import Ending, Run
from tests.lifecycle.jobs import TRUTH, Jobs, crash_when
from tests.lifecycle.subjects import (
    GATE,
    NUMBERS,
    RECORDS,
    SHORT,
    WINDOW_MS,
    Contents,
    GatedSource,
    OwnNumber,
    Place,
    event_timers,
    one_input,
    processing_timers,
    union_list,
)

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode, decode
from penstock._engine.protocol.events import ReaderState
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.metadata_document import decode_chain_entry
from penstock.common.job_status import JobStatus
from penstock.common.time import Duration
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import CorruptCheckpointError, SavepointError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from penstock._engine.protocol.metadata import ChainEntry

STOPS = pytest.mark.parametrize("ending", [Ending.SUSPEND, Ending.DRAIN], ids=lambda ending: ending.value)
#: State goes to files, whatever its size.
TO_FILES = {"execution.checkpointing.data-inline-threshold": "0 b"}


def record_of(savepoint: str) -> ChainEntry:
    path = Path(savepoint, "_metadata")
    return decode_chain_entry(path.read_bytes(), str(path))


def position_in(savepoint: str) -> int:
    """Return how many numbers lie before the position of the only reader."""
    snapshot = record_of(savepoint).snapshot
    assert snapshot is not None
    [source] = [operator for operator in snapshot.operators.values() if operator.name.startswith("Source")]
    [reader] = source.subtasks
    assert reader.state is not None
    [split] = decode(reader.state, ReaderState).splits
    return pickle.loads(split).position


def in_epoch(run: Run, number: int, act: Callable[[], object]) -> None:
    """Do something when the epoch of a number begins."""

    def watch(step: do.Instruction) -> None:
        if isinstance(step, do.RunEpoch) and len(run.of(do.RunEpoch)) == number:
            act()

    run.watchers.append(watch)


# ------------------------------------------------------------------------------------------- what is read and published


@STOPS
@pytest.mark.behaviour(49, 50)
def test_when_the_call_answers_all_before_the_savepoints_positions_is_published_and_nothing_else(
    jobs: Jobs, ending: Ending
) -> None:
    run = jobs.make(one_input)
    seen: list[dict[str, Counter[Any]]] = []

    def look(step: do.Instruction) -> None:
        if run.stopped is not None and not seen and isinstance(step, do.EndDriver):
            run.stopped.add_done_callback(lambda _: seen.append(jobs.published))

    run.watchers.append(look)
    run.to_its_end(ending, after=GATE)
    position = position_in(run.goes_on_from)
    assert GATE <= position < RECORDS
    assert seen == [{"out": Counter(range(position))}]
    assert jobs.published == seen[0]


@pytest.mark.behaviour(51)
def test_savepoint_of_a_running_job_and_what_was_committed_with_it_make_a_whole(jobs: Jobs) -> None:
    run = jobs.make(one_input)
    asked: list[Future[str]] = []
    in_epoch(run, 4, lambda: asked.append(run.driver.savepoint(None, StopMode.NO)))
    assert run.to_its_end().status is JobStatus.FINISHED
    assert jobs.published == TRUTH[one_input]
    position = position_in(asked[0].result(0))
    assert 0 < position < RECORDS
    shutil.rmtree(jobs.out)
    jobs.out.mkdir()
    jobs.make(one_input, asked[0].result(0)).to_its_end()
    assert jobs.published == {"out": Counter(range(position, RECORDS))}


# ----------------------------------------------------------------------------------------------------------- what fires


def idle_windows(place: Place) -> None:
    """A source that waits at the gate for good and is idle then, and windows behind it."""
    source = GatedSource(NUMBERS, happened_in=str(place.folder), gate=place.folder / "never")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnNumber())
    stream = place.env.from_source(source, strategy.with_idleness(Duration.of_seconds(1)), "idle")
    window = TumblingEventTimeWindows(WINDOW_MS, 0)
    place.write(stream.key_by(lambda number: number % 3).window(window).process(Contents()).set_parallelism(2))


@pytest.mark.behaviour(32)
def test_windows_behind_an_idle_source_fire_in_a_drain(jobs: Jobs) -> None:
    run = jobs.make(idle_windows)
    in_epoch(run, 12, lambda: run.tell(Ending.DRAIN))
    run.to_its_end()
    assert any(
        status.idle
        for vertex in run.checkpoints[-2].vertices
        for part in vertex.subtasks
        for status in part.outputs.values()
    )
    assert jobs.published == {"out": Counter(tuple(range(key, GATE, 3)) for key in range(3))}


@pytest.mark.behaviour(184)
def test_processing_time_timers_fire_while_no_source_has_data(jobs: Jobs) -> None:
    gate, due_ms = jobs.place / "gate", CLOCK.now_ms() + 60_000

    def waiting(env: Any) -> None:
        processing_timers(Place(env, jobs.out, due_ms, gate))

    run = Run(waiting, jobs.place, jobs.monkeypatch)

    def open_gate(_: do.Instruction) -> None:
        if ("fired", SHORT[-1]) in jobs.published.get("out", ()):
            gate.touch()

    run.watchers.append(open_gate)
    assert run.to_its_end().status is JobStatus.FINISHED
    assert due_ms <= CLOCK.now_ms() < due_ms + 60_000
    assert jobs.published == TRUTH[processing_timers]


@pytest.mark.behaviour(54)
def test_drain_whose_savepoint_fails_fires_nothing_twice_and_counts_no_restart(jobs: Jobs) -> None:
    run = jobs.make(event_timers)
    write, failures = run.loop._handlers[do.WriteSavepoint], iter([OSError("the disk is full")])

    def fail_once(instruction: Any) -> ev.Event | None:
        error = next(failures, None)
        return write(instruction) if error is None else ev.SavepointFailed(instruction.path, error)

    run.loop._handlers[do.WriteSavepoint] = fail_once
    assert run.to_its_end(Ending.DRAIN, after=GATE).status is JobStatus.FINISHED
    assert run.stopped is not None
    assert isinstance(error := run.stopped.exception(0), SavepointError)
    assert "the disk is full" in str(error)
    assert run.driver.progress.restarts == 0
    assert run.of(do.PutChainEntry)[-1].entry.kind is ChainEntryKind.FINISHED
    assert jobs.published == TRUTH[event_timers]


@STOPS
@pytest.mark.parametrize("instruction", [do.WriteSavepoint, do.CompleteSavepoint])
@pytest.mark.behaviour(54)
def test_job_whose_savepoint_the_store_refuses_goes_on_and_loses_nothing(
    jobs: Jobs, ending: Ending, instruction: type[do.WriteSavepoint | do.CompleteSavepoint]
) -> None:
    run = jobs.make(event_timers)
    run.loop._handlers[instruction] = lambda asked: ev.SavepointFailed(asked.path, OSError("not allowed"))
    assert run.to_its_end(ending, after=GATE).status is JobStatus.FINISHED
    assert run.stopped is not None
    assert isinstance(error := run.stopped.exception(0), SavepointError)
    assert "not allowed" in str(error)
    assert not list(jobs.place.rglob("savepoint-*"))
    assert run.driver.progress.restarts == 0
    assert jobs.published == TRUTH[event_timers]


@STOPS
@pytest.mark.behaviour(54)
def test_savepoint_that_is_gone_before_it_has_its_name_is_written_anew(jobs: Jobs, ending: Ending) -> None:
    run = jobs.make(event_timers)
    complete, lost = run.loop._handlers[do.CompleteSavepoint], list[str]()

    def lost_before(asked: Any) -> ev.Event | None:
        shutil.rmtree(asked.path)
        lost.append(asked.path)
        return complete(asked)

    run.loop._handlers[do.CompleteSavepoint] = lost_before
    assert run.to_its_end(ending, after=GATE).status is JobStatus.FINISHED
    assert lost == [run.goes_on_from]
    jobs.make(event_timers, run.goes_on_from).to_its_end()
    assert jobs.published == TRUTH[event_timers]


@STOPS
@pytest.mark.behaviour(13)
def test_union_list_goes_through_two_savepoints(jobs: Jobs, ending: Ending) -> None:
    first = jobs.make(union_list)
    first.to_its_end(ending, after=GATE)
    second = jobs.make(union_list, first.goes_on_from)
    second.to_its_end(ending, after=4)
    jobs.make(union_list, second.goes_on_from).to_its_end()
    assert jobs.published == TRUTH[union_list]


# --------------------------------------------------------------------------------------------------------------- damage


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def remove(file: Path) -> None:
    file.unlink()


def suspended(jobs: Jobs) -> Path:
    """Return a savepoint with files."""
    run = jobs.make(event_timers, settings=TO_FILES)
    run.to_its_end(Ending.SUSPEND, after=GATE)
    return Path(run.goes_on_from)


@pytest.mark.parametrize("damage", [flip, cut_short, remove])
def test_damaged_file_of_a_savepoint_ends_the_start_with_its_name_and_publishes_nothing(
    jobs: Jobs, damage: Callable[[Path], None]
) -> None:
    savepoint = suspended(jobs)
    before = jobs.published
    victim = max(file for file in savepoint.iterdir() if not file.name.startswith("_"))
    damage(victim)
    driver = jobs.make(event_timers, str(savepoint), TO_FILES).to_its_end()
    assert driver.status is JobStatus.FAILED
    assert victim.name in str(driver.result.exception())
    assert jobs.published == before


@pytest.mark.parametrize("damage", [flip, cut_short])
def test_damaged_record_of_a_savepoint_is_refused_with_its_path(jobs: Jobs, damage: Callable[[Path], None]) -> None:
    savepoint = suspended(jobs)
    damage(savepoint / "_metadata")
    run = jobs.make(event_timers, str(savepoint), TO_FILES)
    error = run.to_its_end().result.exception()
    assert isinstance(error, CorruptCheckpointError)
    assert str(savepoint / "_metadata") in str(error)
    assert not run.of(do.RunEpoch)


def test_restore_that_is_killed_at_any_step_leaves_the_savepoint_as_good_as_before(jobs: Jobs) -> None:
    savepoint = suspended(jobs)
    before = jobs.published
    for position in itertools.count():
        steps = itertools.count()
        restore = jobs.make(event_timers, str(savepoint), TO_FILES)
        checkpointed: list[bool] = []

        def in_the_way(
            step: do.Instruction, steps: Any = steps, position: int = position, checkpointed: list[bool] = checkpointed
        ) -> bool:
            if isinstance(step, do.PutChainEntry) and step.entry.kind is ChainEntryKind.CHECKPOINT:
                checkpointed.append(True)
            return next(steps) == position or bool(checkpointed)

        crash_when(restore, in_the_way)
        assert jobs.published == before
        if checkpointed:
            break
    assert position > 8
    jobs.make(event_timers, str(savepoint), TO_FILES).to_its_end()
    assert jobs.published == TRUTH[event_timers]
