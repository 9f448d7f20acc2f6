"""The exit codes of the command and of a program that it runs, by which a supervisor decides.

A program's own exit codes are passed on. Errors have different codes if the difference matters for starting the program
again.
"""

from __future__ import annotations

from enum import IntEnum

from penstock import errors

#: A process that a signal has ended exits with this number plus the signal's, as in a shell.
SIGNALLED = 128


class ExitCode(IntEnum):
    """An exit code; `MEANINGS` says what each one means."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CANCELED = 3
    FENCED = 4
    NO_SUCH_JOB = 5
    UNREACHABLE = 6
    TIMEOUT = 7
    GIVEN_UP = 8
    UNDECIDED = 9
    MISSING = 10
    TEMPORARY = 75


MEANINGS = {
    ExitCode.OK: "Done. `run`: the program ended; its jobs have finished, or were stopped with a savepoint.",
    ExitCode.FAILED: "It could not be done. `run`: the program raised an error, or its job failed for good.",
    ExitCode.USAGE: "An option, an argument, or a value or file of the configuration is not as it must be.",
    ExitCode.CANCELED: "`run`: the job was cancelled.",
    ExitCode.FENCED: "`run`: another driver has taken the job over, or runs it and keeps it (`--no-takeover`); this "
    "one must not be started again.",
    ExitCode.NO_SUCH_JOB: "No running job is called that, or more than one is.",
    ExitCode.UNREACHABLE: "The job does not answer at its address, or has no process at this moment.",
    ExitCode.TIMEOUT: "What was asked for takes longer than `--timeout`, and continues.",
    ExitCode.GIVEN_UP: "`run`: a job came to its end, but a sink's committer has given up for good what was staged: "
    "these records are in no output, and another start does not bring them.",
    ExitCode.UNDECIDED: "`run`: nobody knows any more whether a sink has committed something; the next start decides "
    "with `--committable`.",
    ExitCode.MISSING: "`run`: the job has run before, and its checkpoints, or the savepoint that it stopped into, are "
    "not where they were; nothing was started.",
    ExitCode.TEMPORARY: "`run`: the machine, Spark or the storage failed; the same start may succeed later.",
}

#: By the class of an error; all others are FAILED.
_OF_ERRORS: tuple[tuple[ExitCode, tuple[type[BaseException], ...]], ...] = (
    (ExitCode.CANCELED, (errors.JobCancelledError,)),
    (ExitCode.FENCED, (errors.FencedError, errors.JobRunningError)),
    (ExitCode.USAGE, (errors.ConfigurationError, errors.ConfigurationFileError)),
    (ExitCode.UNDECIDED, (errors.CommitOutcomeUnknownError,)),
    (ExitCode.MISSING, (errors.MissingRecordsError, errors.MovedCheckpointError)),
    (ExitCode.NO_SUCH_JOB, (errors.JobNotFoundError,)),
    (ExitCode.UNREACHABLE, (errors.JobUnreachableError, errors.JobRestartingError)),
    (ExitCode.TIMEOUT, (errors.CommandTimeoutError,)),
    (
        ExitCode.TEMPORARY,
        (
            errors.RetryableError,
            errors.SparkSetupError,
            errors.EpochInfrastructureError,
            errors.SparkGoneError,
            errors.CheckpointStorageError,
            errors.LocalStateError,
        ),
    ),
)


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code of a program or command that an error ended."""
    if isinstance(error, errors.JobExecutionError) and error.__cause__ is not None:
        error = error.__cause__
    return next((code for code, kinds in _OF_ERRORS if isinstance(error, kinds)), ExitCode.FAILED)
