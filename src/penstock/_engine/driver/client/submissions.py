"""The jobs that this process has submitted: under ``latest`` no two of them are one job.

``latest`` finds a job by its name. A second one of that name would take the first one's place: it would end at once
where the first has finished, take the job over where it runs, and go on with its state where it has stopped.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._engine.coordinator.settings import LATEST, EarlierRun
from penstock._engine.operators.factories.sources_and_sinks import SourceFactory
from penstock.common import option_table
from penstock.common.job_status import JobStatus
from penstock.errors import RepeatedJobError

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.graph.job_graph import JobGraph
    from penstock.common.configuration import Configuration


@dataclass(eq=False, slots=True)
class Submission:
    """One job of this process."""

    name: str
    directory: str | None
    job_id: str | None
    #: By uid: the digests of its sources.
    reads: dict[str, str]
    #: None until it has been started.
    driver: JobDriver | None = None
    #: Known if this job continues one that the process has run before.
    earlier: EarlierRun | None = None

    @classmethod
    def of(cls, job_graph: JobGraph, configuration: Configuration) -> Submission:
        """Return a job that is to be submitted."""
        return cls(
            job_graph.name,
            configuration.get(option_table.CHECKPOINT_DIRECTORY),
            configuration.get(option_table.JOB_ID),
            {uid: place.fingerprint for uid, place in job_graph.places.items() if place.kind == SourceFactory.kind},
        )

    def finds(self, other: Submission) -> bool:
        """Tell whether this job, started with ``latest``, would continue the other one."""
        if self.directory is None or self.directory != other.directory:
            return False
        return self.name == other.name if self.job_id is None else self.job_id == other.job_id

    @property
    def has_begun(self) -> bool:
        """Whether it has a record in its directory."""
        return self.driver is not None and JobStatus.CREATED in self.driver.view.status_times

    def may_continue(self, other: Submission) -> bool:
        """Tell whether the other one has stopped or failed, and this one reads the same."""
        view = None if other.driver is None else other.driver.view
        if view is None or view.ended is None or self.reads != other.reads:
            return False
        has_run = JobStatus.RUNNING in view.status_times and not view.is_complete
        return has_run if view.status is JobStatus.FINISHED else True


class Submissions:
    """The jobs of this process."""

    def __init__(self) -> None:
        self._jobs: list[Submission] = []
        self._lock = threading.Lock()

    @contextmanager
    def admitted(
        self, job_graph: JobGraph, configuration: Configuration, *, named_apart: bool
    ) -> Generator[Submission]:
        """Admit a job while it is started; if that fails, it is as if it had not been submitted.

        Args:
            job_graph: The job.
            configuration: Its configuration.
            named_apart: Whether a second job of one name gets the next free name in place of an error.

        Raises:
            RepeatedJobError: With ``latest``, it would be one that this process has submitted before.
        """
        with self._lock:
            name = job_graph.name
            job, number = Submission.of(job_graph, configuration), 1
            if configuration.get(option_table.RECOVERY_PATH) == LATEST:
                while self._is_repeated(job):
                    if not named_apart or job.job_id is not None:
                        raise RepeatedJobError(name, job.job_id)
                    number += 1
                    job.name = f"{name} ({number})"
                if any(job.finds(other) and other.has_begun for other in self._jobs):
                    job.earlier = EarlierRun("this program has run it before")
            self._jobs.append(job)
        try:
            yield job
        except BaseException:
            with self._lock:
                self._jobs.remove(job)
            raise

    def _is_repeated(self, job: Submission) -> bool:
        return any(job.finds(other) and not job.may_continue(other) for other in self._jobs)
