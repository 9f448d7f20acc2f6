"""Errors of the state to start from, and of where state is kept."""

from __future__ import annotations

from penstock._errors.root import PenstockError, declared


class RestoreError(PenstockError):
    """The job cannot start from the configured state, or cannot store state in the configured place."""


@declared
class CheckpointStorageError(RestoreError):
    """The directory for checkpoints or savepoints cannot be used."""

    path: str  #: the directory
    reason: str  #: what failed, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"Checkpoint storage {self.path} cannot be used: {self.reason}. Check the path and its permissions, or "
            "choose another directory (execution.checkpointing.dir or .savepoint-dir)."
        )


@declared
class JobRunningError(RestoreError):
    """The job runs in another process, and this start is not to take it over."""

    job_name: str  #: the job
    job_id: str  #: its id
    place: str  #: where it runs

    def __str__(self) -> str:
        return (
            f"Job {self.job_name!r} ({self.job_id}) runs in {self.place}, and this start is not to take it over "
            "(penstock.takeover: false). Stop that one first (penstock stop), or leave the setting out to take it over."
        )


@declared
class ChangedProgramError(RestoreError):
    """A batch job cannot be recovered from what an earlier run of it has done, because its program has changed."""

    job_name: str  #: the job
    job_id: str  #: its id
    difference: str  #: what has changed, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"Batch job {self.job_name!r} ({self.job_id}) has begun with another program: {self.difference}. Start the "
            "program as it was; or start fresh under another name or penstock.job-id. Where only functions have "
            "changed, penstock.batch.accept-changed-functions lets the rest of the job run with the new ones."
        )


@declared
class OtherOperatorError(RestoreError):
    """A savepoint holds state of an operator whose uid another kind of operator has now."""

    savepoint: str  #: the savepoint or checkpoint
    before: str  #: the operator in it
    uid: str  #: the uid
    now: str  #: the operator of the job, with its line
    reason: str  #: what differs, a clause with both

    def __str__(self) -> str:
        return (
            f"{self.savepoint} holds state of operator {self.before!r} (uid {self.uid!r}), and {self.now} has that "
            f"uid now: {self.reason}. Give the uid to the operator that the state is for; or set "
            "execution.state-recovery.ignore-unclaimed-state to drop the state."
        )


@declared
class RepeatedJobError(RestoreError):
    """With ``latest``, a job would be another one that its program has submitted before."""

    job_name: str  #: the job
    job_id: str | None  #: its configured id, None where it is found by its name

    def __str__(self) -> str:
        known = "of that name" if self.job_id is None else f"with the penstock.job-id {self.job_id!r}"
        return (
            f"{self.job_name!r} is refused: this program has submitted a job {known} before, and with "
            "execution.state-recovery.path: latest this one would be that job: it would run nothing where that one has "
            "finished, and else take its place. Give each job of a program its own name (env.execute) or "
            "penstock.job-id; or leave out latest."
        )


@declared
class UndeliveredResultsError(RestoreError):
    """A job has finished in an earlier run, and what that one has collected cannot be delivered again."""

    job_name: str  #: the job
    job_id: str  #: its id

    def __str__(self) -> str:
        return (
            f"Job {self.job_name!r} ({self.job_id}) has finished in an earlier run, and its sinks have their output; "
            "but what it collected went to the program of that run, and is not kept. To compute that once more, start "
            "the job under another name or penstock.job-id, or without execution.state-recovery.path: latest: its "
            "sinks get their output once more, too. Or leave what collects out of the program."
        )


@declared
class CorruptCheckpointError(RestoreError):
    """A file of a checkpoint or savepoint is damaged or missing."""

    path: str  #: the file
    reason: str  #: what is wrong with it, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be restored: {self.reason}. Restore the file from a copy, or set "
            "execution.state-recovery.path to an older checkpoint."
        )


class UnsupportedFormatError(CorruptCheckpointError):
    """A file of a checkpoint or savepoint is in a format that this version of Penstock does not read."""

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be read by this version of Penstock: {self.reason}. Use the version that wrote it, or "
            "a newer one."
        )


@declared
class ExposedCheckpointError(RestoreError):
    """Other users can change the files that a job was started from, and unpickling them would run their code."""

    path: str  #: the file or directory that others can change
    reason: str  #: why they can, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"{self.path} is not restored: {self.reason}, so others may have changed the state that is unpickled from "
            f"there. Make it yours alone (chmod -R go-w, chown), sign checkpoints (penstock.state.signing-key), or let "
            "execution.state-recovery.path name that very savepoint or checkpoint if you trust it."
        )


class SignatureError(CorruptCheckpointError):
    """A checkpoint or savepoint has no signature of the key that is configured, so its state is not unpickled."""

    def __str__(self) -> str:
        place = self.path.removesuffix("/_metadata")
        return (
            f"{self.path} is not restored: {self.reason} (penstock.state.signing-key). If you know who wrote it, sign "
            f"it: penstock savepoint sign {place}. If it was signed with an earlier key, name that behind the new one."
        )


@declared
class UnknownStateError(RestoreError):
    """A savepoint does not hold the requested state."""

    path: str  #: the savepoint or checkpoint
    wanted: str  #: what was asked for
    known: tuple[str, ...]  #: what there is in its place

    def __str__(self) -> str:
        return f"{self.path} has no {self.wanted}; it has {', '.join(self.known) or 'none'}."


@declared
class SavepointChangeError(RestoreError):
    """A savepoint cannot be written, changed or deleted as requested; nothing was done."""

    path: str  #: the savepoint
    reason: str  #: why not, and the way out, a clause without a full stop

    def __str__(self) -> str:
        return f"The savepoint {self.path} stays as it is: {self.reason}."


@declared
class LocalStateError(RestoreError):
    """The directory for keyed state on an executor's local disk cannot be used."""

    path: str  #: the directory
    reason: str  #: what is wrong with it, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"Keyed state cannot be kept in {self.path}: {self.reason}. It needs a directory of this user's own on a "
            "local disk; let TMPDIR of the executors on that host name one."
        )


@declared
class CheckpointClaimedError(RestoreError):
    """A checkpoint or savepoint that a job was to claim, or to continue from as its own, was claimed by another job."""

    path: str  #: the checkpoint or savepoint
    job_id: str  #: the job that has claimed it, 32 hexadecimal digits
    job_name: str  #: its name
    directory: str  #: the checkpoint directory of that job
    file: str  #: the file with the claim
    newest: str | None = None  #: the job's newest record in that directory; None if there is none

    def __str__(self) -> str:
        job, mode = f"job {self.job_name!r} ({self.job_id})", "execution.state-recovery.claim-mode: NO_CLAIM"
        danger = "Each of two jobs that own it would continue from it, and delete it."
        gone = f"If that job is gone for good, delete {self.file}; then this job may claim."
        if self.newest is not None:
            return (
                f"{self.path} was claimed by {job}, which has not ended as far as its newest record in "
                f"{self.directory} says, {self.newest}. {danger} Let that job continue "
                "(execution.state-recovery.path: latest, with penstock.job-id where another job has its name) or "
                f"cancel it, or start this one with {mode}. {gone}"
            )
        return (
            f"{self.path} was claimed by {job}. Whether that job has ended is not known here: {self.directory} has "
            f"no record of it, so it is not mounted on this machine, or was deleted. {danger} Mount that directory "
            f"here, or start this job with {mode}. {gone}"
        )


@declared
class NoCheckpointError(RestoreError):
    """The configuration names a checkpoint to start from that does not exist."""

    path: str  #: the checkpoint, savepoint or directory that was searched
    job: str  #: the job that was looked for, by id or name
    reason: str  #: what was found instead, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"No checkpoint of job {self.job} to start from in {self.path}: {self.reason}. Set "
            "execution.state-recovery.path (penstock run -s) to a checkpoint that exists, or leave it out to start "
            "without state."
        )


class MissingRecordsError(NoCheckpointError):
    """A job has run before, and the checkpoint directory does not have the records of that."""

    def __str__(self) -> str:
        return (
            f"Job {self.job} is not started from {self.path}: {self.reason}. It would start fresh, and publish its "
            "results a second time. See whether execution.checkpointing.dir is mistyped, and whether its disk is "
            "mounted; then set the right directory, or bring it back."
        )


class MovedCheckpointError(NoCheckpointError):
    """A job's own records name the savepoint or checkpoint that it continues from, and nothing is there."""

    def __str__(self) -> str:
        return (
            f"Job {self.job} continues from {self.path}, and nothing is there: {self.reason}. It was moved or deleted, "
            "or its disk is not mounted. Let execution.state-recovery.path (penstock run -s) name the place where it "
            "is now, or bring it back. If it is lost, a start without that key starts fresh, and publishes a second "
            "time what was published."
        )


@declared
class SupervisionNoteError(RestoreError):
    """The note of a supervised program's jobs exists, but cannot be used."""

    path: str  #: the file
    reason: str  #: what is wrong with it, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"The note of this program's jobs, {self.path}, cannot be used: {self.reason}. Without it the jobs would "
            "start fresh beside their checkpoints, so the program is not started again. Start it with `penstock run "
            "--supervise -s latest`, which finds the newest checkpoint of each job by the job's name, and keep that "
            "directory from being cleaned."
        )


@declared
class StateClassError(RestoreError):
    """State holds values whose classes were removed, or do not accept the stored fields."""

    state: str  #: the name of the state
    reason: str  #: what unpickling said about it

    def __str__(self) -> str:
        return (
            f"State {self.state!r} holds values that cannot be read any more: {self.reason}. Their classes have to be "
            "in the modules that they were in, under the names that they had; fields may be added to them with a "
            "default in the class. To do without that state, give its operator another uid and set "
            "execution.state-recovery.ignore-unclaimed-state to true."
        )


@declared
class UntrustedClassError(RestoreError):
    """A savepoint or data frame has a value of a class that was not allowed; creating the value would run code."""

    name: str  #: what its pickle names, with the module
    state: str | None = None  #: the state, where it is known

    def __str__(self) -> str:
        what = "A value" if self.state is None else f"State {self.state!r}"
        return (
            f"{what} is not read: it names {self.name}, and making the value would run its code. If that is a class of "
            f"your program, allow it with classes=[{self.name!r}], or the class itself, where you begin: in "
            "Savepoint.open, SavepointWriter.from_existing or SavepointWriter.new. classes=None allows all that is "
            "named, functions as well: for a savepoint or data frame that only people whom you trust could write."
        )


@declared
class TemporaryCheckpointsError(RestoreError):
    """The temporary checkpoints of a job were removed while it ran."""

    path: str  #: their directory

    def __str__(self) -> str:
        return (
            f"The temporary checkpoints of the job, {self.path}, are gone: something has cleaned that directory while "
            "the job ran. It cannot continue without them. Set execution.checkpointing.dir to a directory that stays."
        )


@declared
class UnclaimedStateError(RestoreError):
    """A checkpoint or savepoint holds state of an operator that the job does not have."""

    path: str  #: the checkpoint or savepoint
    uid: str  #: the uid whose state no operator has
    known_uids: tuple[str, ...]  #: the uids that the job has
    commits: int = 0  #: how many of its committables are still to be committed

    def __str__(self) -> str:
        lost = (
            f" Its {self.commits} committables that are still to be committed would be lost: start the job once with "
            "the sink as it was, which commits them."
            if self.commits
            else ""
        )
        return (
            f"{self.path} holds state of operator uid {self.uid!r}, but this job only has "
            f"{', '.join(self.known_uids) or 'operators without uid'}. Give that uid to the operator that continues "
            "the state, or set execution.state-recovery.ignore-unclaimed-state to true (penstock run -n) to drop it."
            f"{lost}"
        )


@declared
class MovedOperatorError(RestoreError):
    """The program has changed around an operator without a uid, so its place no longer identifies it."""

    path: str  #: the checkpoint or savepoint
    operator: tuple[str, str]  #: the operator whose state is there: its name and the uid that was generated for it
    #: the operators that may continue it: the one that would get the state, else those of the same kind; each by its
    #: name and the user's file and line
    now: tuple[str, ...]
    reason: str  #: what has changed, a clause without a full stop

    def __str__(self) -> str:
        name, uid = self.operator
        return (
            f"{self.path} holds state of operator {name!r}, which had no uid and is known by its place in the program "
            f"alone. That has changed: {self.reason}. The state might now go to {' or '.join(self.now) or 'none'}. "
            f"Give the operator that continues {name!r} the uid({uid!r}), and each other one with state a uid(...) of "
            "its own; or set execution.state-recovery.ignore-unclaimed-state to true (penstock run -n) to drop that "
            "state."
        )


@declared
class FinishedOperatorError(RestoreError):
    """The job was changed so that an operator before a finished one may still send records.

    Source: org.apache.flink.runtime.checkpoint.VertexFinishedStateChecker.
    """

    path: str  #: the checkpoint or savepoint
    operator: tuple[str, str]  #: the operator that has finished: its name and uid
    extent: str  #: how much of it: ``finished`` or ``partly finished``
    before: tuple[str, str]  #: the operator before it: its name and uid
    reason: str  #: what would have to be true of the one before, a clause without a full stop

    def __str__(self) -> str:
        (name, uid), (before, before_uid) = self.operator, self.before
        return (
            f"{self.path} cannot be restored, because the job graph was changed: {name!r} (uid {uid!r}) is "
            f"{self.extent} there, and what has finished takes no records any more; but {before!r} (uid "
            f"{before_uid!r}) comes before it: {self.reason}. Remove that operator, move it after the other one, or "
            "give the other one a new uid, so that it starts without state."
        )


@declared
class MaxParallelismError(RestoreError):
    """The program has set another max parallelism than the keyed state was written with."""

    path: str  #: the checkpoint or savepoint
    operator: str  #: the operator, by name
    uid: str  #: its uid
    stored: int  #: the max parallelism of the state
    wanted: int  #: the one that the program has set

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be restored: {self.operator!r} (uid {self.uid!r}) has max parallelism {self.wanted}, "
            f"and its keyed state there {self.stored}. Set the max parallelism to {self.stored}, or do not set it: "
            "then that of the state is taken over."
        )


@declared
class MixedChainError(RestoreError):
    """Operators that run as one vertex have finished to different extents.

    Source: org.apache.flink.runtime.checkpoint.VertexFinishedStateChecker.
    """

    path: str  #: the checkpoint or savepoint
    vertex: str  #: the vertex, by name
    states: tuple[tuple[str, str], ...]  #: by uid of its operators: ``running``, ``partly finished`` or ``finished``

    def __str__(self) -> str:
        states = ", ".join(f"{uid!r} is {state}" for uid, state in self.states)
        return (
            f"{self.path} cannot be restored: the operators of vertex {self.vertex!r} have finished to different "
            f"extents ({states}; an operator that is not there counts as running). Keep them apart with "
            "start_new_chain() or disable_chaining(), and give uids to operators, so that each finds its own state."
        )


@declared
class ParallelismLimitError(RestoreError):
    """The job is to run with more subtasks than its keyed state has key groups."""

    path: str  #: the checkpoint or savepoint
    operator: str  #: the operator, by name
    uid: str  #: its uid
    parallelism: int  #: the parallelism that the job has
    max_parallelism: int  #: the max parallelism of the state

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be restored: {self.operator!r} (uid {self.uid!r}) has parallelism {self.parallelism}, "
            f"and its keyed state there max parallelism {self.max_parallelism}, which is fixed for its life. Lower the "
            f"parallelism to {self.max_parallelism} at most."
        )
