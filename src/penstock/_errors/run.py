"""Errors of a job that is under way."""

from __future__ import annotations

from dataclasses import dataclass

from penstock._errors.root import PenstockError


class JobRunError(PenstockError):
    """A job that was under way ended, or a part of it had to stop."""


class FencedError(JobRunError):
    """Another driver has taken this job over, so this one must not commit anything more.

    Args:
        job_id: The job, 32 hexadecimal digits.
        checkpoint_id: The checkpoint that this driver wanted to complete and the other one already holds.
        run_id: This driver's run.
        owner_run_id: The run that holds the job now.
    """

    def __init__(self, job_id: str, checkpoint_id: int, run_id: str, owner_run_id: str) -> None:
        super().__init__(job_id, checkpoint_id, run_id, owner_run_id)
        self.job_id, self.checkpoint_id = job_id, checkpoint_id
        self.run_id, self.owner_run_id = run_id, owner_run_id

    def __str__(self) -> str:
        return (
            f"Run {self.run_id} of job {self.job_id} stops: checkpoint {self.checkpoint_id} belongs to run "
            f"{self.owner_run_id}, which has taken the job over. Only one driver may run a job; if two were started by "
            "mistake, let that one go on."
        )


class JobCancelledError(JobRunError):
    """The job was cancelled before it ended.

    Args:
        job_id: The job, 32 hexadecimal digits.
        job_name: Its name.
        checkpoint: The path of the newest checkpoint that was kept, or None.
    """

    def __init__(self, job_id: str, job_name: str, checkpoint: str | None = None) -> None:
        super().__init__(job_id, job_name, checkpoint)
        self.job_id, self.job_name, self.checkpoint = job_id, job_name, checkpoint

    def __str__(self) -> str:
        kept = f"Its last checkpoint is {self.checkpoint}." if self.checkpoint else "No checkpoint was kept."
        return f"Job {self.job_name!r} ({self.job_id}) was cancelled. {kept}"


@dataclass(frozen=True, slots=True)
class FailureLocation:
    """Where in a job a user's function failed; what a task knows when it reports the failure.

    Args:
        operator_name: The operator whose function raised.
        operator_uid: Its uid.
        subtask_index: The subtask, counted from 0.
        location: The user's file and line, ``"job.py:12"``; None when no line of the user's is in the traceback.
        record: The repr of the current record, shortened; None outside of records, as in ``open()``.
        traceback: The traceback of the user's exception as text.
    """

    operator_name: str
    operator_uid: str
    subtask_index: int
    location: str | None = None
    record: str | None = None
    traceback: str | None = None

    def __str__(self) -> str:
        where = f"  in operator {self.operator_name!r} (uid {self.operator_uid!r}), subtask {self.subtask_index}"
        at = "" if self.location is None else f"\n  at {self.location}"
        on = "" if self.record is None else f"\n  on record {self.record}"
        return where + at + on


class JobExecutionError(JobRunError):
    """The job failed; when a user's function raised, ``__cause__`` is that exception.

    Args:
        job_id: The job, 32 hexadecimal digits.
        job_name: Its name.
        reason: Type and text of what went wrong, on one line.
        place: The operator, subtask, line and record; None when no user function is to blame. Its traceback is shown
            where ``__cause__`` was lost on the way through another process.

    Example:
        >>> place = FailureLocation("ratio", "ratio-1", 3, "prices.py:12", "(7, 0)")
        >>> print(JobExecutionError("0" * 32, "prices", "ZeroDivisionError: division by zero", place))
        Job 'prices' (00000000000000000000000000000000) failed: ZeroDivisionError: division by zero
          in operator 'ratio' (uid 'ratio-1'), subtask 3
          at prices.py:12
          on record (7, 0)
    """

    def __init__(self, job_id: str, job_name: str, reason: str, place: FailureLocation | None = None) -> None:
        super().__init__(job_id, job_name, reason, place)
        self.job_id, self.job_name, self.reason, self.place = job_id, job_name, reason, place

    def __str__(self) -> str:
        headline = f"Job {self.job_name!r} ({self.job_id}) failed: {self.reason}"
        if self.place is None:
            return headline
        shown = self.place.traceback if self.__cause__ is None else None
        above = shown.rstrip("\n") + "\n\n" if shown else ""
        return f"{above}{headline}\n{self.place}"


class SourceFileError(JobRunError):
    """A file that a source was told to read is gone, changed or cannot be decoded.

    Args:
        path: The file.
        reason: What is wrong with it, a clause without a full stop.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        text = f"Source file {self.path} cannot be read: {self.reason}."
        return text.encode("utf-8", "backslashreplace").decode()  # names of files need not be text


class SourceFileChangedError(SourceFileError):
    """A file has changed since a source found it, so that positions in it mean nothing; a restart does not help."""


class SourceFileGoneError(SourceFileError):
    """A file that a source has found is not there any more, or is something else, such as a folder."""


class SinkFileError(JobRunError):
    """A file that a sink was told to write cannot be written or published.

    Args:
        path: The file.
        reason: What is wrong with it, a clause without a full stop.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"Sink file {self.path} cannot be written: {self.reason}."


class BucketNameError(SinkFileError):
    """A file sink's bucket assigner has returned what cannot be the name of a folder.

    Args:
        path: The sink's folder.
        bucket: The beginning of the bucket's repr.
        reason: What is wrong with it, and what to do, a clause without a full stop.
    """

    def __init__(self, path: str, bucket: str, reason: str) -> None:
        Exception.__init__(self, path, bucket, reason)
        self.path, self.bucket, self.reason = path, bucket, reason

    def __str__(self) -> str:
        return f"The bucket {self.bucket} cannot be below {self.path}: {self.reason}."


class RecordFieldError(JobRunError):
    """A record has a field that the file it is to be written to has no column for.

    Args:
        field: The field; a dotted path where it is inside of another one.
        record: The beginning of the record's repr.
        columns: The columns that the file has.
        way_out: What to do about it, a clause without a full stop.
    """

    def __init__(self, field: str, record: str, columns: tuple[str, ...], way_out: str) -> None:
        super().__init__(field, record, columns, way_out)
        self.field, self.record, self.columns, self.way_out = field, record, columns, way_out

    def __str__(self) -> str:
        known = ", ".join(self.columns) or "none"
        return (
            f"The record {self.record} has a field {self.field!r}, and its file has no such column (it has {known}): "
            f"it would be lost. {self.way_out}."
        )


class RecordValueError(JobRunError, ValueError):
    """A record has a value that the column it is to be written to cannot hold as it is.

    Args:
        field: The column.
        record: The beginning of the record's repr.
        column_type: What the column holds.
        reason: What is wrong with the value, a clause without a full stop.
        way_out: What to do about it, a clause without a full stop.
    """

    def __init__(self, field: str, record: str, column_type: str, reason: str, way_out: str) -> None:
        super().__init__(field, record, column_type, reason, way_out)
        self.field, self.record, self.column_type = field, record, column_type
        self.reason, self.way_out = reason, way_out

    def __str__(self) -> str:
        return (
            f"The field {self.field!r} of the record {self.record} does not fit its column ({self.column_type}): "
            f"{self.reason}. {self.way_out}."
        )


class StagedFileError(SinkFileError):
    """A checkpoint that a job was started from continues an unfinished file that is gone.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        Exception.__init__(self, path)
        self.path, self.reason = path, "it is gone"

    def __str__(self) -> str:
        return (
            f"The checkpoint that the job was started from continues the unfinished file {self.path}, which is gone: "
            "the job that has staged it has published it since, or it was deleted by hand. Start from the newest "
            "checkpoint, or from a savepoint, which names no unfinished file."
        )


class LostCommittableError(JobRunError):
    """What a sink's writer staged is gone before its first commit, so it can be published no more.

    Committers raise it. The job ends with it: a second try could not tell what is lost from what an earlier try has
    published.

    Args:
        what: What was to be published.
        reason: What is gone, a clause without a full stop.
    """

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what, self.reason = what, reason

    def __str__(self) -> str:
        return (
            f"{self.what} cannot be published, and was not published before: {self.reason}. Its records are in no "
            "output. To have them, start the job from a checkpoint or savepoint before that; a start from the newest "
            "checkpoint goes on without them."
        )


class SavepointError(JobRunError):
    """A savepoint that was asked for could not be made; the job keeps running unless it ends for another reason.

    Args:
        path: The savepoint.
        reason: What happened.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"There is no savepoint {self.path}: {self.reason.removesuffix('.')}."


class StopIncompleteError(SavepointError):
    """A job failed while it stopped, after its savepoint was complete.

    Args:
        path: The savepoint.
        reason: What happened.
    """

    def __str__(self) -> str:
        return (
            f"The savepoint {self.path} is complete and consistent, but the job failed after that: {self.reason}. Some "
            "of what its sinks staged may not be published yet; a start from that savepoint does that first."
        )


class StopTimeoutError(SavepointError):
    """A job did not stop in the time that it was given, and was cancelled.

    Args:
        path: The savepoint that it was to stop into.
        timeout_ms: The time, in milliseconds.
        running: The subtasks that were still at work; empty when none was.
    """

    def __init__(self, path: str, timeout_ms: int, running: tuple[str, ...]) -> None:
        super().__init__(path, f"the job did not stop within {timeout_ms} ms")
        self.args = (path, timeout_ms, running)
        self.timeout_ms, self.running = timeout_ms, running

    def __str__(self) -> str:
        at = f"still at work: {', '.join(self.running)}" if self.running else "no subtask was at work any more"
        return (
            f"There is no savepoint {self.path}: the job did not stop within {self.timeout_ms} ms ({at}). It was "
            "cancelled; it can go on from its last checkpoint."
        )


class UnreadableOutputError(JobRunError):
    """What a job printed or collected cannot be read back, to be given to the program.

    The job tries it again when it restarts, unless the output is gone or damaged.

    Args:
        operator_name: The operator that printed or collected.
        operator_uid: Its uid.
        reason: What happened, with the file.
    """

    def __init__(self, operator_name: str, operator_uid: str, reason: str) -> None:
        super().__init__(operator_name, operator_uid, reason)
        self.operator_name, self.operator_uid, self.reason = operator_name, operator_uid, reason

    def __str__(self) -> str:
        return (
            f"What operator {self.operator_name!r} (uid {self.operator_uid!r}) has printed or collected cannot be read "
            f"back: {self.reason.removesuffix('.')}. Where the job ends with this error, the program has not got all "
            "of it; start the job from an older checkpoint, or from the beginning, to have it made again."
        )


class SplitFetchError(JobRunError):
    """A thread of a source's reader failed to fetch; ``__cause__`` is its exception.

    Args:
        reason: Type and text of what went wrong.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"A source could not fetch: {self.reason}. The job restarts from its last checkpoint."


class StaleAttemptError(JobRunError):
    """A task found that a newer attempt has already moved its state on, and stopped before writing anything.

    Spark lets replaced tasks live on for some seconds; this error ends them and harms nothing.

    Args:
        operator_uid: The operator whose state it is.
        subtask_index: The subtask, counted from 0.
        checkpoint_id: The checkpoint that this attempt wanted to build on.
        found: What the state says instead.
    """

    def __init__(self, operator_uid: str, subtask_index: int, checkpoint_id: int, found: str) -> None:
        super().__init__(operator_uid, subtask_index, checkpoint_id, found)
        self.operator_uid, self.subtask_index = operator_uid, subtask_index
        self.checkpoint_id, self.found = checkpoint_id, found

    def __str__(self) -> str:
        return (
            f"An outdated attempt of operator {self.operator_uid!r}, subtask {self.subtask_index}, stopped: it builds "
            f"on checkpoint {self.checkpoint_id}, but the state is at {self.found}. A newer attempt is running."
        )


class UnpicklableStateError(JobRunError):
    """A value in keyed state cannot be pickled, so it cannot be part of a checkpoint.

    Args:
        state: The name of the state.
        key: The key's repr, shortened.
        type_name: The qualified name of the value's type.
        reason: What pickling said about it.
    """

    def __init__(self, state: str, key: str, type_name: str, reason: str) -> None:
        super().__init__(state, key, type_name, reason)
        self.state, self.key, self.type_name, self.reason = state, key, type_name, reason

    def __str__(self) -> str:
        return (
            f"State {self.state!r} holds a {self.type_name} for key {self.key} that cannot be pickled ({self.reason}). "
            "Keep plain data in state, and open connections, locks and files in open()."
        )


class AccumulatorSizeError(JobRunError):
    """The accumulators of an operator have become too large for the checkpoints that hold them.

    Args:
        name: The largest one.
        size: Bytes of all of the operator, pickled.
        limit: Bytes that they may have.
    """

    def __init__(self, name: str, size: int, limit: int) -> None:
        super().__init__(name, size, limit)
        self.name, self.size, self.limit = name, size, limit

    def __str__(self) -> str:
        return (
            f"The accumulators of this operator take {self.size:,} bytes, the largest of them is {self.name!r}; "
            f"{self.limit:,} bytes are the limit. Every checkpoint holds them as a whole: count in them, and send "
            "records to a side output or a sink."
        )


class UnpicklableAccumulatorError(JobRunError):
    """An accumulator cannot be pickled, so it cannot be part of a checkpoint.

    Args:
        name: Its name.
        reason: What pickling said about it.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return (
            f"Accumulator {self.name!r} holds something that cannot be pickled ({self.reason}). "
            "Keep plain data in accumulators."
        )


class PartitionError(JobRunError):
    """A custom partitioner named a subtask that does not exist.

    Args:
        target: What it returned, as text.
        parallelism: The number of subtasks.
    """

    def __init__(self, target: str, parallelism: int) -> None:
        super().__init__(target, parallelism)
        self.target, self.parallelism = target, parallelism

    def __str__(self) -> str:
        return (
            f"The partitioner returned {self.target}, but there are {self.parallelism} subtasks, counted from 0. "
            "Return a whole number in that range, such as key % num_partitions for keys that are whole numbers."
        )


class DriverCodeError(JobRunError):
    """User code that runs on the driver raised: an enumerator or a committer.

    Args:
        where: What ran, such as ``the enumerator of 'orders'``.
        reason: Type and text of the exception, which is the ``__cause__``.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where, self.reason = where, reason

    def __str__(self) -> str:
        return f"{self.reason} (in {self.where})"


class EpochInfrastructureError(JobRunError):
    """Spark lost an epoch for a reason that is not the user's; running it again may succeed.

    Args:
        reason: What Spark said.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"Spark lost an epoch: {self.reason}"


class SparkGoneError(JobRunError):
    """The JVM that Spark ran in has ended, so this process can run no epoch any more.

    Args:
        reason: How that showed.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"Spark's JVM has ended ({self.reason}): by a signal, for want of memory, or by a fault of its own. Start "
            "the program again; with execution.state-recovery.path: latest it goes on from its newest checkpoint."
        )


class CheckpointExpiredError(JobRunError):
    """No task of a checkpoint's epoch ended for longer than ``execution.checkpointing.timeout``.

    Args:
        checkpoint_id: The checkpoint.
        timeout_ms: The timeout in milliseconds.
        running: The subtasks that were still at work.
    """

    def __init__(self, checkpoint_id: int, timeout_ms: int, running: tuple[str, ...]) -> None:
        super().__init__(checkpoint_id, timeout_ms, running)
        self.checkpoint_id = checkpoint_id
        self.timeout_ms = timeout_ms
        self.running = running

    def __str__(self) -> str:
        at_work = f" Still at work: {', '.join(self.running)}." if self.running else ""
        return (
            f"Checkpoint {self.checkpoint_id} expired: no task of its epoch ended for {self.timeout_ms} ms."
            f"{at_work} Make the function faster, give it a higher parallelism, or raise"
            " execution.checkpointing.timeout."
        )


class CheckpointRequestError(JobRunError):
    """A checkpoint that was asked for could not be made; the job keeps running unless it ends for another reason.

    Args:
        reason: What happened.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"There is no checkpoint: {self.reason}."


class EpochCancelledError(JobRunError):
    """An epoch was interrupted because its driver asked for it.

    Args:
        checkpoint_id: The checkpoint that the epoch was to make.
    """

    def __init__(self, checkpoint_id: int) -> None:
        super().__init__(checkpoint_id)
        self.checkpoint_id = checkpoint_id

    def __str__(self) -> str:
        return f"The epoch of checkpoint {self.checkpoint_id} was cancelled."
