"""Savepoints and stops: what the caller gets, what the sinks hold, how the job goes on."""

from __future__ import annotations

import pickle
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.kit.world import TARGETS, TargetCommitter, TargetSink, World, numbers_job, published
from tests.unit.driver.asked import ALL, STOPS, Asked, Unwritable, resumed

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.metadata_document import decode_chain_entry
from penstock.common.job_status import JobStatus
from penstock.errors import JobCancelledError, StopTimeoutError

# ---------------------------------------------------------------------------------------------------------------- stops


@STOPS
@pytest.mark.behaviour(48, 63)
def test_stop_ends_finished_and_the_savepoint_goes_on_where_it_stood(name: str, tmp_path: Path, stop: StopMode) -> None:
    asked = Asked(name, tmp_path).run({3: [stop]})
    assert asked.driver.status is JobStatus.FINISHED
    assert Path(asked.path, "_metadata").is_file()
    assert 0 < len(published(name)) < len(ALL)
    assert resumed(name, tmp_path, asked.path).status is JobStatus.FINISHED
    assert published(name) == ALL


@STOPS
@pytest.mark.behaviour(49, 59, 64)
def test_one_epoch_follows_the_running_one_and_reads_nothing(name: str, tmp_path: Path, stop: StopMode) -> None:
    asked = Asked(name, tmp_path).run({3: [stop]})
    assert [epoch.stop for epoch in asked.epochs] in ([*[StopMode.NO] * 3, stop], [*[StopMode.NO] * 4, stop])
    assert asked.driver.progress.epoch_records == 0


@pytest.mark.parametrize(
    ("stop", "kind"), [(StopMode.SUSPEND, ChainEntryKind.SUSPENDED), (StopMode.DRAIN, ChainEntryKind.DRAINED)]
)
def test_terminal_record_says_how_the_job_stopped_and_into_what(
    name: str, tmp_path: Path, stop: StopMode, kind: ChainEntryKind
) -> None:
    asked = Asked(name, tmp_path).run({2: [stop]})
    last = [step.entry for step in asked.steps if isinstance(step, do.PutChainEntry)][-1]
    assert (last.kind, last.savepoint) == (kind, asked.path)


@pytest.mark.behaviour(46)
def test_latest_goes_on_from_the_savepoint_of_a_suspend(name: str, tmp_path: Path) -> None:
    Asked(name, tmp_path).run({2: [StopMode.SUSPEND]})
    again = Asked(name, tmp_path, recover="latest").run({})
    assert again.driver.status is JobStatus.FINISHED
    assert published(name) == ALL


def test_latest_after_a_drain_says_so_and_runs_nothing(name: str, tmp_path: Path) -> None:
    Asked(name, tmp_path).run({2: [StopMode.DRAIN]})
    again = Asked(name, tmp_path, recover="latest").run({})
    assert again.driver.status is JobStatus.FINISHED
    assert not again.epochs


@pytest.mark.behaviour(60)
def test_second_stop_is_refused_and_names_the_first(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path).run({3: [StopMode.SUSPEND, StopMode.DRAIN]})
    [done] = [answer.result(0) for answer in asked.answers if answer.exception(0) is None]
    [refused] = [answer.exception(0) for answer in asked.answers if answer.exception(0) is not None]
    assert done in str(refused)


@pytest.mark.behaviour(31)
@pytest.mark.parametrize("stop", [StopMode.NO, StopMode.SUSPEND, StopMode.DRAIN])
def test_savepoint_that_is_asked_for_in_the_last_epoch_is_one_of_a_job_that_has_finished(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    last = len(Asked(f"{name}-a", tmp_path / "a").run({}).epochs)
    asked = Asked(name, tmp_path).run({last: [stop]})
    assert len(asked.epochs) == last
    assert asked.kinds[-1] is ChainEntryKind.FINISHED
    assert published(name) == ALL
    assert resumed(name, tmp_path, asked.path).status is JobStatus.FINISHED
    assert published(name) == ALL


@pytest.mark.behaviour(31)
@STOPS
def test_savepoint_of_the_last_epoch_that_fails_keeps_the_job_from_nothing(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    last = len(Asked(f"{name}-a", tmp_path / "a").run({}).epochs)
    asked = Asked(name, tmp_path)
    Unwritable(asked.loop)
    asked.run({last: [stop]})
    assert "disk full" in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert published(name) == ALL


# ----------------------------------------------------------------------------------------------------------- savepoints


def promised(steps: list[do.Instruction]) -> set[str]:
    """Return the committables of all checkpoints that completed."""
    snapshots = [step.entry.snapshot for step in steps if isinstance(step, do.PutChainEntry) and step.entry.snapshot]
    commits = [commit for snapshot in snapshots for commit in snapshot.outstanding]
    return {pickle.loads(item.payload[4:])[0] for commit in commits for item in commit.committables}


@pytest.mark.behaviour(51)
def test_savepoint_of_a_running_job_lets_it_go_on_and_has_no_commits_left(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path).run({3: [StopMode.NO]})
    assert asked.driver.status is JobStatus.FINISHED
    assert published(name) == ALL
    path = Path(asked.path, "_metadata")
    record = decode_chain_entry(path.read_bytes(), str(path))
    assert record.kind is ChainEntryKind.SAVEPOINT
    assert record.snapshot is not None
    assert record.snapshot.outstanding == ()


class Slow(TargetSink):
    """A sink that puts everything off once, so that a commit takes longer than an epoch."""

    def create_committer(self, context: Any) -> TargetCommitter:
        return SlowCommitter(TARGETS.setdefault(self.target, {}))


class SlowCommitter(TargetCommitter):
    def commit(self, requests: Any) -> None:
        for request in requests:
            if request.get_number_of_retries() == 0:
                request.retry_later()
            else:
                super().commit([request])


def test_savepoint_waits_for_the_commits_of_its_checkpoint_and_the_next_checkpoint_for_it(
    name: str, tmp_path: Path
) -> None:
    asked = Asked(name, tmp_path, World(numbers_job(name, sink=Slow(name)), patience=3))
    write, left = asked.loop._handlers[do.WriteSavepoint], []

    def watched(instruction: do.WriteSavepoint) -> Any:
        left.append(promised(asked.steps) - TARGETS[name].keys())
        return write(instruction)

    asked.loop._handlers[do.WriteSavepoint] = watched
    asked.run({4: [StopMode.NO]})
    assert left == [set()], "what the savepoint does not have is published before it is made"
    epoch = asked.epochs[4].checkpoint_id  # the first that begins behind the call
    record = decode_chain_entry(Path(asked.path, "_metadata").read_bytes(), asked.path)
    assert record.checkpoint_id == epoch
    assert published(name) == ALL


def test_savepoint_can_be_moved(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path).run({3: [StopMode.SUSPEND]})
    Path(asked.path).rename(tmp_path / "elsewhere")
    (tmp_path / "checkpoints").rename(tmp_path / "gone")
    assert resumed(name, tmp_path, str(tmp_path / "elsewhere")).status is JobStatus.FINISHED
    assert published(name) == ALL


def test_call_without_a_directory_names_the_key(name: str, tmp_path: Path) -> None:
    driver, loop = World(numbers_job(name)).driver(str(tmp_path))
    driver.run(loop)
    assert "execution.checkpointing.savepoint-dir" in str(driver.savepoint(None, StopMode.NO).exception(0))


@pytest.mark.parametrize("stop", StopMode)
def test_a_savepoint_is_shown_with_the_parts_of_the_checkpoint_that_it_has(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    view = Asked(name, tmp_path).run({3: [stop]}).driver.view.checkpoints
    assert view.last_savepoint is not None
    [shown] = [entry for entry in view.history if entry.path == view.last_savepoint.path]
    parts = [part for of_vertex in shown.subtasks for part in of_vertex.values()]
    assert shown.written_bytes == sum(part.written_bytes for part in parts)
    assert shown.state_bytes == sum(part.state_bytes for part in parts) > 0


# ------------------------------------------------------------------------------------------------ cancel with savepoint


def test_cancel_with_savepoint_publishes_what_it_covers_and_nothing_behind_it(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path).run({3: [StopMode.CANCEL]})
    assert asked.driver.status is JobStatus.CANCELED
    assert isinstance(asked.driver.result.exception(0), JobCancelledError)
    covered = [epoch for epoch in asked.epochs if epoch.stop is StopMode.NO]
    record = decode_chain_entry(Path(asked.path, "_metadata").read_bytes(), "")
    assert record.checkpoint_id == asked.epochs[-1].checkpoint_id == covered[-1].checkpoint_id + 1
    assert set(published(name).values()) == {1}
    before = dict(published(name))
    assert resumed(name, tmp_path, asked.path).status is JobStatus.FINISHED
    assert published(name) == ALL
    assert 0 < len(before) < len(ALL)


def test_cancel_with_savepoint_shows_the_statuses_of_a_cancel(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path).run({3: [StopMode.CANCEL]})
    statuses = [step.status.name for step in asked.steps if isinstance(step, do.ChangeStatus)]
    assert statuses == ["INITIALIZING", "CREATED", "RUNNING", "CANCELLING", "CANCELED"]


@pytest.mark.parametrize("retention", ["RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"])
def test_latest_after_a_cancel_with_savepoint_goes_on_from_it(name: str, tmp_path: Path, retention: str) -> None:
    asked = Asked(name, tmp_path, retention=retention).run({3: [StopMode.CANCEL]})
    assert asked.kinds[-1] is ChainEntryKind.CANCELED
    assert Asked(name, tmp_path, recover="latest").run({}).driver.status is JobStatus.FINISHED
    assert published(name) == ALL


def test_failure_behind_the_commit_point_of_a_cancel_with_savepoint_is_brought_to_its_end(
    name: str, tmp_path: Path
) -> None:
    asked = Asked(name, tmp_path)
    Unwritable(asked.loop, name=True)
    asked.run({3: [StopMode.CANCEL]})
    assert asked.driver.status is JobStatus.CANCELED
    assert asked.kinds[-1] is ChainEntryKind.CANCELED
    assert resumed(name, tmp_path, asked.path).status is JobStatus.FINISHED
    assert published(name) == ALL


def test_driver_that_was_killed_behind_the_commit_point_leaves_the_cancel_to_the_next(
    name: str, tmp_path: Path
) -> None:
    asked = Asked(name, tmp_path)

    class KilledError(BaseException):
        pass

    def killed(_: Any) -> None:
        raise KilledError

    asked.loop._handlers[do.CompleteSavepoint] = killed
    with pytest.raises(KilledError):
        asked.run({3: [StopMode.CANCEL]})
    again = Asked(name, tmp_path, recover="latest").run({})
    assert again.driver.status is JobStatus.CANCELED
    assert not again.epochs
    assert Asked(name, tmp_path, recover="latest").run({}).driver.status is JobStatus.FINISHED
    assert published(name) == ALL


# ------------------------------------------------------------------------------------------------------------- timeouts


@STOPS
def test_stop_that_takes_too_long_names_the_slow_subtask_and_cancels_the_job(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    asked = Asked(name, tmp_path, World(numbers_job(name), patience=3, stuck=frozenset({3})))
    asked.timeout_ms = 5_000
    asked.run({3: [stop]})
    assert isinstance(asked.error, StopTimeoutError)
    assert asked.error.running == ("Source: numbers (1)",)
    assert "5000 ms" in str(asked.error)
    assert asked.driver.status is JobStatus.CANCELED
    assert asked.driver.checkpoint is not None
    assert Asked(name, tmp_path, recover="latest").run({}).driver.status is JobStatus.FINISHED
    assert published(name) == ALL


def test_stop_in_time_is_not_disturbed_by_its_timeout(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path)
    asked.timeout_ms = 600_000
    assert asked.run({3: [StopMode.SUSPEND]}).driver.status is JobStatus.FINISHED
    assert Path(asked.path).exists()


def test_timeout_of_a_stop_that_was_given_up_cancels_nothing(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path, restart="none")
    asked.timeout_ms = 250  # two epochs and a half: the copy fails behind the second
    Unwritable(asked.loop)
    asked.run({3: [StopMode.SUSPEND]})
    assert "disk full" in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert len(asked.epochs) > 6


@STOPS
def test_stop_that_may_be_stored_already_is_not_given_up_by_its_timeout(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    asked = Asked(name, tmp_path)
    put, times = asked.loop._handlers[do.PutChainEntry], count()

    def without_answer(instruction: Any) -> Any:
        answer = put(instruction)
        is_stop = instruction.entry.kind is ChainEntryKind.CHECKPOINT and instruction.entry.savepoint is not None
        return ev.ChainEntryUncertain(OSError("no answer")) if is_stop and next(times) < 2 else answer

    asked.loop._handlers[do.PutChainEntry] = without_answer
    asked.timeout_ms = 400  # it is over in one of the two pauses
    asked.run({3: [stop]})
    assert next(times) == 3
    assert Path(asked.path).exists()
