"""Errors of the ``penstock`` command about jobs that run elsewhere."""

from __future__ import annotations

from penstock._errors.root import PenstockError, declared


class CommandError(PenstockError):
    """The command could not do what was requested; jobs are unchanged."""


@declared
class JobRestartingError(CommandError):
    """A job of a supervised program is between two processes, because the last one crashed."""

    job: str  #: the job, by name and id
    supervisor: int  #: the process id of its supervisor
    reason: str  #: what follows, a clause without a full stop

    def __str__(self) -> str:
        return f"Job {self.job} has no process at this moment; process {self.supervisor} supervises it: {self.reason}."


@declared
class JobNotFoundError(CommandError):
    """No running job has that id, prefix or name, or more than one has."""

    job: str  #: what was asked for
    found: str  #: why that is not one job, a clause without a full stop
    running: tuple[str, ...]  #: the jobs that run, each as text

    def __str__(self) -> str:
        jobs = f"Running: {', '.join(self.running)}." if self.running else "No job is running here."
        return (
            f"Job {self.job!r}: {self.found}. {jobs} Give a job's id, the first digits of it or its name, or --address "
            "for a job of another machine or user."
        )


@declared
class JobRequestError(CommandError):
    """A running job refused a request, or the requested operation failed."""

    address: str  #: where the job is asked
    reason: str  #: what it said

    def __str__(self) -> str:
        return f"{self.reason} ({self.address})"


@declared
class JobUnreachableError(CommandError):
    """No server answers at the address of a job."""

    address: str  #: where it was asked
    reason: str  #: what happened, a clause without a full stop
    #: what to do, a sentence
    way_out: str = "Check that it still runs (penstock list) and that the address and the port are right."

    def __str__(self) -> str:
        return f"The job at {self.address} cannot be reached: {self.reason}. {self.way_out}"


@declared
class CommandTimeoutError(CommandError):
    """A requested operation takes longer than the command's timeout; it continues."""

    what: str  #: what was waited for
    seconds: int  #: how long
    way_out: str  #: what to do now, a sentence

    def __str__(self) -> str:
        return f"{self.what} is not done after {self.seconds} s and continues. {self.way_out}"
