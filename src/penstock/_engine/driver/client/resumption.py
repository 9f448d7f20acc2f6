"""Keeps a note of the jobs that a supervised program has started, so that its next process resumes each of them.

`penstock run --supervise` names a file (`processes.supervision_note`). Every job is noted there after its takeover;
from then on it resumes from its newest checkpoint, and not from the one that the program or the command line named. A
job that was cancelled or stopped meanwhile stays so. A job is identified by its name and, among several of one name, by
its place among the jobs of the program, which is the same program each time.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock._engine.coordinator.settings import LATEST, EarlierRun
from penstock._engine.processes.supervision_note import NotedJob, SupervisionNote
from penstock.common import option_table
from penstock.common.config_loading import RESUME_VARIABLE
from penstock.common.configuration import Configuration
from penstock.common.job_status import JobStatus
from penstock.errors import MissingRecordsError, SupervisionNoteError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.gateway.job_control import JobControl
    from penstock._engine.gateway.progress import JobFailure, JobProgress, JobStatusListener

_log = logging.getLogger("penstock")

#: How an earlier run is known, and what takes the place of a directory that is not set any more.
_NOTED: Final = "an earlier process of this supervised program has run it"
_NOWHERE: Final = "a temporary directory (execution.checkpointing.dir is not set any more)"


class Resumption:
    """Notes the jobs of this process, and finds those of earlier processes.

    Args:
        note: The note; the supervisor has made it.

    Raises:
        SupervisionNoteError: The note is missing or damaged, so jobs of earlier processes may be unknown.
    """

    def __init__(self, note: SupervisionNote) -> None:
        self._note = note
        self._jobs = note.read()
        #: The jobs of earlier processes that have not been resumed yet.
        self._before = dict(self._jobs)
        self._submitted = 0
        self._lock = threading.Lock()

    def next_job(self, job_name: str, configuration: Configuration) -> tuple[Configuration, ResumableJob]:
        """Take the next job of the program.

        Args:
            job_name: The job.
            configuration: Its configuration.

        Returns:
            Its effective configuration, and its place.

        Raises:
            MissingRecordsError: An earlier process has kept its checkpoints, and there is no directory for them now.
        """
        is_kept = configuration.get(option_table.CHECKPOINT_DIRECTORY) is not None
        with self._lock:
            self._submitted += 1
            place = self._submitted
            before = self._take(place, job_name)
        if before is not None and before.is_kept and not is_kept:
            raise MissingRecordsError(_NOWHERE, f"{job_name!r} ({before.job_id})", _NOTED)
        if before is not None and is_kept:
            _log.info("Job %r (%s) resumes: an earlier process started it", job_name, before.job_id)
            configuration = Configuration(configuration)
            configuration.set(option_table.RECOVERY_PATH, LATEST).set(option_table.JOB_ID, before.job_id)
            configuration.remove_config(option_table.COMMITTABLES.key)  # the process before has decided
        earlier = None
        if before is not None and before.is_kept:
            earlier = EarlierRun(_NOTED, before.checkpoint_id, before.has_ended)
        return configuration, ResumableJob(self, place, earlier, is_kept=is_kept)

    def _take(self, place: int, job_name: str) -> NotedJob | None:
        """Return the job of an earlier process to resume: the one at the same place, or else one of the same name.

        Jobs that are started by threads may have another order each time.
        """
        in_place = self._before.get(place)
        if in_place is not None and in_place.job_name == job_name:
            return self._before.pop(place)
        there = min((one for one, job in self._before.items() if job.job_name == job_name), default=None)
        if there is None:
            if in_place is not None and in_place.is_kept and not in_place.has_ended:
                _log.warning(
                    "Job %r starts fresh. An earlier process has started %r (%s) in its place, which has not ended: if "
                    "that is the same job, give it the same name in each process",
                    *(job_name, in_place.job_name, in_place.job_id),
                )
            return None
        found = self._before.pop(there)
        if self._jobs.get(there) is found:
            del self._jobs[there]
            if in_place is not None:  # its turn is still to come
                self._jobs[there] = self._before[there] = self._before.pop(place)
        self._jobs[place] = found
        return found

    def note(self, place: int, job: NotedJob) -> None:
        """Note a job after its takeover.

        Raises:
            SupervisionNoteError: The note cannot be written, so a later process would start the job from nothing.
        """
        with self._lock:
            self._jobs[place] = job
            self._note.write(self._jobs)

    def note_checkpoint(self, place: int, checkpoint_id: int) -> None:
        """Note a completed checkpoint; if that fails, an older one stays noted."""
        job = self._jobs.get(place)
        if job is not None and job.is_kept and checkpoint_id > job.checkpoint_id:
            with contextlib.suppress(SupervisionNoteError):
                self.note(place, msgspec.structs.replace(job, checkpoint_id=checkpoint_id))

    def note_failed_stop(self) -> str:
        """Tell the supervisor that the program runs on, and return what becomes of the program: a clause."""
        try:
            is_told = self._note.tell_failed_stop()
        except (SupervisionNoteError, OSError) as error:
            reason = error.reason if isinstance(error, SupervisionNoteError) else error.strerror
            return f"its supervisor could not be told ({reason}), and does not start it again after a crash"
        if is_told:
            return "it is guarded still: its supervisor starts it again after a crash"
        return "its supervisor has ended, so nobody starts it again after a crash"

    def note_end(self, place: int) -> None:
        """Note that a job has ended; if that fails, the next process finds it out by itself."""
        job = self._jobs.get(place)
        if job is not None:
            try:
                self.note(place, msgspec.structs.replace(job, has_ended=True))
            except SupervisionNoteError as error:
                _log.warning("The end of job %r could not be noted: %s", job.job_name, error)


class ResumableJob:
    """One job's place in the note.

    Args:
        resumption: The note.
        place: Its place among the jobs of the program, from 1.
        earlier: What is known of its run in an earlier process; None if there was none.
        is_kept: Whether it has checkpoints that outlive its process.
    """

    def __init__(self, resumption: Resumption, place: int, earlier: EarlierRun | None, *, is_kept: bool) -> None:
        self._resumption, self._place, self._is_kept = resumption, place, is_kept
        self.earlier = earlier

    def follow(self, driver: JobControl) -> JobStatusListener:
        """Return the listener that notes the job of a driver."""
        known = 0 if self.earlier is None else self.earlier.checkpoint_id
        return _ResumptionListener(
            lambda: self._resumption.note(
                self._place,
                NotedJob(driver.job_name, driver.job_id, os.getpid(), self._is_kept, checkpoint_id=known),
            ),
            lambda: self._resumption.note_end(self._place),
            lambda checkpoint_id: self._resumption.note_checkpoint(self._place, checkpoint_id),
        )


class _ResumptionListener:
    """Notes a job when it is CREATED, which follows its takeover; a failed job counts as not ended."""

    def __init__(
        self, note: Callable[[], None], note_end: Callable[[], None], note_checkpoint: Callable[[int], None]
    ) -> None:
        self._note, self._note_end, self._note_checkpoint = note, note_end, note_checkpoint

    def on_status(self, status: JobStatus) -> None:
        if status is JobStatus.CREATED:
            self._note()  # an error fails the job, which would start from nothing after a crash
        elif status in {JobStatus.FINISHED, JobStatus.CANCELED}:
            self._note_end()

    def on_progress(self, progress: JobProgress) -> None:
        self._note_checkpoint(progress.checkpoint_id)

    def on_failure(self, failure: JobFailure) -> None:
        pass


@functools.cache
def resumption() -> Resumption | None:
    """Return the note of this process's jobs; None if the process is not supervised.

    Raises:
        SupervisionNoteError: The note is missing or damaged.
    """
    path = os.environ.get(RESUME_VARIABLE)
    if not path:
        return None
    found = Resumption(SupervisionNote(Path(path)))
    del os.environ[RESUME_VARIABLE]  # programs that this one starts have jobs of their own
    return found
