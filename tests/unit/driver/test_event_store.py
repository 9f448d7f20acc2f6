"""The log of a batch job's events, in whole jobs: when events are stored, by whom, and what a job does without them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.kit.clock import Threads
from tests.kit.lost_answers import lose_first_answers
from tests.unit.driver import test_batch_recovery as batch
from tests.unit.driver.test_batch_jobs import Killed, published
from tests.unit.driver.test_batch_recovery import CALLS, SUMS, WHOLE, driver_of, left_behind, run

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.stages import recovery
from penstock._engine.driver.background import BackgroundThreads
from penstock._engine.driver.mailbox import Mailbox, SystemClock
from penstock._engine.driver.stages.event_store import JobEventStore
from penstock._engine.protocol.job_events import ExecutionVertexFinishedEvent, ExecutionVertexResetEvent
from penstock._engine.storage.local import LocalStorage
from penstock._engine.storage.opening import open_storage
from penstock.common import JobStatus
from penstock.errors import CheckpointStorageError
from penstock.testing.sources import ListSource

JOB, LONG_MS = "ab" * 16, 3_600_000
CLAIM = do.ClaimJobEvents(JOB, "first", 1, 1)


class Delayed(Threads):
    """Runs nothing that was put off, as if its time never came."""

    def later(self, delay_ms: int, work: Any) -> None:
        """Put work off for ever."""


def event(number: int) -> ExecutionVertexResetEvent:
    return ExecutionVertexResetEvent(((number, 0),), "x" * 100)


def store_at(place: Path, background: Any, **settings: int) -> JobEventStore:
    options = {"buffer_bytes": 1 << 20, "flush_ms": LONG_MS, **settings}
    return JobEventStore(open_storage(str(place), {}), Mailbox(SystemClock()), background, **options)


def stored(place: Path) -> tuple[Any, ...]:
    """Return what the next driver finds."""
    answer = store_at(place, Threads()).claim(do.ClaimJobEvents(JOB, "second", 2, 1))
    assert isinstance(answer, ev.JobEventsClaimed)
    return answer.events


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that have written segments."""
    found, put = list[threading.Thread](), LocalStorage.put_if_absent

    def noting(storage: LocalStorage, path: str, data: bytes) -> bool:
        if "/events/" in path:
            found.append(threading.current_thread())  # a number would go to another thread after its end
        return put(storage, path, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", noting)
    return found


@pytest.mark.behaviour(138)
def test_events_of_many_threads_are_all_stored_and_none_of_them_writes(
    tmp_path: Path, writers: list[threading.Thread]
) -> None:
    background = BackgroundThreads("events")
    store = store_at(tmp_path, background, buffer_bytes=3_000)
    store.claim(CLAIM)
    writers.clear()

    def record(first: int) -> None:
        for number in range(first, first + 50):
            store.record(do.RecordJobEvents((event(number),)))

    recorders = [threading.Thread(target=record, args=(1_000 * number,)) for number in range(4)]
    for pair in (recorders[:2], recorders[2:]):
        for thread in pair:
            thread.start()
        for thread in pair:
            thread.join()
        deadline = time.monotonic() + 30
        while not writers and time.monotonic() < deadline:  # else one write might take all
            time.sleep(0.001)
    own = {*recorders, threading.current_thread()}
    background.close(wait=True)
    assert len(writers) > 1  # the buffer was full again and again
    assert own.isdisjoint(writers)
    store.close()
    found = [each.subtasks[0][0] for each in stored(tmp_path)]
    assert sorted(found) == sorted(1_000 * part + number for part in range(4) for number in range(50))
    for part in range(4):
        of_thread = [number for number in found if number // 1_000 == part]
        assert of_thread == sorted(of_thread)


@pytest.mark.behaviour(138)
@pytest.mark.parametrize("settings", [{"buffer_bytes": 1}, {"flush_ms": 20}], ids=["full", "interval"])
def test_events_reach_the_storage_when_the_buffer_is_full_or_its_interval_is_over(
    tmp_path: Path, settings: dict[str, int]
) -> None:
    background = BackgroundThreads("events")
    written, put = threading.Event(), JobEventStore._put
    store = store_at(tmp_path, background, **settings)
    store.claim(CLAIM)

    def telling(events: list[bytes]) -> bool:
        done = put(store, events)
        written.set()
        return done

    store._put = telling  # type: ignore[method-assign]
    store.record(do.RecordJobEvents((event(7),)))
    assert written.wait(30)
    assert stored(tmp_path) == (event(7),)  # although the store was not closed: a kill now loses nothing
    background.close(wait=True)


def test_events_whose_first_answer_was_lost_are_stored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_first_answers(monkeypatch, "/events/00000002")
    store = store_at(tmp_path, Threads())
    store.claim(CLAIM)
    store.record(do.RecordJobEvents((event(7),)))
    store.close()
    assert stored(tmp_path) == (event(7),)


def test_events_whose_last_answer_was_lost_go_with_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = LocalStorage.put_if_absent

    def without_answer(storage: LocalStorage, path: str, data: bytes) -> bool:
        put(storage, path, data)
        raise CheckpointStorageError(path, "no answer")

    store = store_at(tmp_path, Delayed())
    store.claim(CLAIM)
    monkeypatch.setattr(LocalStorage, "put_if_absent", without_answer)
    store.record(do.RecordJobEvents((event(7),)))
    store.flush()
    assert (tmp_path / JOB / "events/00000002").exists()
    store.close(JOB)
    assert not list(tmp_path.glob(f"{JOB}/events/*"))


@pytest.mark.behaviour(138)
@pytest.mark.parametrize("is_now", [False, True], ids=["later", "now"])
def test_who_records_an_event_does_not_even_wait_until_a_thread_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_now: bool
) -> None:
    background, start, begins = BackgroundThreads("events"), threading.Thread.start, threading.Event()
    store = store_at(tmp_path, background, flush_ms=0)
    store.claim(CLAIM)

    def started_late(thread: threading.Thread) -> None:
        assert begins.wait(30)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", started_late)
    store.record(do.RecordJobEvents((event(7),), cut=is_now))
    begins.set()  # only now: `record` has returned before
    background.close(wait=True)
    store.close()
    assert stored(tmp_path) == (event(7),)


@pytest.mark.behaviour(138)
def test_a_subtask_that_has_finished_while_others_run_is_stored_without_another_interval(tmp_path: Path) -> None:
    driver, loop = driver_of(tmp_path, threads=Delayed())
    runner, records = loop._performers.epochs._runner, list[do.RecordJobEvents]()
    run_stage, perform = runner.run, loop.perform

    def telling(plan: Any) -> Any:
        outcome = run_stage(plan)
        loop._mailbox.post(ev.SubtasksFinished(plan.levels[0].job_attempt, outcome.acks[:1]))  # its file was found
        return outcome

    def noting(instruction: Any) -> None:
        if isinstance(instruction, do.RecordJobEvents):
            records.append(instruction)
        perform(instruction)

    runner.run, loop.perform = telling, noting
    driver.run(loop)
    assert published(tmp_path, "sums") == SUMS
    first = next(
        number
        for number, step in enumerate(records)
        if any(isinstance(event, ExecutionVertexFinishedEvent) for event in step.events)
    )
    assert records[first + 1] == do.RecordJobEvents((), cut=True)


def test_of_two_attempts_at_a_subtask_the_one_counts_that_was_recorded_first(tmp_path: Path) -> None:
    driver, loop = driver_of(tmp_path)
    runner, perform = loop._performers.epochs._runner, loop.perform
    run_stage, tokens, recorded, read = runner.run, set[int](), list[int](), set[int]()

    def twice(plan: Any) -> Any:
        outcome = run_stage(plan)
        if outcome.acks[0].vertex != 2:
            return outcome
        tokens.update(ack.token for ack in outcome.acks)
        loop._mailbox.post(ev.SubtasksFinished(plan.levels[0].job_attempt, outcome.acks))
        return run_stage(plan)  # Spark has run the tasks again

    def noting(instruction: Any) -> None:
        events = instruction.events if isinstance(instruction, do.RecordJobEvents) else ()
        finished = [event for event in events if isinstance(event, ExecutionVertexFinishedEvent) and event.vertex == 2]
        recorded.extend(event.acks[-1].token for event in finished)
        if isinstance(instruction, do.RunEpoch):
            read.update(part.token for part in instruction.results or () if part.vertex == 2)
        perform(instruction)

    runner.run, loop.perform = twice, noting
    driver.run(loop)
    assert published(tmp_path, "sums") == SUMS
    assert len(recorded) == 2
    assert set(recorded) == read == tokens


def test_a_driver_that_was_away_while_another_one_ended_the_job_and_began_it_anew_is_fenced(tmp_path: Path) -> None:
    old, later, anew = (store_at(tmp_path, Threads()) for _ in range(3))
    old.claim(CLAIM)
    later.claim(do.ClaimJobEvents(JOB, "later", 2, 1))
    later.close(JOB)  # it has ended the job, and deletes the events
    answer = anew.claim(do.ClaimJobEvents(JOB, "anew", 4, 4))
    assert isinstance(answer, ev.JobEventsClaimed)
    assert answer.events == ()
    assert [path.name for path in tmp_path.glob("*/events/*")] == ["00000001"]  # as the old driver's own claim
    old.record(do.RecordJobEvents((event(1),)))
    old.flush()
    assert isinstance(old._mailbox.receive(None), ev.JobEventsFenced)
    anew.record(do.RecordJobEvents((event(2),)))
    anew.flush()
    found = store_at(tmp_path, Threads()).claim(do.ClaimJobEvents(JOB, "next", 5, 4))
    assert isinstance(found, ev.JobEventsClaimed)
    assert (found.events, found.damage) == ((event(2),), "")


@pytest.mark.behaviour(137)
def test_segments_that_the_storage_lists_late_are_read_and_deleted_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store_at(tmp_path, Threads())
    first.claim(CLAIM)
    for number in range(3):
        first.record(do.RecordJobEvents((event(number),)))
        first.flush()
    for listed in ([], ["00000001", "00000002"], ["00000003"]):
        monkeypatch.setattr(LocalStorage, "names", lambda _storage, _place, listed=listed: listed)
        assert stored(tmp_path) == (event(0), event(1), event(2))
    last = store_at(tmp_path, Threads())
    last.claim(do.ClaimJobEvents(JOB, "third", 3, 1))
    last.close(JOB)
    assert list(tmp_path.glob("*/events/*")) == []


@pytest.mark.behaviour(140)
def test_events_of_a_stage_that_has_ended_are_stored_without_waiting(tmp_path: Path) -> None:
    CALLS.clear()
    driver, loop = driver_of(tmp_path, threads=Delayed(), **{"job-event.store.write-buffer.flush-interval": "1 h"})
    perform = loop.perform

    def stopping(instruction: Any) -> None:
        if isinstance(instruction, do.RunEpoch) and max(vertex for vertex, _ in instruction.dispatches) == 3:
            batch.flush(loop)
            raise Killed
        perform(instruction)

    loop.perform = stopping
    with pytest.raises(Killed):
        loop.run()
    assert driver.status is JobStatus.RUNNING
    run(tmp_path)
    assert published(tmp_path, "sums") == SUMS
    assert CALLS == WHOLE


@pytest.mark.behaviour(141)
def test_a_job_whose_events_cannot_be_written_goes_on_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put, tries = LocalStorage.put_if_absent, 0

    def failing(storage: LocalStorage, path: str, data: bytes) -> bool:
        nonlocal tries
        if "/events/" in path and not path.endswith("00000001"):
            tries += 1
            if tries <= 8:  # once, and behind each pause; then the disk has room again
                raise CheckpointStorageError(path, "no space left on device")
        return put(storage, path, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", failing)
    driver, loop = driver_of(tmp_path)
    segments = list[list[Path]]()
    perform = loop.perform

    def noting(instruction: Any) -> None:
        perform(instruction)
        segments.append([path for path in left_behind(tmp_path) if path.parent.name == "events"])

    loop.perform = noting
    driver.run(loop)
    assert driver.status is JobStatus.FINISHED
    assert published(tmp_path, "sums") == SUMS
    [said] = [record for record in caplog.records if "cannot be written, and no more are" in record.getMessage()]
    assert said.levelname == "WARNING"
    assert tries == 8
    assert max(map(len, segments)) == 1  # a log with holes would be worse than none


@pytest.mark.behaviour(146)
def test_a_decided_parallelism_stays_although_the_next_driver_would_decide_otherwise(tmp_path: Path) -> None:
    auto = "execution.batch.adaptive.auto-parallelism"
    settings = {f"{auto}.enabled": "true", f"{auto}.avg-data-volume-per-task": "1 b"}
    driver, loop = driver_of(tmp_path, **settings)
    perform = loop.perform

    def stopping(instruction: Any) -> None:
        perform(instruction)
        if isinstance(instruction, do.RunEpoch) and max(vertex for vertex, _ in instruction.dispatches) == 2:
            batch.flush(loop)
            raise Killed

    loop.perform = stopping
    with pytest.raises(Killed):
        loop.run()
    del driver
    ran = Counter[int]()
    driver, loop = driver_of(tmp_path, **{**settings, f"{auto}.avg-data-volume-per-task": "1 gb"})
    perform = loop.perform

    def noting(instruction: Any) -> None:
        if isinstance(instruction, do.RunEpoch):
            ran.update(vertex for vertex, _ in instruction.dispatches)
        perform(instruction)

    loop.perform = noting
    driver.run(loop)
    assert published(tmp_path, "sums") == SUMS
    assert ran[2] == 2  # decided by the driver before
    assert ran[4] == 1


class WithoutSnapshots(ListSource):
    """A source whose enumerator can tell its state in no batch job."""

    def create_enumerator(self, enum_context: Any) -> Any:
        enumerator = super().create_enumerator(enum_context)

        def refuse(_: int) -> Any:
            raise NotImplementedError("no snapshot without a checkpoint")

        enumerator.snapshot_state = refuse  # type: ignore[method-assign]
        return enumerator


@pytest.mark.behaviour(149)
@pytest.mark.parametrize(("vertex", "starts_again"), [(0, True), (1, False)], ids=["unfinished", "finished"])
def test_a_source_without_snapshots_starts_as_a_whole_unless_all_of_it_has_finished(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    vertex: int,
    starts_again: bool,
) -> None:
    monkeypatch.setattr(batch, "ListSource", WithoutSnapshots)
    CALLS.clear()
    _, loop = driver_of(tmp_path)
    perform = loop.perform

    def stopping(instruction: Any) -> None:
        """Die when the first subtask of a source has finished."""
        perform(instruction)
        recorded = instruction.events if isinstance(instruction, do.RecordJobEvents) else ()
        if any(isinstance(event, ExecutionVertexFinishedEvent) and event.vertex == vertex for event in recorded):
            batch.flush(loop)
            raise Killed

    loop.perform = stopping
    with pytest.raises(Killed):
        loop.run()
    left = CALLS["left"]
    run(tmp_path)
    assert published(tmp_path, "sums") == SUMS
    assert CALLS["left"] == left + (WHOLE["left"] if starts_again else 0)
    caplog.clear()  # the warnings have errors with frames, and those the drivers that died


@pytest.mark.behaviour(152)
def test_a_job_whose_events_cannot_be_replayed_starts_fresh_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, kill_after=30)
    CALLS.clear()
    driver, loop = driver_of(tmp_path)
    replay, statuses = recovery.replay, list[JobStatus]()

    def failing(events: Any, graph: Any) -> Any:
        if list(events) and JobStatus.RESTARTING not in statuses:
            raise KeyError("a vertex that is not there")
        return replay(events, graph)

    monkeypatch.setattr(recovery, "replay", failing)
    perform = loop.perform

    def noting(instruction: Any) -> None:
        if isinstance(instruction, do.ChangeStatus):
            statuses.append(instruction.status)
        perform(instruction)

    loop.perform = noting
    driver.run(loop)
    assert driver.status is JobStatus.FINISHED
    assert published(tmp_path, "sums") == SUMS
    assert CALLS == WHOLE
    shown = [status.name for status in statuses]
    assert shown[shown.index("RECONCILING") :][:2] == ["RECONCILING", "RESTARTING"]
    assert "The recovery of the job failed, and it starts fresh: KeyError" in driver.failures[0].reason
    assert "The job starts fresh" in caplog.text
    caplog.clear()  # the warning has an error with frames
