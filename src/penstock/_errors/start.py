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
            f"Checkpoint storage {self.path} cannot be used: {self.reason}. Check the path and its permissions, or "
            "choose another directory (execution.checkpointing.dir or .savepoint-dir)."
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
    """A savepoint does not hold the state that was asked for.

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


class SupervisionNoteError(RestoreError):
    """The note in which a supervised program's processes find their jobs cannot be used, although there was one.

    Args:
        path: The file.
        reason: What is wrong with it, a clause without a full stop.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return (
            f"The note of this program's jobs, {self.path}, cannot be used: {self.reason}. Without it the jobs would "
            "begin anew beside their checkpoints, so the program is not started again. Start it with `penstock run "
            "--supervise -s latest`, which finds the newest checkpoint of each job by the job's name, and keep that "
            "directory from being cleaned."
        )


class StateClassError(RestoreError):
    """State holds values whose classes are gone, or do not take what was stored of them.

    Args:
        state: The name of the state.
        reason: What unpickling said about it.
    """

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(state, reason)
        self.state, self.reason = state, reason

    def __str__(self) -> str:
        return (
            f"State {self.state!r} holds values that cannot be read any more: {self.reason}. Their classes have to be "
            "in the modules that they were in, under the names that they had; fields may be added to them with a "
            "default in the class. To do without that state, give its operator another uid and set "
            "execution.state-recovery.ignore-unclaimed-state to true."
        )


class TemporaryCheckpointsError(RestoreError):
    """The temporary checkpoints of a job that keeps none were removed while it ran.

    Args:
        path: Their directory.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"The temporary checkpoints of the job, {self.path}, are gone: something has cleaned that directory while "
            "the job ran. It cannot go on without them. Set execution.checkpointing.dir to a directory that stays."
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
            f"{', '.join(self.known_uids) or 'operators without uid'}. Give that uid to the operator that continues "
            "the state, or set execution.state-recovery.ignore-unclaimed-state to true (penstock run -n) to drop it."
        )


class MovedOperatorError(RestoreError):
    """The program has changed around an operator without a uid, so that it cannot be known by its place any more.

    Args:
        path: The checkpoint or savepoint.
        operator: The operator whose state is there: its name and the uid that was generated for it.
        now: The operators that may continue it: the one that would get the state, else those of the same kind; each by
            its name and the user's file and line.
        reason: What has changed, a clause without a full stop.
    """

    def __init__(self, path: str, operator: tuple[str, str], now: tuple[str, ...], reason: str) -> None:
        super().__init__(path, operator, now, reason)
        self.path, self.operator, self.now, self.reason = path, operator, now, reason

    def __str__(self) -> str:
        name, uid = self.operator
        return (
            f"{self.path} holds state of operator {name!r}, which had no uid and is known by its place in the program "
            f"alone. That has changed: {self.reason}. The state might now go to {' or '.join(self.now) or 'none'}. "
            f"Give the operator that continues {name!r} the uid({uid!r}), and each other one with state a uid(...) of "
            "its own; or set execution.state-recovery.ignore-unclaimed-state to true (penstock run -n) to drop that "
            "state."
        )


class FinishedOperatorError(RestoreError):
    """The job was changed so that something which may still send records stands before an operator that has finished.

    Args:
        path: The checkpoint or savepoint.
        operator: The operator that has finished: its name and uid.
        extent: How much of it: ``finished`` or ``partly finished``.
        before: The operator before it: its name and uid.
        reason: What would have to be true of the one before, a clause without a full stop.

    Source: org.apache.flink.runtime.checkpoint.VertexFinishedStateChecker.
    """

    def __init__(self, path: str, operator: tuple[str, str], extent: str, before: tuple[str, str], reason: str) -> None:
        super().__init__(path, operator, extent, before, reason)
        self.path, self.operator, self.extent, self.before, self.reason = path, operator, extent, before, reason

    def __str__(self) -> str:
        (name, uid), (before, before_uid) = self.operator, self.before
        return (
            f"{self.path} cannot be restored, because the job graph was changed: {name!r} (uid {uid!r}) is "
            f"{self.extent} there, and what has finished takes no records any more; but {before!r} (uid "
            f"{before_uid!r}) comes before it: {self.reason}. Remove that operator, move it after the other one, or "
            "give the other one a new uid, so that it starts without state."
        )


class MaxParallelismError(RestoreError):
    """The program has set another max parallelism than the keyed state was written with.

    Args:
        path: The checkpoint or savepoint.
        operator: The operator, by name.
        uid: Its uid.
        stored: The max parallelism of the state.
        wanted: The one that the program has set.
    """

    def __init__(self, path: str, operator: str, uid: str, stored: int, wanted: int) -> None:
        super().__init__(path, operator, uid, stored, wanted)
        self.path, self.operator, self.uid, self.stored, self.wanted = path, operator, uid, stored, wanted

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be restored: {self.operator!r} (uid {self.uid!r}) has max parallelism {self.wanted}, "
            f"and its keyed state there {self.stored}. Set the max parallelism to {self.stored}, or do not set it: "
            "then that of the state is taken over."
        )


class MixedChainError(RestoreError):
    """Operators that run as one vertex have finished to different extents.

    Args:
        path: The checkpoint or savepoint.
        vertex: The vertex, by name.
        states: By uid of its operators: ``running``, ``partly finished`` or ``finished``.

    Source: org.apache.flink.runtime.checkpoint.VertexFinishedStateChecker.
    """

    def __init__(self, path: str, vertex: str, states: tuple[tuple[str, str], ...]) -> None:
        super().__init__(path, vertex, states)
        self.path, self.vertex, self.states = path, vertex, states

    def __str__(self) -> str:
        states = ", ".join(f"{uid!r} is {state}" for uid, state in self.states)
        return (
            f"{self.path} cannot be restored: the operators of vertex {self.vertex!r} have finished to different "
            f"extents ({states}; an operator that is not there counts as running). Keep them apart with "
            "start_new_chain() or disable_chaining(), and give uids to operators, so that each finds its own state."
        )


class ParallelismLimitError(RestoreError):
    """The job is to run with more subtasks than its keyed state has key groups.

    Args:
        path: The checkpoint or savepoint.
        operator: The operator, by name.
        uid: Its uid.
        parallelism: The parallelism that the job has.
        max_parallelism: The max parallelism of the state.
    """

    def __init__(self, path: str, operator: str, uid: str, parallelism: int, max_parallelism: int) -> None:
        super().__init__(path, operator, uid, parallelism, max_parallelism)
        self.path, self.operator, self.uid = path, operator, uid
        self.parallelism, self.max_parallelism = parallelism, max_parallelism

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be restored: {self.operator!r} (uid {self.uid!r}) has parallelism {self.parallelism}, "
            f"and its keyed state there max parallelism {self.max_parallelism}, which is fixed for its life. Lower the "
            f"parallelism to {self.max_parallelism} at most."
        )
