"""What a run leaves in the directory of archives: a note while it goes on, and its archive when it has ended."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock._engine.processes.run_notes import RunNote
from penstock._engine.storage.opening import open_storage
from penstock.common.redaction import hiding
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.rest.metric_history import MetricHistory

_log = hiding(logging.getLogger(__name__))

#: Where the archive of a job's earlier run goes: Flink's server reads what is named by a job's id alone.
EARLIER: Final = ".earlier"


class Archivist:
    """Archives the run of one job. A failure is logged: the job does not depend on it.

    Args:
        directory: The directory of archives.
        options: Options of the object store.
        checkpoints: The job's checkpoint directory; None if it is temporary.
        figures: The job's metrics over time.
    """

    def __init__(
        self, directory: str, options: Mapping[str, str], checkpoints: str | None, figures: MetricHistory | None = None
    ) -> None:
        self._directory, self._options = directory, options
        self._checkpoints, self._figures = checkpoints, figures
        self._note: RunNote | None = None

    def job_named(self, job: JobView) -> None:
        """Note the run, so that it is known of even if its driver is killed."""
        self._note = RunNote.of_this_process(job, self._checkpoints)
        try:
            self._note.write(open_storage(self._directory, self._options))
        except CheckpointStorageError as error:
            _log.warning("Job %r will not be in the history if its driver is killed: %s", job.name, error)

    def job_ended(self, job: JobView) -> None:
        """Write the archive of the run; that of another run of the job stays beside it."""
        if not job.job_id:
            return  # it ended before it had an id
        from penstock._engine.rest.archive import archive, run_of  # it loads all handlers

        try:
            storage = open_storage(self._directory, self._options)
            other = storage.find(job.job_id)
            other_run = None if other is None else run_of(other)
            own, place = archive(job, self._figures), job.job_id
            if other is not None and other_run is not None and other_run[0] != job.run_id:
                if other_run[1] > job.started.now_ms:  # this run ended late: the other one has taken its job over
                    place = f"{EARLIER}/{job.job_id}-{job.run_id}"
                else:
                    storage.put(f"{EARLIER}/{job.job_id}-{other_run[0]}", other)
            storage.put(place, own)
            if self._note is not None:
                self._note.remove(storage)
        except CheckpointStorageError as error:
            _log.warning("Job %r could not be archived: %s", job.name, error)
