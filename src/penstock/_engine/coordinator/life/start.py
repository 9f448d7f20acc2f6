"""How a driver begins: find the job, choose what to restore, claim the next id.

The claim comes before anything else that changes the world. From then on an older driver of the same job can complete
nothing any more: it wants the id that is taken now.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.chain import ChainWriter, DriverIdentity
from penstock._engine.coordinator.checkpoints.snapshots import resumable
from penstock._engine.coordinator.events import (
    ChainEntriesListed,
    ChainEntryRead,
    ChainEntryStored,
    ChainEntryTaken,
    ChainEntryUncertain,
    Event,
    InstructionFailed,
    JobsListed,
    LaterCheckpointFound,
    MarkRead,
    StartRecorded,
)
from penstock._engine.coordinator.instructions import (
    FindLaterCheckpoint,
    Instruction,
    ListChainEntries,
    ListJobs,
    LogMessage,
    PutChainEntry,
    ReadChainEntry,
    ReadMark,
    RecordStart,
)
from penstock._engine.coordinator.restore.origin import ownership
from penstock._engine.coordinator.restore.reopening import ReopenedSources, reopen
from penstock._engine.coordinator.restore.state_assignment import RestoredCheckpoint, StateAssignment, assign_state
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind, ParentCheckpoint
from penstock._engine.protocol.paths import checkpoint_path, job_id_of_name
from penstock.errors import CorruptCheckpointError, FencedError, InternalError, NoCheckpointError

if TYPE_CHECKING:
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.graph.job_graph import JobGraph

#: A claim whose outcome is unknown is put again this often.
_CLAIM_TRIES: Final = 5

_LEFT_NOTHING: Final = (
    "the job has finished and left no checkpoint, as jobs do that end without penstock.restart-finished-sources"
)

#: Said where a job goes on from what a drain has left.
DRAINED: Final = (
    "{} was drained: windows and event-time timers have fired, and do not fire again. What still arrives for a window "
    "that was open then makes a second result of it. Suspend a job (stop without drain) to go on without a seam."
)

#: Said where a job starts from what its job, or that of another id, has gone on from already.
_PUBLISHED: Final = (
    "{path} is not the newest state of job {job_id}, which has completed {checkpoints} behind it. What sinks have "
    "published with {them} is published again, and so is what was printed. To repeat nothing, start from that job's "
    "newest checkpoint, or as that job with execution.state-recovery.path: latest."
)

#: Said where a job starts from what others go on from.
_GO_ON_TOO: Final = (
    "{path} is what job {jobs} may go on from, too: as far as records say, it has not ended. What comes behind that "
    "checkpoint is then published by each of them, and where they write to one place it is there twice. Let this job "
    "write elsewhere, or cancel the other one first."
)

_BY_RANK: Final = (
    "{} does not say where operators without a uid stood in the program, as an older version wrote it. Each takes the "
    "state of its rank among those of its kind on its input; that is another one's if the program has changed there: {}"
)


_ANEW: Final = (
    "Job {} begins anew, although an earlier run of that id has left checkpoints. They stay where they are, until you "
    "remove them (`penstock clean --retained`); with execution.state-recovery.path: latest the job goes on from them."
)


_NAMELESS: Final = (
    "none of its records can be read, so it may be job {!r}, and latest would begin that anew; where it is another "
    "one, move it away, or set penstock.job-id for this one"
)


class StartPhase(Enum):
    """What a starting driver waits for."""

    NEW = auto()
    FINDING_JOB = auto()
    #: There is no job of that name yet.
    NAMING_JOB = auto()
    LISTING = auto()
    #: The newest entry of the chain: it says what a job owns that goes on from there.
    LOOKING = auto()
    READING = auto()
    #: What its job has completed after the checkpoint that the user has named.
    COMPARING = auto()
    TAKING_OVER = auto()
    VERIFYING = auto()
    #: The claim gets its place behind those of other jobs of the name.
    RECORDING_START = auto()
    DONE = auto()


class JobStart:
    """Starts a driver: finds the job, reads the state to restore, and claims the next id.

    Args:
        settings: The job's settings.
        identity: This driver.
        graph: The job; a checkpoint that does not fit it is refused before the claim.
    """

    def __init__(self, settings: JobSettings, identity: DriverIdentity, graph: JobGraph) -> None:
        self._settings = settings
        self._identity = identity
        self._graph = graph
        self.phase = StartPhase.NEW
        self.job_id = settings.job_id or ""
        #: What the job goes on from; None for a fresh start.
        self.restored: RestoredCheckpoint | None = None
        #: The entry that says that there is nothing to do, as it was found.
        self.already_ended: ChainEntry | None = None
        self.chain: ChainWriter | None = None
        self._ids: tuple[int, ...] = ()
        #: What the newest entries say of the job: whether it goes on where it was to stop, and whether it has finished.
        self._resumes = self._finished = False
        self._newest: ChainEntry | None = None
        #: Claims of this driver that are on the chain, and the one that is on its way there.
        self._claims: list[ChainEntry] = []
        self._claim_entry: ChainEntry | None = None
        self._tries = 0

    def begin(self) -> list[Instruction]:
        """Return the first instructions."""
        if self._settings.latest and not self.job_id:
            self.phase = StartPhase.FINDING_JOB
            return [ListJobs(self._settings.job_name)]
        self.job_id = self.job_id or self._identity.fresh_job_id
        return self._list()

    def handle(self, event: Event, now_ms: int) -> list[Instruction]:
        """Go on after the answer to an instruction.

        Raises:
            PenstockError: The job cannot start; the error says why.
        """
        match self.phase, event:
            case ((StartPhase.FINDING_JOB | StartPhase.NAMING_JOB), (JobsListed() | MarkRead())):
                return self._found(event)
            case StartPhase.LISTING, ChainEntriesListed(ids):
                self._ids = ids
                return self._choose(now_ms)
            case StartPhase.LOOKING, ChainEntryRead() | InstructionFailed():
                return self._looked(event, now_ms)
            case (StartPhase.READING, ChainEntryRead()) | (StartPhase.COMPARING, LaterCheckpointFound()):
                return self._read(event, now_ms)
            case StartPhase.TAKING_OVER, ChainEntryStored() | ChainEntryTaken() | ChainEntryUncertain():
                return self._answered(event, now_ms)
            case (StartPhase.VERIFYING, ChainEntriesListed()) | (StartPhase.RECORDING_START, StartRecorded()):
                return self._verify(event)
            case _, InstructionFailed(error):
                raise error
            case _:
                raise InternalError(f"A starting driver got {event} while {self.phase.name}.")

    def _found(self, event: JobsListed | MarkRead) -> list[Instruction]:
        if isinstance(event, MarkRead):
            self.job_id = job_id_of_name(self._settings.job_name, event.mark)
            return self._list()
        if event.started_last is not None:
            self.job_id = event.started_last
            return self._list()
        named = [job for job in event.jobs if job.job_name == self._settings.job_name]
        if named:
            self.job_id = max(named, key=lambda job: job.created_ms).job_id
            return self._list()
        if event.nameless:  # one of them may be this job, which would begin anew
            raise CorruptCheckpointError(event.nameless[0], _NAMELESS.format(self._settings.job_name))
        self.phase = StartPhase.NAMING_JOB
        return [ReadMark(self._identity.fresh_job_id)]

    def _list(self) -> list[Instruction]:
        self.phase = StartPhase.LISTING
        self.restored, self._newest, self._resumes, self._finished = None, None, False, False
        return [ListChainEntries(self.job_id)]

    def _choose(self, now_ms: int) -> list[Instruction]:
        if not self._ids:
            return self._go_on(None, now_ms)
        self.phase = StartPhase.LOOKING
        return [ReadChainEntry(checkpoint_path(self.job_id, self._ids[-1]))]

    def _looked(self, event: ChainEntryRead | InstructionFailed, now_ms: int) -> list[Instruction]:
        if isinstance(event, ChainEntryRead):
            self._newest = event.entry
            return self._go_on(event, now_ms)
        # Who starts from elsewhere may do so because the newest is damaged.
        if self._settings.latest or not isinstance(event.error, CorruptCheckpointError):
            raise event.error
        return self._go_on(None, now_ms)

    def _go_on(self, newest: ChainEntryRead | None, now_ms: int) -> list[Instruction]:
        path = self._settings.recovery_path
        if path is None or (self._settings.latest and newest is None):
            return self._claim(now_ms)
        self.phase = StartPhase.READING
        return self._read(newest, now_ms) if newest is not None and self._settings.latest else [ReadChainEntry(path)]

    def _read(self, event: ChainEntryRead | LaterCheckpointFound, now_ms: int) -> list[Instruction]:
        if isinstance(event, LaterCheckpointFound):
            return self._compared(event, now_ms)
        entry = event.entry
        if entry is None:
            reason = _LEFT_NOTHING if self._finished else "there is no checkpoint metadata at that path"
            raise NoCheckpointError(event.path, self._job, reason)
        match entry.kind:
            case ChainEntryKind.CHECKPOINT | ChainEntryKind.SAVEPOINT:
                return self._restore(entry, event.path, now_ms)
            case ChainEntryKind.FINISHED | ChainEntryKind.DRAINED if self._settings.latest and not self._reopens:
                self.already_ended = entry
                self.phase = StartPhase.DONE
                return []
            case ChainEntryKind.SUSPENDED | ChainEntryKind.DRAINED | ChainEntryKind.CANCELED if (
                entry.savepoint is not None
            ):
                return [ReadChainEntry(entry.savepoint)]
            case ChainEntryKind.TAKEOVER | ChainEntryKind.FAILED if entry.parent is None and self._settings.latest:
                return self._claim(now_ms)  # nothing was committed yet, so it begins at the beginning
            case _ if entry.parent is not None:
                self._resumes = self._resumes or entry.resumes or entry.kind is ChainEntryKind.CANCELED
                self._finished = self._finished or entry.kind is ChainEntryKind.FINISHED
                return [ReadChainEntry(entry.parent.path)]
            case _:
                reason = f"the job ended ({entry.kind.value}) before its first checkpoint"
                if entry.kind is ChainEntryKind.TAKEOVER:
                    reason = "that is the record of a start, and the job had no checkpoint before it"
                raise NoCheckpointError(event.path, self._job, reason)

    def _restore(self, entry: ChainEntry, path: str, now_ms: int) -> list[Instruction]:
        if entry.snapshot is None:
            raise CorruptCheckpointError(path, "its metadata says that it is a checkpoint, but holds no state")
        ignore = self._settings.ignore_unclaimed_state
        # A stop that was under way comes to its end, unless it was given up or the user wants that checkpoint itself.
        stopping = entry.savepoint if self._settings.latest and not self._resumes else None
        stored = resumable(entry.snapshot) if stopping is None else entry.snapshot
        again = reopen(stored, self._graph, self._settings.reopened_sources if stopping is None else ())
        assignment = assign_state(
            again.snapshot, self._graph, path, ignore_unclaimed=ignore, stops=stopping is not None
        )
        drained = stopping is None and any(operator.drained for operator in entry.snapshot.operators.values())
        remarks = (LogMessage(DRAINED.format(path), unexpected=True),) if drained else ()
        if assignment.by_rank:
            remarks = (*remarks, LogMessage(_BY_RANK.format(path, ", ".join(assignment.by_rank)), unexpected=True))
        self.restored = RestoredCheckpoint(entry, path, assignment, stopping, (*remarks, *_remarks(assignment, again)))
        if self._settings.latest:
            return self._claim(now_ms)
        self.phase = StartPhase.COMPARING
        return [FindLaterCheckpoint(path, entry, self._settings.job_name, self.job_id)]

    def _compared(self, found: LaterCheckpointFound, now_ms: int) -> list[Instruction]:
        restored, later = self.restored, found.checkpoint_id
        assert restored is not None
        if found.others:
            text = _GO_ON_TOO.format(path=found.path, jobs=" and ".join(found.others))
            restored = self.restored = replace(restored, remarks=(LogMessage(text, unexpected=True), *restored.remarks))
        if later is not None:
            first, job_id = restored.entry.checkpoint_id + 1, restored.entry.job_id
            one = first == later
            text = _PUBLISHED.format(
                path=found.path,
                job_id=job_id,
                checkpoints=f"checkpoint {first}" if one else f"checkpoints {first} to {later}",
                them="it" if one else "them",
            )
            said = LogMessage(text, unexpected=True)
            self.restored = replace(restored, later=later, remarks=(said, *restored.remarks))
        return self._claim(now_ms)

    def _claim(self, now_ms: int) -> list[Instruction]:
        """Claim the next id of the chain."""
        self.phase = StartPhase.TAKING_OVER
        self._claims.clear()
        next_id = self._ids[-1] + 1 if self._ids else 1
        parent = self.restored and ParentCheckpoint(self.restored.entry.checkpoint_id, self.restored.path)
        own = ownership(self._newest, self.restored, self._settings, next_id, self._identity.run_id)
        name = self._settings.job_name
        resumes = self.restored is not None and self.restored.resumes
        self.chain = ChainWriter(
            self._identity, self.job_id, name, next_id, parent, own.claimed, own.begins, own.runs, resumes
        )
        return self._put_claim(self.chain, now_ms)

    def _put_claim(self, chain: ChainWriter, now_ms: int) -> list[Instruction]:
        self._tries = 0
        self._claim_entry = chain.make(ChainEntryKind.TAKEOVER, now_ms)
        return [PutChainEntry(self._claim_entry)]

    def _answered(
        self, event: ChainEntryStored | ChainEntryTaken | ChainEntryUncertain, now_ms: int
    ) -> list[Instruction]:
        claim, chain = self._claim_entry, self.chain
        assert claim is not None and chain is not None  # noqa: PT018 - set together
        if isinstance(event, ChainEntryUncertain):
            self._tries += 1
            if self._tries >= _CLAIM_TRIES:
                raise event.error
            return [PutChainEntry(claim)]
        if isinstance(event, ChainEntryTaken) and not claim.same_write(event.existing):
            return self._list()
        self._claims.append(claim)
        chain.stored(claim)
        restored = self.restored
        if restored is not None and restored.entry.checkpoint_id >= chain.next_id:
            # From elsewhere: ids also rise beyond its own, because committers remember the last one.
            chain.next_id = restored.entry.checkpoint_id + 1
            return self._put_claim(chain, now_ms)
        self.phase = StartPhase.VERIFYING
        return [ListChainEntries(self.job_id)]

    def _verify(self, event: ChainEntriesListed | StartRecorded) -> list[Instruction]:
        """Check that no other driver has claimed an id beyond the first claim of this one.

        That can only be where one of them skipped ids, for a checkpoint from elsewhere; the one that skipped yields.
        """
        if isinstance(event, StartRecorded):
            self.phase = StartPhase.DONE
            return []
        own = {entry.checkpoint_id for entry in self._claims}
        others = [number for number in event.ids if number > min(own) and number not in own]
        if others and len(own) > 1:
            raise FencedError(self.job_id, others[-1], self._identity.run_id, "of a driver started at the same time")
        if others:
            return self._list()
        self.phase = StartPhase.RECORDING_START
        return [RecordStart(self._settings.job_name, self.job_id)]

    @property
    def remarks(self) -> tuple[LogMessage, ...]:
        """What a person wants to know of the start."""
        if self.restored is not None:
            return self.restored.remarks
        newest = self._newest
        if newest is None or self._settings.latest or (newest.is_terminal and not newest.keeps_checkpoints):
            return ()
        return (LogMessage(_ANEW.format(self._job), unexpected=True),)

    @property
    def _job(self) -> str:
        return f"{self._settings.job_name!r} ({self.job_id})"

    @property
    def _reopens(self) -> bool:
        """Whether a job that has come to its end may go on."""
        return bool(self._settings.reopened_sources)


def _remarks(assignment: StateAssignment, again: ReopenedSources) -> tuple[LogMessage, ...]:
    return (
        *(LogMessage(f"The state of operator {name} is dropped") for name in assignment.dropped),
        *(LogMessage(f"Source {uid!r} had finished and looks for new input") for uid in again.sources),
        *(
            LogMessage(
                f"penstock.restart-finished-sources has no effect on {uid!r}, which has not finished", unexpected=True
            )
            for uid in again.unfinished
        ),
    )
