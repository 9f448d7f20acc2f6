"""Errors of the ``penstock`` command about jobs that run elsewhere."""

from __future__ import annotations

from penstock._errors.root import PenstockError


class CommandError(PenstockError):
    """The command could not do what it was asked for; jobs are as they were."""


class JobRestartingError(CommandError):
    """A job of a supervised program has no process that could be asked: the last one broke down.

    Args:
        job: The job, by name and id.
        supervisor: The process id of its supervisor.
        reason: What follows, a clause without a full stop.
    """

    def __init__(self, job: str, supervisor: int, reason: str) -> None:
        super().__init__(job, supervisor, reason)
        self.job, self.supervisor, self.reason = job, supervisor, reason

    def __str__(self) -> str:
        return f"Job {self.job} has no process at this moment; process {self.supervisor} supervises it: {self.reason}."


class JobNotFoundError(CommandError):
    """No running job has that id, prefix or name, or more than one has.

    Args:
        job: What was asked for.
        found: Why that is not one job, a clause without a full stop.
        running: The jobs that run, each as text.
    """

    def __init__(self, job: str, found: str, running: tuple[str, ...]) -> None:
        super().__init__(job, found, running)
        self.job, self.found, self.running = job, found, running

    def __str__(self) -> str:
        jobs = f"Running: {', '.join(self.running)}." if self.running else "No job is running here."
        return (
            f"Job {self.job!r}: {self.found}. {jobs} Give a job's id, the first digits of it or its name, or --address "
            "for a job of another machine or user."
        )


class JobRequestError(CommandError):
    """A running job refused a request, or what was asked for has failed.

    Args:
        address: Where the job is asked.
        reason: What it said.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address, self.reason = address, reason

    def __str__(self) -> str:
        return f"{self.reason} ({self.address})"


class JobUnreachableError(CommandError):
    """Nothing answers where a job should be.

    Args:
        address: Where it was asked.
        reason: What happened, a clause without a full stop.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address, self.reason = address, reason

    def __str__(self) -> str:
        return (
            f"The job at {self.address} cannot be reached: {self.reason}. Check that it still runs (penstock list) and "
            "that the address and the port are right."
        )


class CommandTimeoutError(CommandError):
    """Something that was asked for takes longer than the command was told to wait; it continues.

    Args:
        what: What was waited for.
        seconds: How long.
        way_out: What to do now, a sentence.
    """

    def __init__(self, what: str, seconds: int, way_out: str) -> None:
        super().__init__(what, seconds, way_out)
        self.what, self.seconds, self.way_out = what, seconds, way_out

    def __str__(self) -> str:
        return f"{self.what} is not done after {self.seconds} s and continues. {self.way_out}"
