"""The jobs that a supervised program has started, so that its next process goes on with each of them.

`penstock run --supervise` names a file. Every job is noted there once it has claimed its place in the checkpoint
directory; from then on its newest checkpoint counts, and no longer what the program or the command line started it
from. A job is known by its place among the jobs of the program and by its name: the program is the same each time.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock._engine.coordinator.settings import LATEST
from penstock.common import option_table
from penstock.common.config_loading import RESUME_VARIABLE
from penstock.common.configuration import Configuration
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.gateway.progress import JobFailure, JobListener, JobProgress

_log = logging.getLogger("penstock")


class NotedJob(msgspec.Struct, frozen=True):
    """A job that has claimed its place."""

    job_name: str
    job_id: str


class Resumption:
    """Notes the jobs of this process, and finds those of the process before.

    Args:
        path: The file; it need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        before = path.read_bytes() if path.exists() else b"{}"
        self._jobs = msgspec.json.decode(before, type=dict[int, NotedJob])
        self._submitted = 0
        self._lock = threading.Lock()

    def next_job(self, job_name: str, configuration: Configuration) -> tuple[Configuration, Noted | None]:
        """Take the next job of the program.

        Args:
            job_name: The job.
            configuration: Its configuration.

        Returns:
            The configuration that it is to have, and its place; None where no checkpoint outlives the process.
        """
        with self._lock:
            self._submitted += 1
            place = self._submitted
        if configuration.get(option_table.CHECKPOINT_DIRECTORY) is None:
            return configuration, None
        before = self._jobs.get(place)
        if before is not None and before.job_name == job_name:
            _log.info("Job %r (%s) resumes: an earlier process started it", job_name, before.job_id)
            configuration = Configuration(configuration)
            configuration.set(option_table.RECOVERY_PATH, LATEST).set(option_table.JOB_ID, before.job_id)
        return configuration, Noted(self, place)

    def note(self, place: int, job: NotedJob) -> None:
        """Write down a job that has claimed its place."""
        with self._lock:
            self._jobs[place] = job
            draft = self._path.with_suffix(".draft")
            try:
                draft.write_bytes(msgspec.json.encode(self._jobs))
                draft.replace(self._path)
            except OSError as error:
                _log.warning("Job %r would start from the beginning after a crash: %s", job.job_name, error)


class Noted:
    """One job's place among those that are noted.

    Args:
        resumption: Where it is noted.
        place: Its place among the jobs of the program, from 1.
    """

    def __init__(self, resumption: Resumption, place: int) -> None:
        self._resumption, self._place = resumption, place

    def follow(self, driver: JobDriver) -> JobListener:
        """Return what notes the job of a driver."""
        return _Listener(lambda: self._resumption.note(self._place, NotedJob(driver.job_name, driver.job_id)))


class _Listener:
    """Notes a job: it is CREATED right after the claim."""

    def __init__(self, note: Callable[[], None]) -> None:
        self._note = note

    def on_status(self, status: JobStatus) -> None:
        if status is JobStatus.CREATED:
            self._note()

    def on_progress(self, progress: JobProgress) -> None:
        pass

    def on_failure(self, failure: JobFailure) -> None:
        pass


@functools.cache
def resumption() -> Resumption | None:
    """Return what this process notes its jobs with; None where nobody supervises it."""
    path = os.environ.pop(RESUME_VARIABLE, None)  # programs that this one starts have jobs of their own
    return Resumption(Path(path)) if path else None
