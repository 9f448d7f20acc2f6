"""A sink's writer goes on with the next epoch where it ran the last one that counts; elsewhere it is made anew."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells
from tests.kit.epochs import EpochFailedError, Job
from tests.kit.program import Program

from penstock._engine.protocol.versioned import unpack
from penstock._engine.runtime.worker_cache import WorkerCache
from penstock.datastream.connectors.base import (
    Committer,
    CommittingSinkWriter,
    Sink,
    SinkWriter,
    StatefulSinkWriter,
    SupportsCommitter,
    SupportsWriterState,
)
from penstock.testing.in_process import Chaos, InProcessEpochRunner

if TYPE_CHECKING:
    from pathlib import Path

#: Each writer that was made, in order; they are found by name, so this is the one list of this process.
MADE: list[LedgerWriter] = []


@pytest.fixture(autouse=True)
def no_writers() -> None:
    MADE.clear()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


class LedgerWriter(StatefulSinkWriter[int, int], CommittingSinkWriter[int, Any]):
    """Numbers all records that count since the job's first, and stages each epoch's below its token."""

    def __init__(self, context: Any, written: int) -> None:
        self.context, self.written = context, written
        self.staged: list[tuple[int, int]] = []
        #: As (checkpoint, token), of each epoch that it flushed.
        self.epochs: list[tuple[int, str]] = []
        self.closed = 0
        MADE.append(self)

    def write(self, element: int, context: Any) -> None:
        self.written += 1
        self.staged.append((self.written, element))

    def flush(self, end_of_input: bool) -> None:
        self.epochs.append((self.context.checkpoint_id, self.context.attempt_token))

    def prepare_commit(self) -> list[Any]:
        staged, self.staged = self.staged, []
        return [(self.context.attempt_token, staged)]

    def snapshot_state(self, checkpoint_id: int) -> list[int]:
        assert checkpoint_id == self.context.checkpoint_id
        return [self.written]

    def close(self) -> None:
        self.closed += 1


class FailingWriter(LedgerWriter):
    def close(self) -> None:
        super().close()
        raise ConnectionError("the server has gone")


class Ledger(Sink[int], SupportsCommitter[Any], SupportsWriterState[int, int]):
    def __init__(self, kind: type[LedgerWriter] = LedgerWriter) -> None:
        self.kind = kind

    def create_writer(self, context: Any) -> LedgerWriter:
        return self.kind(context, 0)

    def restore_writer(self, context: Any, recovered_state: Any) -> LedgerWriter:
        return self.kind(context, sum(recovered_state))

    def create_committer(self, context: Any) -> Committer[Any]:
        raise AssertionError("nothing is committed here")


def ledger_job(program: Program, place: Path, *, kind: type[LedgerWriter] = LedgerWriter, **settings: Any) -> Job:
    program.source(list(range(100))).rebalance().sink_to(Ledger(kind)).uid("ledger")
    return Job(program.graph(), place, **settings)


def committed(job: Job) -> tuple[str, list[tuple[int, int]]]:
    """Return what the last accepted epoch has for the committer: the token and the records staged below it."""
    (data,) = (item for ack in job.acks.values() for part in ack.operators.values() for item in part.committables)
    return Ledger().get_committable_serializer().deserialize(*unpack(data))


def test_a_writer_goes_on_and_is_told_each_checkpoint_and_token(program: Program, tmp_path: Path) -> None:
    job = ledger_job(program, tmp_path)
    for _ in range(3):
        job.epoch(2)
    (writer,) = MADE
    assert [checkpoint for checkpoint, _ in writer.epochs] == [1, 2, 3]
    tokens = [token for _, token in writer.epochs]
    assert tokens == [f"{token:016x}" for _, token in job.history[job.graph.vertices[-1].id, 0]]
    assert (writer.written, writer.closed) == (6, 0)


def test_a_writer_of_a_void_epoch_is_dropped_and_another_made_from_the_last_state(
    program: Program, tmp_path: Path
) -> None:
    job = ledger_job(program, tmp_path)
    job.epoch(2)
    job.try_epoch(5)
    job.epoch(2)
    first, second = MADE
    assert (first.written, first.closed) == (7, 1)
    assert (second.written, [checkpoint for checkpoint, _ in second.epochs]) == (4, [2])
    assert second.epochs[0] not in first.epochs, "each attempt has a token of its own"


def test_a_writer_that_another_worker_has_overtaken_is_dropped(program: Program, tmp_path: Path) -> None:
    job = ledger_job(program, tmp_path)
    job.epoch(2)
    here, elsewhere = job.runner.workers, [WorkerCache()]
    job.runner.workers = elsewhere
    job.epoch(2)
    job.runner.workers = here
    job.epoch(2)
    first, second, third = MADE
    assert [writer.written for writer in MADE] == [2, 4, 6]
    assert (first.closed, second.closed, third.closed) == (1, 0, 0)
    job.runner.workers = elsewhere
    job.epoch(2)
    assert MADE[-1].written == 8
    assert second.closed == 1


def test_a_dropped_writer_that_fails_to_close_fails_nothing(program: Program, tmp_path: Path) -> None:
    job = ledger_job(program, tmp_path, kind=FailingWriter)
    job.epoch(2)
    here = job.runner.workers
    job.runner.workers = [WorkerCache()]
    job.epoch(2)
    job.runner.workers = here
    job.epoch(2)
    job.try_epoch(2)
    job.epoch(2)
    assert [writer.written for writer in MADE] == [2, 4, 8, 8]
    assert [writer.closed for writer in MADE] == [1, 0, 1, 0]
    assert any("failed to close" in line.message for line in job.log)


def test_a_job_that_starts_again_has_writers_made_from_the_state(program: Program, tmp_path: Path) -> None:
    job = ledger_job(program, tmp_path)
    job.epoch(2)
    again = job.restarted()
    again.epoch(2)
    first, second = MADE
    assert (first.closed, second.written) == (1, 4)


def test_a_writer_is_closed_once_the_job_has_ended(program: Program, tmp_path: Path) -> None:
    ledger_job(program, tmp_path).run(40)
    (writer,) = MADE
    assert (writer.written, writer.closed) == (100, 1)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_becomes_of_attempts_each_record_is_numbered_once(program: Program, tmp_path: Path, seed: int) -> None:
    runner = InProcessEpochRunner(workers=2, seed=seed, chaos=Chaos(retries=0.2))
    job, chance = ledger_job(program, tmp_path, runner=runner), random.Random(seed)
    records, tokens = list[tuple[int, int]](), list[str]()
    while not job.finished:
        if chance.random() < 0.3:
            job.try_epoch(chance.randint(1, 9))
        job.epoch(chance.randint(1, 9))
        token, staged = committed(job)
        tokens.append(token)
        records += staged
    assert records == [(number + 1, number) for number in range(100)]
    assert tokens == [f"{token:016x}" for _, token in job.history[job.graph.vertices[-1].id, 0]]
    flushed = [epoch for writer in MADE for epoch in writer.epochs]
    assert len(set(flushed)) == len(flushed) > len(tokens), "each attempt has a token of its own"
    assert len(MADE) < len(flushed), "some writers have gone on"


class Plain(SinkWriter[int]):
    """A writer with the method of a committing one, which it does not say."""

    def __init__(self, *_: Any) -> None: ...

    def write(self, element: int, context: Any) -> None: ...

    def flush(self, end_of_input: bool) -> None: ...

    def prepare_commit(self) -> list[int]:
        return [1]


class Committing(Plain, CommittingSinkWriter[int, int]): ...


class Stateful(Plain, StatefulSinkWriter[int, int]):
    def snapshot_state(self, checkpoint_id: int) -> list[int]:
        return []


class Both(Committing, Stateful): ...


class Writing(Sink[int]):
    def __init__(self, kind: type[SinkWriter[int]]) -> None:
        self.kind = kind

    def create_writer(self, context: Any) -> SinkWriter[int]:
        return self.kind()

    def create_committer(self, context: Any) -> Any: ...

    def restore_writer(self, context: Any, recovered_state: Any) -> Any: ...


class WritingCommitted(Writing, SupportsCommitter[int]): ...


class WritingWithState(Writing, SupportsWriterState[int, int]): ...


@cells(
    "sink, wanted",
    [
        (WritingCommitted(Plain), "a CommittingSinkWriter, as the sink has a committer"),
        (Writing(Committing), "no CommittingSinkWriter, as the sink is no SupportsCommitter"),
        (WritingWithState(Plain), "a StatefulSinkWriter, as the sink is a SupportsWriterState"),
        (Writing(Stateful), "no StatefulSinkWriter, as the sink is no SupportsWriterState"),
        (WritingCommitted(Both), "no StatefulSinkWriter"),
        (WritingWithState(Both), "no CommittingSinkWriter"),
    ],
)
def test_a_writer_of_another_kind_than_its_sink_is_an_error_and_loses_nothing_in_silence(
    tmp_path: Path, sink: Writing, wanted: str
) -> None:
    program = Program(tmp_path)
    program.source([1, 2, 3]).sink_to(sink).uid("sink")
    with pytest.raises(EpochFailedError, match=f"create_writer.. of {type(sink).__name__} returned .*{wanted}"):
        Job(program.graph(), tmp_path).epoch(2)
