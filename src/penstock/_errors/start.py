"""Errors of the state to start from, and of where state is kept."""

from __future__ import annotations

from penstock._errors.root import PenstockError


class RestoreError(PenstockError):
    """The job cannot start from the state that it was told to start from, or keep state where it was told to."""


class CheckpointStorageError(RestoreError):
    """The directory for checkpoints or savepoints cannot be used.

    Args:
        path: The directory.
        reason: What failed, a clause without a full stop.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return (
            f"Checkpoint storage {self.path} cannot be used: {self.reason}. Check the path and its permissions, or set "
            "execution.checkpointing.dir to another directory."
        )


class CorruptCheckpointError(RestoreError):
    """A file of a checkpoint or savepoint is damaged or gone.

    Args:
        path: The file.
        reason: What is wrong with it, a clause without a full stop.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be restored: {self.reason}. Restore the file from a copy, or set "
            "execution.state-recovery.path to an older checkpoint."
        )


class UnsupportedFormatError(CorruptCheckpointError):
    """A file of a checkpoint or savepoint is in a format that this version of Penstock does not read.

    Args:
        path: The file.
        reason: Its format and those that are read, a clause without a full stop.
    """

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be read by this version of Penstock: {self.reason}. Use the version that wrote it, or "
            "a newer one."
        )


class UnknownStateError(RestoreError):
    """A savepoint does not hold the state that somebody asked for.

    Args:
        path: The savepoint or checkpoint.
        wanted: What was asked for.
        known: What there is in its place.
    """

    def __init__(self, path: str, wanted: str, known: tuple[str, ...]) -> None:
        super().__init__(path, wanted, known)
        self.path, self.wanted, self.known = path, wanted, known

    def __str__(self) -> str:
        return f"{self.path} has no {self.wanted}; it has {', '.join(self.known) or 'none'}."


class SavepointChangeError(RestoreError):
    """A savepoint cannot be written, changed or deleted as it was asked for; nothing was done.

    Args:
        path: The savepoint.
        reason: Why not, and the way out, a clause without a full stop.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"The savepoint {self.path} stays as it is: {self.reason}."


class LocalStateError(RestoreError):
    """The directory on an executor's local disk that is to hold keyed state cannot be used.

    Args:
        path: The directory.
        reason: What is wrong with it, a clause without a full stop.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return (
            f"Keyed state cannot be kept in {self.path}: {self.reason}. It needs a directory of this user's own on a "
            "local disk; set SPARK_LOCAL_DIRS or spark.local.dir on the executors to one."
        )


class NoCheckpointError(RestoreError):
    """There is no checkpoint to start from where the configuration says there should be one.

    Args:
        path: The checkpoint, savepoint or directory that was searched.
        job: The job that was looked for, by id or name.
        reason: What was found instead, a clause without a full stop.
    """

    def __init__(self, path: str, job: str, reason: str) -> None:
        super().__init__(path, job, reason)
        self.path, self.job, self.reason = path, job, reason

    def __str__(self) -> str:
        return (
            f"No checkpoint of job {self.job} to start from in {self.path}: {self.reason}. Set "
            "execution.state-recovery.path to a checkpoint that exists, or remove the key to start without state."
        )


class UnclaimedStateError(RestoreError):
    """A checkpoint or savepoint holds state of an operator that the job does not have.

    Args:
        path: The checkpoint or savepoint.
        uid: The uid whose state nobody claims.
        known_uids: The uids that the job has.
    """

    def __init__(self, path: str, uid: str, known_uids: tuple[str, ...]) -> None:
        super().__init__(path, uid, known_uids)
        self.path, self.uid, self.known_uids = path, uid, known_uids

    def __str__(self) -> str:
        return (
            f"{self.path} holds state of operator uid {self.uid!r}, but this job only has "
            f"{', '.join(self.known_uids) or 'operators without uid'}. Give that uid to the operator that goes on with "
            "the state, or set execution.state-recovery.ignore-unclaimed-state to true to drop it."
        )
