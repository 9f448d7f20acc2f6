"""Errors of a job that is under way."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock._errors.root import PenstockError, declared


class JobRunError(PenstockError):
    """A job that was under way ended, or a part of it had to stop."""


@declared
class FencedError(JobRunError):
    """Another driver has taken the job over, so this driver must not commit anything."""

    job_id: str  #: the job, 32 hexadecimal digits
    checkpoint_id: int  #: the checkpoint that this driver wanted to complete and the other one already holds
    run_id: str  #: this driver's run
    owner_run_id: str  #: the run that holds the job now

    def __str__(self) -> str:
        return (
            f"Run {self.run_id} of job {self.job_id} stops: checkpoint {self.checkpoint_id} belongs to run "
            f"{self.owner_run_id}, which has taken the job over. Only one driver may run a job; if two were started by "
            "mistake, let that one continue."
        )


@declared
class JobCancelledError(JobRunError):
    """The job was cancelled before it ended."""

    job_id: str  #: the job, 32 hexadecimal digits
    job_name: str  #: its name
    checkpoint: str | None = None  #: the path of the newest checkpoint that was kept, or None

    def __str__(self) -> str:
        kept = f"Its last checkpoint is {self.checkpoint}." if self.checkpoint else "No checkpoint was kept."
        return f"Job {self.job_name!r} ({self.job_id}) was cancelled. {kept}"


@declared
class JobStoppedError(JobRunError):
    """The job was stopped before it had read all of its input, and its caller needs the whole result."""

    job_id: str  #: the job, 32 hexadecimal digits
    job_name: str  #: its name

    def __str__(self) -> str:
        return (
            f"Job {self.job_name!r} ({self.job_id}) was stopped before it had read all of its input, so its result is "
            "not whole and was deleted. Run it again."
        )


@dataclass(frozen=True, slots=True)
class FailureLocation:
    """Where in a job a user's function failed; what a task knows when it reports the failure."""

    operator_name: str  #: the operator whose function raised; empty where the error came outside of them
    operator_uid: str  #: its uid
    subtask_index: int  #: the subtask, counted from 0
    #: the user's file and line, ``"job.py:12"``; None when no line of the user's is in the traceback
    location: str | None = None
    record: str | None = None  #: the repr of the current record, shortened; None outside of records, as in ``open()``
    traceback: str | None = None  #: the traceback of the user's exception as text
    #: the function that chose the operator's records, if that raised, such as ``"key function by_town at job.py:7"``
    chooser: str | None = None

    def __str__(self) -> str:
        where = f"  in subtask {self.subtask_index}, outside of its operators"
        if self.operator_name:
            of = "" if self.chooser is None else f"{self.chooser} of "
            where = (
                f"  in {of}operator {self.operator_name!r} (uid {self.operator_uid!r}), subtask {self.subtask_index}"
            )
        at = "" if self.location is None else f"\n  at {self.location}"
        on = "" if self.record is None else f"\n  on record {self.record}"
        return where + at + on


@declared
class JobExecutionError(JobRunError):
    """The job failed; when a user's function raised, ``__cause__`` is that exception.

    Example:
        >>> place = FailureLocation("ratio", "ratio-1", 3, "prices.py:12", "(7, 0)")
        >>> print(JobExecutionError("0" * 32, "prices", "ZeroDivisionError: division by zero", place))
        Job 'prices' (00000000000000000000000000000000) failed: ZeroDivisionError: division by zero
          in operator 'ratio' (uid 'ratio-1'), subtask 3
          at prices.py:12
          on record (7, 0)
    """

    job_id: str  #: the job, 32 hexadecimal digits
    job_name: str  #: its name
    reason: str  #: type and text of what went wrong, on one line
    #: the operator, subtask, line and record; None when no user function is to blame. Its traceback is shown where
    #: ``__cause__`` was lost on the way through another process.
    place: FailureLocation | None = None

    def __str__(self) -> str:
        headline = f"Job {self.job_name!r} ({self.job_id}) failed: {self.reason}"
        if self.place is None:
            return headline
        shown = self.place.traceback if self.__cause__ is None else None
        above = shown.rstrip("\n") + "\n\n" if shown else ""
        return f"{above}{headline}\n{self.place}"


@declared
class SavepointError(JobRunError):
    """A requested savepoint could not be made; the job continues unless it ends for another reason."""

    path: str  #: the savepoint
    reason: str  #: what happened

    def __str__(self) -> str:
        return f"There is no savepoint {self.path}: {self.reason.removesuffix('.')}."


class StopIncompleteError(SavepointError):
    """A job failed while it stopped, after its savepoint was complete."""

    def __str__(self) -> str:
        return (
            f"The savepoint {self.path} is complete and consistent, but the job failed after that: {self.reason}. Some "
            "of what its sinks staged may not be published yet; a start from that savepoint does that first."
        )


@declared
class StopTimeoutError(SavepointError):
    """A job did not stop in the time that it was given, and was cancelled."""

    reason: str = field(init=False)
    timeout_ms: int  #: the time, in milliseconds
    running: tuple[str, ...]  #: the subtasks that were still at work; empty when none was

    def __post_init__(self) -> None:
        self.reason = f"the job did not stop within {self.timeout_ms} ms"
        super().__post_init__()

    def __str__(self) -> str:
        at = f"still at work: {', '.join(self.running)}" if self.running else "no subtask was at work any more"
        return (
            f"There is no savepoint {self.path}: the job did not stop within {self.timeout_ms} ms ({at}). It was "
            "cancelled; it can continue from its last checkpoint."
        )


@declared
class UnreadableOutputError(JobRunError):
    """The printed or collected output of a job cannot be read back for the program.

    The job retries it when it restarts, unless the output is missing or damaged.
    """

    operator_name: str  #: the operator that printed or collected
    operator_uid: str  #: its uid
    reason: str  #: what happened, with the file

    def __str__(self) -> str:
        return (
            f"What operator {self.operator_name!r} (uid {self.operator_uid!r}) has printed or collected cannot be read "
            f"back: {self.reason.removesuffix('.')}. Where the job ends with this error, the program has not got all "
            "of it; start the job from an older checkpoint, or from the beginning, to have it made again."
        )


@declared
class SplitFetchError(JobRunError):
    """A thread of a source's reader failed to fetch; ``__cause__`` is its exception."""

    reason: str  #: type and text of what went wrong

    def __str__(self) -> str:
        return f"A source could not fetch: {self.reason}. The job restarts from its last checkpoint."


@declared
class StaleAttemptError(JobRunError):
    """A task stopped before writing anything, because a newer attempt has already advanced its state.

    Spark lets replaced tasks run for some more seconds; this error ends them and is harmless.
    """

    operator_uid: str  #: the operator whose state it is
    subtask_index: int  #: the subtask, counted from 0
    checkpoint_id: int  #: the checkpoint that this attempt wanted to build on
    found: str  #: what the state says instead

    def __str__(self) -> str:
        return (
            f"An outdated attempt of operator {self.operator_uid!r}, subtask {self.subtask_index}, stopped: it builds "
            f"on checkpoint {self.checkpoint_id}, but the state is at {self.found}. A newer attempt is running."
        )


@declared
class UnpicklableStateError(JobRunError):
    """A value in keyed state cannot be pickled, so it cannot be part of a checkpoint."""

    state: str  #: the name of the state
    key: str  #: the key's repr, shortened
    type_name: str  #: the qualified name of the value's type
    reason: str  #: what pickling said about it

    def __str__(self) -> str:
        return (
            f"State {self.state!r} holds a {self.type_name} for key {self.key} that cannot be pickled ({self.reason}). "
            "Keep plain data in state, and open connections, locks and files in open()."
        )


@declared
class AccumulatorSizeError(JobRunError):
    """The accumulators of an operator have become too large for the checkpoints that hold them."""

    name: str  #: the largest one
    size: int  #: bytes of all of the operator, pickled
    limit: int  #: bytes that they may have

    def __str__(self) -> str:
        return (
            f"The accumulators of this operator take {self.size:,} bytes, the largest of them is {self.name!r}; "
            f"{self.limit:,} bytes are the limit. Every checkpoint holds them as a whole: count in them, and send "
            "records to a side output or a sink."
        )


@declared
class UnpicklableAccumulatorError(JobRunError):
    """An accumulator cannot be pickled, so it cannot be part of a checkpoint."""

    name: str  #: its name
    reason: str  #: what pickling said about it

    def __str__(self) -> str:
        return (
            f"Accumulator {self.name!r} holds something that cannot be pickled ({self.reason}). "
            "Keep plain data in accumulators."
        )


@declared
class PartitionError(JobRunError):
    """A custom partitioner named a subtask that does not exist."""

    target: str  #: what it returned, as text
    parallelism: int  #: the number of subtasks

    def __str__(self) -> str:
        return (
            f"The partitioner returned {self.target}, but there are {self.parallelism} subtasks, counted from 0. "
            "Return a whole number in that range, such as key % num_partitions for keys that are whole numbers."
        )


@declared
class UnstableKeyError(JobRunError):
    """A key selector gave two keys for one record."""

    operator: str  #: the name of the operator whose stream is keyed
    record: str  #: the record, shortened
    keys: tuple[str, str]  #: the keys, shortened

    def __str__(self) -> str:
        first, second = self.keys
        return (
            f"The key selector of {self.operator!r} gave the key {first} for the record {self.record}, and {second} "
            "when it was asked again. Records of one key would not meet. Make the key of the record alone: without "
            "random numbers, the clock, counters, or the order of a set."
        )


@declared
class BatchColumnsError(JobRunError):
    """A batch of columns does not match its declaration, for example because its columns are not records."""

    columns: tuple[str, ...]  #: the names of its columns
    reason: str  #: what is wrong with it, a clause without a full stop

    def __str__(self) -> str:
        names = f" ({', '.join(self.columns)})" if self.columns else ""
        return f"A batch of columns{names} cannot be used: {self.reason}."


@declared
class DamagedBlockError(JobRunError):
    """A task cannot read a block from another task. The epoch has failed, and the restart strategy decides."""

    size: int  #: its bytes
    encoding: str  #: what its first byte says that it is
    reason: str  #: what reading it has found, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"A block of {self.size} bytes ({self.encoding}) was changed or cut on its way between two tasks: "
            f"{self.reason.removesuffix('.')}. If that comes back, look at the machines: memory, disks, network."
        )


@declared
class SortSpillError(JobRunError):
    """The records of a sort do not fit into memory, and cannot be written to the local disk."""

    directory: str  #: where the sort writes
    reason: str  #: what is wrong with it, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"The sort of a batch job cannot write to {self.directory}: {self.reason}. Nothing was committed. Make "
            "room there, or set SPARK_LOCAL_DIRS or spark.local.dir on the executors to a larger disk; "
            "execution.sorted-inputs.memory says how much of an input stays in memory."
        )


@declared
class LostResultError(JobRunError):
    """A stored result of a batch job's subtask is missing or damaged."""

    path: str  #: the file
    reason: str  #: what is wrong with it, a clause without a full stop
    vertex: int  #: the position of the vertex whose result it is
    subtask: int  #: the subtask

    def __str__(self) -> str:
        return (
            f"{self.path}, a result of subtask {self.subtask} of vertex {self.vertex}, cannot be read: {self.reason}. "
            "Nothing was committed. With execution.batch.job-recovery.enabled the subtask runs again; else start the "
            "job again, with a restart strategy or by hand."
        )


@declared
class DriverCodeError(JobRunError):
    """User code on the driver raised: an enumerator or a committer."""

    where: str  #: what ran, such as ``the enumerator of 'orders'``
    reason: str  #: type and text of the exception, which is the ``__cause__``

    def __str__(self) -> str:
        return f"{self.reason} (in {self.where})"


@declared
class CommitFailedError(DriverCodeError):
    """A sink's committer cannot publish what a durable checkpoint holds; a restart tries again."""

    committables: tuple[str, ...]  #: the ids of those that it was about, or of the first of them
    contents: str  #: what the first of them holds, as far as the committer can tell
    way_out: str  #: what to do, a sentence

    def __str__(self) -> str:
        which = f"committable {', '.join(self.committables)}, which"
        if len(self.committables) > 1:
            which = f"committables {', '.join(self.committables)}, the first of which"
        return f"{self.reason} (in {self.where}; {which} holds {self.contents}). {self.way_out}"


@declared
class CommitOutcomeUnknownError(JobRunError):
    """Nothing can tell any more whether something was committed, such as after its mark in the target has expired.

    Committers raise it, or give it to a request's ``signal_failed_with_unknown_reason``. The job ends with it: to
    commit once more could repeat records, and to leave it could lose them.
    """

    what: str  #: what was to be committed
    reason: str  #: why nobody knows, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"{self.what} may be committed already, or not: {self.reason}. Look into the target, and start the job "
            "once from this checkpoint (execution.state-recovery.path: latest) with penstock.committables "
            "(penstock run -s latest --committable): ID=skip where it has the records, ID=publish where it does not."
        )


@declared
class EpochInfrastructureError(JobRunError):
    """Spark lost an epoch for a reason that is not the user's; running it again may succeed."""

    reason: str  #: what Spark said

    def __str__(self) -> str:
        return f"Spark lost an epoch: {self.reason}"


@declared
class ExecutorLostError(JobRunError):
    """Spark lost an executor; the job runs on, and this stands in its failure history."""

    executor: str  #: its id in Spark
    host: str  #: where it was
    reason: str  #: what Spark said

    def __str__(self) -> str:
        return (
            f"executor {self.executor} on {self.host} is lost ({self.reason or 'Spark does not say why'}); its tasks "
            "run again where there are executors, and restore their state there"
        )


@declared
class TaskRetriedError(JobRunError):
    """Spark ran a task of an epoch again; the epoch counts, and this stands in the failure history of the job."""

    level: int  #: the level of the task, from 0
    slot: int  #: its slot
    host: str  #: where the attempt was that failed
    reason: str  #: what Spark said

    def __str__(self) -> str:
        return (
            f"Spark ran the task of slot {self.slot} in level {self.level} again, after an attempt on {self.host} "
            f"({self.reason or 'Spark does not say why'}); only one attempt counts"
        )


@declared
class SparkGoneError(JobRunError):
    """The JVM that Spark ran in has ended, so this process can run no epoch any more."""

    reason: str  #: how that showed

    def __str__(self) -> str:
        return (
            f"Spark's JVM has ended ({self.reason}): by a signal, for want of memory, or by a fault of its own. Start "
            "the program again; with execution.state-recovery.path: latest it continues from its newest checkpoint."
        )


@declared
class SparkStoppedError(SparkGoneError):
    """The Spark application has ended under its job: the cluster has dropped it, or the session was stopped."""

    def __str__(self) -> str:
        return (
            f"The Spark application has ended under the job ({self.reason}): the cluster has dropped it, or the "
            "program has stopped its session. Start the program again; with execution.state-recovery.path: latest it "
            "continues from its newest checkpoint."
        )


@declared
class CheckpointExpiredError(JobRunError):
    """No task of a checkpoint's epoch ended for longer than ``execution.checkpointing.timeout``."""

    checkpoint_id: int  #: the checkpoint
    timeout_ms: int  #: the timeout in milliseconds
    running: tuple[str, ...]  #: the subtasks that were still at work

    def __str__(self) -> str:
        expired = f"Checkpoint {self.checkpoint_id} expired: no task of its epoch ended for {self.timeout_ms} ms."
        if not self.running:
            return (
                f"{expired} None was running: Spark had no executor for them, or executors that it has lost touch "
                "with. Look at the cluster (`penstock doctor --master`); where its master has dropped the application, "
                "start the program again."
            )
        return (
            f"{expired} Still at work: {', '.join(self.running)}. Make the function faster, give it a higher "
            "parallelism, or raise execution.checkpointing.timeout."
        )


@declared
class CheckpointRequestError(JobRunError):
    """A requested checkpoint could not be made; the job continues unless it ends for another reason."""

    reason: str  #: what happened

    def __str__(self) -> str:
        return f"There is no checkpoint: {self.reason}."


@declared
class EpochCancelledError(JobRunError):
    """An epoch was interrupted because its driver asked for it."""

    checkpoint_id: int  #: the checkpoint that the epoch was to make

    def __str__(self) -> str:
        return f"The epoch of checkpoint {self.checkpoint_id} was cancelled."
