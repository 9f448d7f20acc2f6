"""Lists the stored results of a batch job, and what its tasks say of finished subtasks."""

from __future__ import annotations

import logging
import re
import threading
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.stages.tracker import PartitionWithMetrics
from penstock._engine.protocol.control import SubtaskAck, decode
from penstock._engine.protocol.paths import finished_directory, results_directory
from penstock._engine.protocol.signing import unseal
from penstock.errors import CheckpointStorageError, CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.storage.checkpoint_storage import FileStorage

_log = logging.getLogger(__name__)

#: The name of a file of a result, see `protocol.paths.result_path`.
_RESULT: Final = re.compile(r"([^-]+)-(\d+)-(\d+)-([0-9a-f]{16})-(\d+)")


class ResultPartitions:
    """The stored results of jobs. Source: the part of Flink's ``ShuffleMaster`` that FLIP-383 adds.

    Args:
        storage: Where they are.
    """

    def __init__(self, storage: FileStorage) -> None:
        self._storage = storage

    def get_all_partition_with_metrics(self, job_id: str) -> list[PartitionWithMetrics]:
        """Return all results of a job, of all its runs and attempts, with their sizes."""
        sizes: dict[tuple[str, int, int, int], list[tuple[int, int]]] = {}
        for file in self._storage.files(results_directory(job_id)):
            found = _RESULT.fullmatch(file.path.rpartition("/")[2])
            if found is not None:
                run, vertex, subtask, token, number = found.groups()
                name = run, int(vertex), int(subtask), int(token, 16)
                sizes.setdefault(name, []).append((int(number), file.size))
        return [PartitionWithMetrics(*name, tuple(sorted(files))) for name, files in sizes.items()]

    def list_partitions(self, instruction: do.ListPartitions) -> ev.Event:
        """List the results of a job."""
        try:
            return ev.PartitionsListed(tuple(self.get_all_partition_with_metrics(instruction.job_id)))
        except CheckpointStorageError as error:
            return ev.PartitionsListed((), error)


class SubtaskAnnouncements:
    """Looks for the announcements of finished subtasks while a stage runs.

    Args:
        mailbox: Takes the acks.
        storage: Where tasks put them.
        background: Looks.
        every_ms: How often.
        run_id: The run.
        key: The key that seals them.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        storage: FileStorage,
        *,
        background: BackgroundExecutor,
        every_ms: int,
        run_id: str,
        key: bytes,
    ) -> None:
        self._run_id, self._key, self._every_ms = run_id, key, every_ms
        self._mailbox, self._storage, self._background = mailbox, storage, background
        self._seen: set[str] = set()
        #: The running stage: the job, and its restarts.
        self._stage: tuple[str, int] | None = None
        self._is_looking = False
        #: Guards these two: a stage may begin while a look finds out that there is none.
        self._lock = threading.Lock()

    def begin(self, job_id: str, job_attempt: int) -> None:
        """Look from now on."""
        with self._lock:
            self._stage = job_id, job_attempt
            is_looking, self._is_looking = self._is_looking, True
        if not is_looking:
            self._background.later(self._every_ms, self._look_again)

    def end(self) -> None:
        """Stop looking: the stage has ended."""
        self._stage = None

    def _look_again(self) -> None:
        with self._lock:
            stage = self._stage
            self._is_looking = stage is not None
        if stage is None:
            return
        acks: list[SubtaskAck] = []
        try:
            for ack in self._look(*stage):
                acks.append(ack)  # noqa: PERF402 - those before an error count
        except CheckpointStorageError as error:
            _log.debug("Not all finished subtasks are known yet: %s", error)
        if acks and stage == self._stage:
            self._mailbox.post(ev.SubtasksFinished(stage[1], tuple(acks)))
        self._background.later(self._every_ms, self._look_again)

    def _look(self, job_id: str, job_attempt: int) -> Iterator[SubtaskAck]:
        """Iterate what new announcements say; one that cannot be read now is looked at again."""
        directory, mine = finished_directory(job_id), f"{self._run_id}-{job_attempt}-"
        for name in self._storage.names(directory):
            path = f"{directory}/{name}"
            if not name.startswith(mine) or name in self._seen:
                continue
            sealed = self._storage.find(path)
            if sealed is None:
                continue
            self._seen.add(name)
            try:
                yield decode(unseal(sealed, self._key, path, self._storage.full_path(path)), SubtaskAck)
            except CorruptCheckpointError as error:
                _log.debug("An announcement is not used: %s", error)
