"""The files that a batch job has beside its checkpoints: results, events, announcements; and their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.driver.stages.event_store import JobEventStore
from penstock._engine.driver.stages.partitions import ResultPartitions, SubtaskAnnouncements
from penstock._engine.protocol.paths import finished_directory, results_directory, run_of_file
from penstock._engine.storage.opening import open_storage
from penstock.common import batch_options

if TYPE_CHECKING:
    from penstock._engine.coordinator.job import JobCoordinator
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.storage.checkpoint_storage import FileStorage
    from penstock.common.configuration import Configuration

#: Finished subtasks are looked for so often in an interval, so that there is time to store them before it is over; but
#: at most and at least this often: what a look finds is also stored when it fills the write buffer, within a stage.
_LOOKS: Final = 2
_SHORTEST_LOOK_MS: Final = 100
_LONGEST_LOOK_MS: Final = 500


class StageFiles:
    """The files of one batch job's stages; without recovery they are results in the checkpoint storage.

    Args:
        storage: The checkpoint storage.
        configuration: The job's configuration.
        mailbox: The inbox of the loop.
        background: The other threads.
        recovers: Whether another driver goes on with the job if this one is lost.
    """

    def __init__(
        self,
        storage: FileStorage,
        configuration: Configuration,
        mailbox: Mailbox,
        background: BackgroundExecutor,
        *,
        recovers: bool,
    ) -> None:
        own = configuration.get(batch_options.HA_STORAGE) if recovers else None
        self.storage = storage if own is None else open_storage(own, storage.options)
        if self.storage is not storage:
            self.storage.probe()
        self.recovers = recovers
        self._mailbox = mailbox
        self._background = background
        self._flush_ms = configuration.get(batch_options.EVENT_FLUSH_INTERVAL).to_millis()
        self.partitions = ResultPartitions(self.storage)
        self.job_events = JobEventStore(
            self.storage,
            mailbox,
            background,
            buffer_bytes=configuration.get(batch_options.EVENT_BUFFER_SIZE),
            flush_ms=self._flush_ms,
        )

    def finished_subtasks(self, run_id: str, key: bytes) -> SubtaskAnnouncements | None:
        """Return what looks for finished subtasks; None without recovery."""
        if not self.recovers:
            return None
        every_ms = min(max(self._flush_ms // _LOOKS, _SHORTEST_LOOK_MS), _LONGEST_LOOK_MS)
        return SubtaskAnnouncements(
            self._mailbox, self.storage, background=self._background, every_ms=every_ms, run_id=run_id, key=key
        )

    def clean_up(self, coordinator: JobCoordinator) -> None:
        """Delete the files at the end of a driver, unless another one may go on with them."""
        if not self.recovers or coordinator.has_ended_for_good:
            delete_of_runs(self.storage, coordinator, results_directory(coordinator.job_id))
            delete_of_runs(self.storage, coordinator, finished_directory(coordinator.job_id))
        if self.recovers:  # last: a start that finds events knows that the program has not heard of the job's end
            self.job_events.close(coordinator.job_id if coordinator.has_ended_for_good else "")


def delete_of_runs(storage: FileStorage, coordinator: JobCoordinator, directory: str) -> None:
    """Delete the files of a directory that the runs of the job have written, the killed ones among them."""
    if runs := coordinator.runs:
        names = [name for name in storage.names(directory) if run_of_file(name) in runs]
        storage.delete([f"{directory}/{name}" for name in names])
