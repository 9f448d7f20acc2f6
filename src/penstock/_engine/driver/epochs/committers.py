"""Runs the sinks' committers, which are user code, beside the main loop."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from penstock._api.connectors.committer import SupportsGlobalCommitter
from penstock._api.connectors.sink import SupportsCommitter
from penstock._engine.coordinator import events as ev
from penstock._engine.driver.epochs.committables import commit_failed, contents_of, lines_of, not_committing
from penstock._engine.driver.failures import driver_code_error
from penstock._engine.protocol.committables import committable_ids
from penstock._engine.protocol.metadata import GivenUp
from penstock._engine.protocol.paths import checkpoint_of_staged, staged_directory, staged_prefix
from penstock._engine.protocol.versioned import pack, unpack
from penstock._engine.savepoints.located import absolute
from penstock._engine.storage.opening import open_storage
from penstock.common import option_table
from penstock.common.interrupts import is_interrupt
from penstock.common.redaction import hiding, shown_text
from penstock.common.user_values import short_repr
from penstock.errors import CheckpointStorageError, CommitFailedError, ConfigurationError
from penstock.metrics.in_memory import InMemoryMetricGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._api.connectors.committer import Committer, GlobalCommitter, HasCommittables, ReadsCommittables
    from penstock._engine.coordinator import instructions as do
    from penstock._engine.coordinator.checkpoints.chain import ChainWriter
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.protocol.metadata import Committable, OutstandingCommit
    from penstock._engine.storage.checkpoint_storage import FileStorage


_log = hiding(logging.getLogger(__name__))

#: The names of a staged file's path below the checkpoint directory: job, "staged", file.
_DEPTH: Final = 3


class StagedFiles:
    """The staged files of one sink, as the committer's context and the engine use them.

    Args:
        storage: The checkpoint storage of the job.
        job_id: The job.
        uid: The sink.
        runs: The runs that the job consists of; files of others are read, and never deleted.
    """

    def __init__(self, storage: FileStorage, job_id: str, uid: str, runs: Iterable[str]) -> None:
        self._storage = storage
        self._directory = staged_directory(job_id)
        self._own = tuple(staged_prefix(job_id, run, uid) for run in runs)
        self._read: list[str] = []
        self._swept = False

    def read(self, name: str) -> bytes | None:
        """Return a file, first by its place below this job's checkpoint directory, which may have been moved."""
        inner = "/".join(name.split("/")[-_DEPTH:])
        data = self._storage.find(inner)
        if data is not None:
            self._read.append(inner)
            return data
        root = name.removesuffix(inner).rstrip("/")
        if not root or root == self._storage.full_path("").rstrip("/"):
            return None
        return open_storage(root, self._storage.options).find(inner)

    def delete_read(self) -> None:
        """Delete the files that were read since the last call; the commit that needed them is done."""
        files, self._read = self._read, []
        self._delete(file for file in files if file.startswith(self._own))

    def forget_read(self) -> None:
        """Keep the files that were read since the last call: their commit failed, or is tried again."""
        self._read = []

    def sweep_once(self, checkpoint_id: int) -> None:
        """Delete what void attempts have staged up to a committed checkpoint; done once, as it lists a directory."""
        if not self._swept:
            self._swept = True
            self.sweep(checkpoint_id)

    def sweep(self, checkpoint_id: int) -> None:
        """Delete all that was staged up to a committed checkpoint."""
        try:
            files = [f"{self._directory}/{name}" for name in self._storage.names(self._directory)]
        except CheckpointStorageError as error:
            _log.warning("Staged files of failed attempts stay: %s", error)
            return
        self._delete(
            file for file in files if file.startswith(self._own) and checkpoint_of_staged(file) <= checkpoint_id
        )

    def _delete(self, files: Iterable[str]) -> None:
        found = list(files)
        if not found:
            return
        try:
            self._storage.delete(found)
        except CheckpointStorageError as error:
            _log.warning("Staged files that were committed stay: %s", error)


#: Metrics of committables. Source: Flink's SinkCommitterMetricGroup.
_COUNTED: Final = (
    "totalCommittables",
    "successfulCommittables",
    "alreadyCommittedCommittables",
    "failedCommittables",
    "retriedCommittables",
)


@dataclass(frozen=True, slots=True)
class CommitterContext:
    """The context of a committer: implements the connectors' ``CommitterInitContext``."""

    metric_group: InMemoryMetricGroup
    job_id: str
    operator_uid: str
    restored_checkpoint_id: int | None
    run_id: str
    earlier_runs: tuple[str, ...]
    staged: StagedFiles

    def read_staged(self, name: str) -> bytes | None:
        """Return what a writer has staged; None if it is gone."""
        return self.staged.read(name)


class PendingCommitRequest:
    """One committable to publish: implements the connectors' ``CommitRequest``."""

    def __init__(
        self, checkpoint_id: int, subtask_id: int, committable: Any, retries: int, *, may_be_committed: bool
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.subtask_id = subtask_id
        self.may_be_committed = may_be_committed
        self.put_off = False
        self.already = False
        self.changed = False
        self.unknown_failure: BaseException | None = None
        self.known_failure: BaseException | None = None
        self._committable = committable
        self._retries = retries

    def get_committable(self) -> Any:
        """Return the committable."""
        return self._committable

    def get_number_of_retries(self) -> int:
        """Return how often it was postponed."""
        return self._retries

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """Give it up."""
        self.known_failure = error

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """Fail the job."""
        self.unknown_failure = error

    def retry_later(self) -> None:
        """Postpone it."""
        self.put_off = True

    def update_and_retry_later(self, committable: Any) -> None:
        """Postpone a part of it."""
        self._committable = committable
        self.put_off = self.changed = True

    def signal_already_committed(self) -> None:
        """Count it as committed, which is also the default."""
        self.put_off, self.already = False, True

    @property
    def outcome(self) -> str:
        """The metric that counts it. Source: Flink's CommitRequestImpl and MetricNames."""
        if self.unknown_failure is not None or self.known_failure is not None:
            return "failedCommittables"
        if self.put_off:
            return "retriedCommittables"
        return "alreadyCommittedCommittables" if self.already else "successfulCommittables"


class _Publishers:
    """The committer and the global committer of one sink; a sink has one of them, or both."""

    def __init__(self, sink: HasCommittables[Any], context: CommitterContext) -> None:
        self.serializer = sink.get_committable_serializer()
        self._metrics, self._newest = context.metric_group, 0
        for name in _COUNTED:  # so that those of which there is none are seen as well
            self._metrics.counter(name)
        self._committer: Committer[Any] | None = None
        self._global: GlobalCommitter[Any] | None = None
        if isinstance(sink, SupportsCommitter):
            self._committer = sink.create_committer(context)
        if isinstance(sink, SupportsGlobalCommitter):
            self._global = sink.create_global_committer(context)

    @property
    def readers(self) -> list[ReadsCommittables[Any]]:
        """What may tell of a committable."""
        return [one for one in (self._committer, self._global) if one is not None]

    def commit(self, requests: list[PendingCommitRequest]) -> None:
        """Publish one checkpoint: first by the committer, and then as a whole by the global one."""
        if self._committer is not None:
            self._committer.commit(requests)
        if self._global is None or any(request.unknown_failure is not None for request in requests):
            return
        left = [request for request in requests if request.known_failure is None]
        if left and not any(request.put_off for request in left):
            self._global.commit(left)
        if any(request.put_off for request in left):
            for request in left:  # the global committer gets a checkpoint as a whole, or not at all
                request.put_off = request.known_failure is None

    def count(self, requests: list[PendingCommitRequest]) -> Mapping[str, float]:
        """Count what came of the committables of a checkpoint, and return all metrics of the committers."""
        checkpoint_id = requests[0].checkpoint_id if requests else 0
        if checkpoint_id > self._newest:
            self._newest = checkpoint_id
            self._metrics.counter("totalCommittables").inc(len(requests))
        for name, number in Counter(request.outcome for request in requests).items():
            self._metrics.counter(name).inc(number)
        return self._metrics.figures()

    def close(self) -> None:
        try:
            if self._committer is not None:
                self._committer.close()
        finally:
            if self._global is not None:
                self._global.close()


class Committers:
    """Performs the commits.

    Args:
        sinks: By uid: its name and the sink.
        mailbox: Passes the answers to the loop.
        background: Runs the committers.
        storage: The checkpoint storage, in which writers stage.
    """

    def __init__(
        self,
        sinks: Mapping[str, tuple[str, HasCommittables[Any]]],
        mailbox: Mailbox,
        background: BackgroundExecutor,
        storage: FileStorage,
    ) -> None:
        self._sinks = sinks
        self._mailbox = mailbox
        self._background = background
        self._publishers: dict[str, _Publishers] = {}
        self._storage = storage
        #: By sink, what its writers have staged, and the last checkpoint that its committer has committed.
        self._staged: dict[str, StagedFiles] = {}
        self._committed: dict[str, int] = {}

    def commit(self, instruction: do.Commit, chain: ChainWriter, restored_checkpoint_id: int | None) -> None:
        """Publish one checkpoint of one sink in the background."""
        commit, metrics, uid = instruction.commit, InMemoryMetricGroup(), instruction.commit.uid
        if uid not in self._sinks:
            self._mailbox.post(ev.CommitFailed(uid, not_committing(commit)))
            return
        *earlier, run_id = chain.runs
        if uid not in self._staged:
            self._staged[uid] = StagedFiles(self._storage, chain.job_id, uid, chain.runs)
        staged = self._staged[uid]
        context = CommitterContext(metrics, chain.job_id, uid, restored_checkpoint_id, run_id, tuple(earlier), staged)

        def work() -> None:
            try:
                answer = self._commit(instruction, context)
                self._tidy(commit, is_done=not answer.retry)
            except BaseException as error:  # whatever user code raises fails the job
                if is_interrupt(error):
                    raise
                staged.forget_read()
                if not isinstance(error, CommitFailedError):
                    error = driver_code_error(self._where(commit), error)
                self._mailbox.post(ev.CommitFailed(commit.uid, error))
            else:
                self._mailbox.post(answer)

        self._background.run(work)

    def _where(self, commit: OutstandingCommit) -> str:
        name, _ = self._sinks[commit.uid]
        return f"the committer of {name!r} (uid {commit.uid!r}), checkpoint {commit.checkpoint_id}"

    def hand_over(self, instruction: do.HandOverRecords) -> ev.Event:
        """Write the records of committables that are given up into files, before the job is taken over.

        Raises:
            DriverCodeError: Their committer cannot read them.
            ConfigurationError: There is a file already, and it has something else.
            CheckpointStorageError: A file cannot be written.
        """
        for path, commit in instruction.files.items():
            if commit.uid not in self._sinks:
                self._write(path, lines_of((), None, commit))
                continue
            _, sink = self._sinks[commit.uid]
            *earlier, run_id = instruction.runs
            staged = StagedFiles(self._storage, instruction.job_id, commit.uid, instruction.runs)
            context = CommitterContext(
                *(InMemoryMetricGroup(), instruction.job_id, commit.uid, instruction.restored_checkpoint_id),
                *(run_id, tuple(earlier), staged),
            )
            publishers = _Publishers(sink, context)
            try:
                committable = publishers.serializer.deserialize(*unpack(commit.committables[0].payload))
                lines = [*lines_of(publishers.readers, committable, commit)]
            except Exception as error:
                raise driver_code_error(self._where(commit), error) from error
            finally:
                publishers.close()
            self._write(path, lines)
        return ev.RecordsHandedOver()

    def _write(self, path: str, lines: Iterable[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        directory, _, name = absolute(path).rpartition("/")
        storage = open_storage(directory, self._storage.options)
        if not storage.put_if_absent(name, data) and storage.find(name) != data:
            reason = "there is a file of that name, with something else in it"
            raise ConfigurationError(option_table.COMMITTABLES.key, path, reason)

    def _commit(self, instruction: do.Commit, context: CommitterContext) -> ev.Committed:
        """Call the committers, and return what came of each committable.

        Raises:
            CommitFailedError: They raised, or gave a committable up for an unknown reason.
        """
        commit = instruction.commit
        name, sink = self._sinks[commit.uid]
        if commit.uid not in self._publishers:
            self._publishers[commit.uid] = _Publishers(sink, context)
        publishers = self._publishers[commit.uid]
        serializer = publishers.serializer
        requests = [
            PendingCommitRequest(
                commit.checkpoint_id,
                item.subtask,
                serializer.deserialize(*unpack(item.payload)),
                item.retries,
                may_be_committed=instruction.may_be_done and id_ not in instruction.anew,
            )
            for id_, item in zip(committable_ids(commit), commit.committables, strict=True)
        ]
        try:
            publishers.commit(requests)
        except BaseException as error:
            if is_interrupt(error):
                raise
            raise self._failed(commit, requests, error) from error
        counted = publishers.count(requests)
        failure = next(filter(None, (request.unknown_failure for request in requests)), None)
        if failure is not None:
            raise self._failed(commit, requests, failure) from failure
        put_off: list[Committable] = []
        committed: list[Committable] = []
        given_up: list[GivenUp] = []
        for item, request in zip(commit.committables, requests, strict=True):
            if request.known_failure is not None:
                number, reason = commit.checkpoint_id, shown_text(short_repr(request.known_failure))
                given_up.append(GivenUp(commit.uid, name, number, number, 1, reason))
            elif request.put_off:
                payload = item.payload
                if request.changed:
                    payload = pack(serializer.get_version(), serializer.serialize(request.get_committable()))
                put_off.append(replace(item, payload=payload, retries=item.retries + 1))
            else:
                committed.append(item)
        if given_up:
            _log.error(
                "The committer of sink %r (uid %r) gave up %d of %d committables of checkpoint %d for good; their "
                "records are in no output: %s",
                *(name, commit.uid, len(given_up), len(requests), commit.checkpoint_id, given_up[0].reason),
            )
        return ev.Committed(commit.uid, tuple(put_off), tuple(given_up), counted, tuple(committed))

    def _failed(
        self, commit: OutstandingCommit, requests: list[PendingCommitRequest], error: BaseException
    ) -> Exception:
        """Return the error about the committables that the committer has named, or else about all that are open."""
        named = [place for place, request in enumerate(requests) if request.unknown_failure is not None]
        places = named or [place for place, request in enumerate(requests) if not request.already]
        readers = self._publishers[commit.uid].readers
        contents = contents_of(readers, requests[places[0]].get_committable()) if places else "nothing"
        return commit_failed(self._where(commit), error, commit, places, contents, named=bool(named))

    def _tidy(self, commit: OutstandingCommit, *, is_done: bool) -> None:
        """Delete what was staged for a commit that is done; with the first one, also what void attempts have left."""
        staged = self._staged[commit.uid]
        if not is_done:
            staged.forget_read()
            return
        staged.delete_read()
        staged.sweep_once(commit.checkpoint_id)
        self._committed[commit.uid] = commit.checkpoint_id

    def close(self) -> None:
        """Close all committers at the end of the driver."""
        for uid, checkpoint_id in self._committed.items():
            self._staged[uid].sweep(checkpoint_id)
        for uid, publishers in self._publishers.items():
            try:
                publishers.close()
            except Exception:  # noqa: BLE001 - the job has ended, and the others are to be closed, too
                _log.warning("The committer of %r failed to close", self._sinks[uid][0], exc_info=True)
