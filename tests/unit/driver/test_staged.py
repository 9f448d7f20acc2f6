"""What writers stage in the checkpoint storage: committers read it, and it goes when it is committed or void."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.without_spark import Cluster

from penstock._engine.driver.epochs.committers import StagedFiles
from penstock._engine.protocol.paths import staged_directory, staged_path
from penstock._engine.runtime import edge_writer
from penstock._engine.savepoints.leftovers import find_leftovers
from penstock._engine.savepoints.survey import LeftoverKind, LeftoverPlaces
from penstock._engine.storage.opening import open_storage
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import (
    Committer,
    CommittingSinkWriter,
    Sink,
    SupportsCommitter,
    TransactionalSink,
)
from penstock.testing.in_process import Chaos

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from penstock._engine.storage.checkpoint_storage import FileStorage
    from penstock.datastream.connectors.base import (
        CheckpointTransaction,
        CommitRequest,
        CommitterInitContext,
        SinkWriterContext,
        WriterInitContext,
    )

JOB, RUN, EARLIER, OTHER = ("0" * 32, "a" * 32, "b" * 32, "c" * 32)


class StagingSink(Sink[str], SupportsCommitter[str]):
    """Appends staged lines to a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def create_writer(self, context: WriterInitContext) -> StagingWriter:
        return StagingWriter(context)

    def create_committer(self, context: CommitterInitContext) -> AppendingCommitter:
        return AppendingCommitter(self.target, context)


class StagingWriter(CommittingSinkWriter[str, str]):
    def __init__(self, context: WriterInitContext) -> None:
        self.context = context
        self.lines: list[str] = []
        self.names: list[str] = []

    def write(self, element: str, context: SinkWriterContext) -> None:
        self.lines.append(f"{element}\n")

    def flush(self, end_of_input: bool) -> None:
        if self.lines:
            self.names.append(self.context.stage("".join(self.lines).encode()))
            assert self.context.attempt_token in self.names[-1]
        self.lines = []

    def prepare_commit(self) -> list[str]:
        names, self.names = self.names, []
        return names


class AppendingCommitter(Committer[str]):
    def __init__(self, target: Path, context: CommitterInitContext) -> None:
        self.target, self.context = target, context

    def commit(self, requests: Collection[CommitRequest[str]]) -> None:
        for request in requests:
            data = self.context.read_staged(request.get_committable())
            assert data is not None
            with self.target.open("ab") as file:
                file.write(data)


class WritingSink(TransactionalSink[str]):
    """Has a file of lines for each transaction, and a file of all."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def write_transaction(self, transaction: CheckpointTransaction, records: Iterable[str]) -> None:
        part = self.target.with_name(f"part-{transaction.id}")
        if not part.exists():
            part.write_text("".join(f"{record}\n" for record in records))
            with self.target.open("a") as file:
                file.write(part.read_text())


@pytest.mark.parametrize(("sink", "seed"), [(StagingSink, 0), (StagingSink, 1), (WritingSink, 0)])
def test_staged_data_is_committed_once_and_nothing_of_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sink: Any, seed: int
) -> None:
    monkeypatch.setattr("penstock._api.connectors.transactional._STAGED_BYTES", 1)  # each block is staged alone
    monkeypatch.setattr(edge_writer, "_FIRST_BLOCK_RECORDS", 5)
    monkeypatch.setattr(edge_writer, "_BLOCK_RECORDS", 5)
    cluster = Cluster(tmp_path, chaos=Chaos(retries=0.3, losses=0.1), seed=seed)
    cluster.patch(monkeypatch)
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(tmp_path / "checkpoints"))
    configuration.set_string("restart-strategy.type", "fixed-delay")
    configuration.set_string("restart-strategy.fixed-delay.attempts", "100")
    configuration.set_string("restart-strategy.fixed-delay.delay", "1 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.from_collection([str(number) for number in range(100)]).rebalance().sink_to(sink(tmp_path / "out"))
    env.execute("staging")
    lines = (tmp_path / "out").read_text().split()
    assert sorted(map(int, lines)) == list(range(100))
    left = [path for path in (tmp_path / "checkpoints").rglob("staged/*") if path.is_file()]
    assert left == []


def test_files_are_found_where_the_directory_was_moved_to_and_those_of_other_runs_stay(tmp_path: Path) -> None:
    here = open_storage(str(tmp_path / "here"))
    there = open_storage(str(tmp_path / "there"))

    def put(storage: FileStorage, run: str, checkpoint: int, number: int = 0) -> str:
        path = staged_path(
            JOB,
            run,
            "sink",
            (
                0,
                checkpoint,
                9,
            ),
            number,
        )
        storage.put(path, f"{run[0]}{checkpoint}".encode())
        return path

    moved, own, elsewhere, other = put(here, EARLIER, 3), put(here, RUN, 4), put(there, OTHER, 4), put(here, OTHER, 3)
    void, later = put(here, RUN, 4, 1), put(here, RUN, 5)
    another_sink = staged_path(JOB, RUN, "sink 2", (0, 1, 9), 0)
    here.put(another_sink, b"")
    staged = StagedFiles(here, JOB, "sink", (EARLIER, RUN))
    assert staged.read(f"/gone/{moved}") == b"b3"
    assert staged.read(here.full_path(own)) == b"a4"
    assert staged.read(there.full_path(elsewhere)) == b"c4"
    assert staged.read(here.full_path(other)) == b"c3"
    assert staged.read(here.full_path(staged_path(JOB, RUN, "sink", (7, 7, 7), 7))) is None
    staged.delete_read()
    assert [file.path for file in here.files(staged_directory(JOB))] == sorted([other, void, later, another_sink])
    staged.sweep_once(4)
    assert [file.path for file in here.files(staged_directory(JOB))] == sorted([other, later, another_sink])
    assert there.find(elsewhere) is not None


def test_what_was_read_for_a_commit_that_failed_stays(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    path = staged_path(JOB, RUN, "sink", (0, 1, 9), 0)
    storage.put(path, b"data")
    staged = StagedFiles(storage, JOB, "sink", (RUN,))
    assert staged.read(storage.full_path(path)) == b"data"
    staged.forget_read()
    staged.delete_read()
    assert storage.find(path) == b"data"


class _Never(AppendingCommitter):
    def commit(self, requests: Collection[CommitRequest[str]]) -> None:
        raise OSError("the target is down")


class _NeverSink(StagingSink):
    def create_committer(self, context: CommitterInitContext) -> _Never:
        return _Never(self.target, context)


def test_staged_data_of_a_failed_job_stays_until_its_checkpoint_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later start from the checkpoint commits it; what void attempts have left is a leftover."""
    Cluster(tmp_path).patch(monkeypatch)
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(tmp_path / "checkpoints"))
    configuration.set_string("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION")

    def run(sink: Sink[Any]) -> None:
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.from_collection(["a", "b"]).sink_to(sink)
        env.execute("staging")

    with pytest.raises(Exception, match="the target is down"):
        run(_NeverSink(tmp_path / "out"))
    [file] = [path for path in (tmp_path / "checkpoints").rglob("staged/*") if path.is_file()]
    void = file.with_name(file.name.rpartition("-")[0] + "-77")
    void.write_bytes(b"void")
    places = LeftoverPlaces((str(tmp_path / "checkpoints"),), local=False)
    found = find_leftovers(places, min_age_ms=-60_000).leftovers
    assert [one.path for one in found if one.kind is LeftoverKind.STAGED_DATA] == [str(void)]
    configuration.set_string("execution.state-recovery.path", "latest")
    run(StagingSink(tmp_path / "out"))
    assert (tmp_path / "out").read_text().split() == ["a", "b"]
