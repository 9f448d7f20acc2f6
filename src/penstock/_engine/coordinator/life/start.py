"""Starts a job: the driver finds the job, chooses what to restore, and takes the job over.

The takeover is a chain entry with the next id, and comes before any other change outside. From then on an older driver
of the same job can complete nothing, because the id of its next entry is taken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.chain import ChainWriter, DriverIdentity
from penstock._engine.coordinator.checkpoints.snapshots import resumable
from penstock._engine.coordinator.events import (
    ChainEntriesListed,
    ChainEntryRead,
    ChainEntryStored,
    ChainEntryTaken,
    ChainEntryUncertain,
    DriverFound,
    InstructionFailed,
    JobEventsFound,
    JobsListed,
    LaterCheckpointFound,
    MarkRead,
    RecordsHandedOver,
    StartRecorded,
)
from penstock._engine.coordinator.instructions import (
    FindDriver,
    FindJobEvents,
    FindLaterCheckpoint,
    HandOverRecords,
    Instruction,
    ListChainEntries,
    ListJobs,
    LogMessage,
    PutChainEntry,
    ReadChainEntry,
    ReadMark,
    RecordStart,
)
from penstock._engine.coordinator.life.earlier_runs import check_records, nothing_at
from penstock._engine.coordinator.life.headline import headline, remarks_on_others, restore_remarks
from penstock._engine.coordinator.phases import StartPhase
from penstock._engine.coordinator.restore.commit_decisions import (
    decided,
    decision_remarks,
    settled,
    without_commits_of,
)
from penstock._engine.coordinator.restore.origin import ownership
from penstock._engine.coordinator.restore.reopening import reopen
from penstock._engine.coordinator.restore.state_assignment import RestoredCheckpoint, assign_state
from penstock._engine.operators.operator_factory import OperatorRole
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind, ParentCheckpoint
from penstock._engine.protocol.paths import checkpoint_path, job_id_of_name
from penstock.common import option_table
from penstock.errors import (
    ChangedProgramError,
    ConfigurationError,
    CorruptCheckpointError,
    FencedError,
    JobRunningError,
    NoCheckpointError,
    UndeliveredResultsError,
)

if TYPE_CHECKING:
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.protocol.batch_program import BatchProgram
    from penstock._engine.protocol.metadata import StoredCommits

#: What writes output that outlives the job.
_WRITERS: Final = frozenset({OperatorRole.SINK_WRITER, OperatorRole.CACHE})
#: A takeover whose outcome is unknown is put again this often.
_TAKEOVER_TRIES: Final = 5

#: The last entries of a job that has read all of its input, and of one that a user has ended.
_DONE: Final = frozenset({ChainEntryKind.FINISHED, ChainEntryKind.DRAINED})
_STOPPED: Final = frozenset({ChainEntryKind.SUSPENDED, ChainEntryKind.DRAINED, ChainEntryKind.CANCELED})

_NOTHING_TO_DECIDE: Final = (
    "job {} begins without a checkpoint, so it has nothing to decide about; start it from the checkpoint of which the "
    "error spoke (execution.state-recovery.path: latest, or penstock run -s latest)"
)

#: Logged if a job continues from the savepoint of a drain.
DRAINED: Final = (
    "{} was drained: windows and event-time timers have fired, and do not fire again. What still arrives for a window "
    "that was open then makes a second result of it. Suspend a job (stop without drain) to continue without a seam."
)

#: Shown before a job is taken over from a driver that is known to run.
_RUNS: Final = "Job {} runs in {}. This start takes it over, and that driver ends."

_NAMELESS: Final = (
    "none of its records can be read, so it may be job {!r}, and latest would start that fresh; where it is another "
    "one, move it away, or set penstock.job-id for this one"
)


class JobStart:
    """Starts one job in this driver: finds it, reads the state to restore, and takes the job over.

    Args:
        settings: The job's settings.
        identity: This driver.
        graph: The job; a checkpoint that does not fit it is refused before the takeover.
    """

    def __init__(self, settings: JobSettings, identity: DriverIdentity, graph: JobGraph) -> None:
        self._settings = settings
        self._identity = identity
        self._graph = graph
        self.phase = StartPhase.NEW
        self.job_id = settings.job_id or ""
        #: The checkpoint that the job continues from; None for a fresh start.
        self.restored: RestoredCheckpoint | None = None
        #: The terminal entry of a job that has nothing left to do.
        self.already_ended: ChainEntry | None = None
        self.chain: ChainWriter | None = None
        self._ids: tuple[int, ...] = ()
        #: Whether, by its newest entries, the job continues from the checkpoint of a stop.
        self._resumes = False
        self._newest: ChainEntry | None = None
        #: The entry that was read last, which leads to the next one, and its path.
        self._named_by: tuple[ChainEntry, str] | None = None
        #: The paths that entries have led to.
        self._followed: set[str] = set()
        #: The id of the newest entry that has led to no checkpoint, and the error about that.
        self._gone: tuple[int, NoCheckpointError] | None = None
        #: What the newest entry that led to the checkpoint knows of its commits.
        self._commits: StoredCommits | None = None
        #: The stored takeovers of this driver, and below the one that is being stored.
        self._takeovers: list[ChainEntry] = []
        self._takeover: ChainEntry | None = None
        #: Whether another driver has taken the id of a takeover.
        self._was_late = False
        self._tries = 0
        #: When the event came that it reacts to.
        self.now_ms = 0

    def begin(self) -> list[Instruction]:
        """Return the first instructions."""
        if self._settings.finds_itself and not self.job_id:
            self.phase = StartPhase.FINDING_JOB
            return [ListJobs(self._settings.job_name)]
        self.job_id = self.job_id or self._identity.fresh_job_id
        return self._list()

    def failed(self, event: InstructionFailed) -> list[Instruction]:
        """End the start with the error of an instruction."""
        raise event.error

    def mark_read(self, event: MarkRead) -> list[Instruction]:
        """Name a new job after its name and the mark of the directory."""
        self.job_id = job_id_of_name(self._settings.job_name, event.mark)
        return self._list()

    def jobs_listed(self, event: JobsListed) -> list[Instruction]:
        """Choose the job of that name that was started last."""
        if event.started_last is not None:
            self.job_id = event.started_last
            return self._list()
        named = [job for job in event.jobs if job.job_name == self._settings.job_name]
        if named:
            self.job_id = max(named, key=lambda job: job.created_ms).job_id
            return self._list()
        if event.nameless:  # one of them may be this job, which would then start without its state
            raise CorruptCheckpointError(event.nameless[0], _NAMELESS.format(self._settings.job_name))
        check_records(self._settings, repr(self._settings.job_name), 0)
        self.phase = StartPhase.NAMING_JOB
        return [ReadMark(self._identity.fresh_job_id)]

    def _list(self) -> list[Instruction]:
        self.phase = StartPhase.LISTING
        self.restored, self._newest, self._resumes, self._commits = None, None, False, None
        self._followed.clear()
        self._named_by = None
        return [ListChainEntries(self.job_id)]

    def entries_listed(self, event: ChainEntriesListed) -> list[Instruction]:
        """Read the newest entry of the chain.

        Raises:
            NoCheckpointError: What an earlier listing led to is gone, and no driver has deleted it for a newer one.
        """
        self._ids = event.ids
        if self._gone is not None and (not self._ids or self._ids[-1] <= self._gone[0]):
            raise self._gone[1]
        check_records(self._settings, self._job, self._ids[-1] if self._ids else 0)
        if not self._ids:
            return self._choose(None)
        self.phase = StartPhase.LOOKING
        return [self._read(checkpoint_path(self.job_id, self._ids[-1]), is_followed=self._settings.finds_itself)]

    def _read(self, path: str, *, is_followed: bool) -> ReadChainEntry:
        return ReadChainEntry(path, is_followed, self.job_id if self._settings.finds_itself else None)

    def newest_read(self, event: ChainEntryRead) -> list[Instruction]:
        """Choose what to restore, knowing the newest entry.

        Raises:
            FencedError: It is of a driver that came after this one's takeover was stored: it continues this start, or
                has begun the job anew.
        """
        newest = self._newest = event.entry
        if newest is not None and self._came_later(newest):
            raise FencedError(self.job_id, newest.checkpoint_id, self._identity.run_id, newest.run_id)
        return self._choose(event)

    def _came_later(self, newest: ChainEntry) -> bool:
        return self._identity.run_id in newest.runs or any(newest.begins > own.checkpoint_id for own in self._takeovers)

    def newest_failed(self, event: InstructionFailed) -> list[Instruction]:
        """Choose what to restore without a damaged newest entry, which may be the reason for a start from elsewhere."""
        if self._settings.finds_itself or not isinstance(event.error, CorruptCheckpointError):
            raise event.error
        return self._choose(None)

    def _choose(self, newest: ChainEntryRead | None) -> list[Instruction]:
        path = self._settings.recovery_path
        if self._settings.finds_itself:
            if newest is None or (path is None and not self._continues):
                return self._start_fresh()
            self.phase = StartPhase.READING
            return self.entry_read(newest)
        if path is None:
            return self._take_over()
        self.phase = StartPhase.READING
        return [ReadChainEntry(path)]

    def _start_fresh(self) -> list[Instruction]:
        """Start the job fresh, unless it has finished during this start, or its driver was lost before its own end."""
        if self._newest is None or self._newest.kind is not ChainEntryKind.FINISHED:
            return self._take_over()
        if self._was_late:
            return self._end_finished(self._newest)
        self.phase = StartPhase.LOOKING_FOR_EVENTS
        return [FindJobEvents(self.job_id, self._newest.run_id)]

    def job_events_found(self, event: JobEventsFound) -> list[Instruction]:
        """End the job that has finished: its events are deleted last, so its program has not heard of its end."""
        assert self._newest is not None
        return self._end_finished(self._newest) if event.are_there else self._take_over()

    def _end_finished(self, finished: ChainEntry) -> list[Instruction]:
        """Run nothing; but a job that has only collected its results, and writes nothing, computes them once more."""
        writes = any(node.factory.role in _WRITERS for node in self._graph.operators.values())
        return self._take_over() if self._settings.collects and not writes else self._end(finished)

    @property
    def _continues(self) -> bool:
        """Whether this driver continues an earlier run of the job: it is to, and that run has not ended the job."""
        return self._settings.latest or (
            self._settings.finds_itself and self._newest is not None and not self._newest.is_terminal
        )

    def entry_read(self, event: ChainEntryRead) -> list[Instruction]:
        """Restore the checkpoint, or follow an entry that names another one; list again if that is gone."""
        entry = event.entry
        if entry is None:
            error = nothing_at(event.path, self._job, self._named_by)
            if not self._settings.finds_itself:
                raise error
            self._gone = self._ids[-1], error
            return self._list()
        self._named_by = entry, event.path
        self._commits = self._commits or entry.commits
        match entry.kind:
            case ChainEntryKind.CHECKPOINT | ChainEntryKind.SAVEPOINT:
                return self._restore(entry, event.path)
            case _ if self._stays_ended(entry):
                return self._end(entry)
            case ChainEntryKind.SUSPENDED | ChainEntryKind.DRAINED | ChainEntryKind.CANCELED if (
                entry.savepoint is not None
            ):
                return [self._follow(entry.savepoint, event.path)]
            case ChainEntryKind.TAKEOVER | ChainEntryKind.FAILED if entry.parent is None and self._continues:
                self._check_program(entry)
                return self._take_over()  # there is no checkpoint yet, so the job starts without state
            case _ if entry.parent is not None:
                self._resumes = self._resumes or entry.resumes or entry.kind is ChainEntryKind.CANCELED
                return [self._follow(entry.parent.path, event.path)]
            case _:
                reason = f"the job ended ({entry.kind.value}) before its first checkpoint"
                if entry.kind is ChainEntryKind.TAKEOVER:
                    reason = "that entry is of a start, and the job had no checkpoint before it"
                raise NoCheckpointError(event.path, self._job, reason)

    def _stays_ended(self, entry: ChainEntry) -> bool:
        """Tell whether an entry is the end of the job: it has finished, or was stopped in its supervised program."""
        earlier, collects = self._settings.earlier, self._settings.collects
        if entry.kind in _STOPPED and earlier is not None and earlier.has_ended and not collects:
            return True
        return entry.kind in _DONE and self._settings.latest and not self._settings.reopened_sources

    def _end(self, entry: ChainEntry) -> list[Instruction]:
        """Run nothing: the job has ended, and what it collected went to an earlier program."""
        if self._settings.collects:
            raise UndeliveredResultsError(self._settings.job_name, self.job_id)
        self.already_ended = entry
        self.phase = StartPhase.DONE
        return []

    def _check_program(self, begun: ChainEntry) -> None:
        """Refuse to recover a batch job that another program has begun."""
        recovery = self._settings.recovery
        if recovery is None or begun.program is None:
            return
        difference = recovery.program.difference(
            begun.program, accept_changed_functions=recovery.accept_changed_functions
        )
        if difference:
            raise ChangedProgramError(self._settings.job_name, self.job_id, difference)

    def _follow(self, path: str, named_by: str) -> ReadChainEntry:
        """Read the entry that an entry names; a circle of entries raises CorruptCheckpointError."""
        if path in self._followed:
            raise CorruptCheckpointError(named_by, f"it continues from {path}, and that from it")
        self._followed.add(path)
        return self._read(path, is_followed=True)

    def _restore(self, entry: ChainEntry, path: str) -> list[Instruction]:
        if entry.snapshot is None:
            raise CorruptCheckpointError(path, "its metadata says that it is a checkpoint, but holds no state")
        ignore = self._settings.ignore_unclaimed_state
        # A stop that was under way is completed, unless it was given up or the user has named that checkpoint itself.
        stopping = entry.savepoint if self._settings.latest and not self._resumes else None
        known = entry.snapshot if self._commits is None else entry.snapshot.with_commits(self._commits)
        stored = resumable(known) if stopping is None else known
        again = reopen(stored, self._graph, self._settings.reopened_sources if stopping is None else ())
        assignment = assign_state(
            again.snapshot, self._graph, path, ignore_unclaimed=ignore, stops=stopping is not None
        )
        drained = stopping is None and any(operator.drained for operator in entry.snapshot.operators.values())
        said = (LogMessage(DRAINED.format(path), unexpected=True),) if drained else ()
        remarks = (*said, *restore_remarks(assignment, again))
        self.restored = RestoredCheckpoint(entry, path, assignment, stopping, remarks)
        if self._settings.finds_itself:
            return self._decide()
        self.phase = StartPhase.COMPARING
        return [FindLaterCheckpoint(path, entry, self._settings.job_name, self.job_id, self._settings.claim)]

    def later_checkpoint_found(self, found: LaterCheckpointFound) -> list[Instruction]:
        """Warn of output that will be published twice, then take the job over."""
        restored = self.restored
        assert restored is not None
        if found.commits is not None and self._commits is None:
            commits = found.commits.of_operators(restored.entry.renamed)
            restored = restored.knowing(restored.assignment.snapshot.with_commits(commits))
        said = (*remarks_on_others(restored.entry, found), *restored.remarks)
        self.restored = replace(restored, later=found.checkpoint_id, remarks=said)
        return self._decide()

    def _decide(self) -> list[Instruction]:
        """Do with committables what the user has decided; files of their records come before the takeover."""
        restored = self.restored
        assert restored is not None
        snapshot = without_commits_of(restored.assignment.snapshot, restored.assignment.dropped)
        about = decided(snapshot, self._settings.commit_decisions, restored.path)
        told = (*restored.remarks, *decision_remarks(about, snapshot))
        self.restored = replace(restored.knowing(settled(snapshot, about, self._graph)), remarks=told)
        files = {
            one.decision.records: replace(one.commit, committables=(one.committable,))
            for one in about
            if one.decision.records is not None
        }
        if not files:
            return self._take_over()
        self.phase = StartPhase.HANDING_OVER
        runs = (*(() if self._newest is None else self._newest.runs), self._identity.run_id)
        return [HandOverRecords(files, self.job_id, runs, restored.entry.checkpoint_id)]

    def records_handed_over(self, _: RecordsHandedOver) -> list[Instruction]:
        """Take the job over: what is given up is in its files."""
        return self._take_over()

    def _take_over(self) -> list[Instruction]:
        """Take the job over; where its records do not say that it has ended, look for its driver before.

        Raises:
            ConfigurationError: The user has decided about committables, and there is no checkpoint that has any.
        """
        if self.restored is None and self._settings.commit_decisions:
            ids = ", ".join(one.committable for one in self._settings.commit_decisions)
            raise ConfigurationError(option_table.COMMITTABLES.key, ids, _NOTHING_TO_DECIDE.format(self._job))
        if self._ids and (self._newest is None or not self._newest.is_terminal):
            self.phase = StartPhase.LOOKING_FOR_DRIVER
            return [FindDriver(self.job_id)]
        return self._begin_takeover()

    def driver_found(self, event: DriverFound) -> list[Instruction]:
        """Say that the job is taken over from a driver that runs, before it is.

        Raises:
            JobRunningError: It is not to be.
        """
        if not event.place:
            return self._begin_takeover()
        if not self._settings.takes_over:
            raise JobRunningError(self._settings.job_name, self.job_id, event.place)
        said = LogMessage(_RUNS.format(self._job, event.place), unexpected=True, shown=True)
        return [said, *self._begin_takeover()]

    def _begin_takeover(self) -> list[Instruction]:
        """Put a takeover entry with the next id of the chain."""
        self.phase = StartPhase.TAKING_OVER
        self._takeovers.clear()
        next_id = self._ids[-1] + 1 if self._ids else 1
        parent = self.restored and ParentCheckpoint(self.restored.entry.checkpoint_id, self.restored.path)
        own = ownership(
            self._newest, self.restored, self._settings, next_id, self._identity.run_id, continues=self._continues
        )
        name = self._settings.job_name
        resumes = self.restored is not None and self.restored.resumes
        self.chain = ChainWriter(
            self._identity, self.job_id, name, next_id, parent, own.claimed, own.begins, own.runs, resumes
        )
        self.chain.program = self._program(next_id)
        return self._put_takeover(self.chain)

    def _program(self, next_id: int) -> BatchProgram | None:
        """Return the program of a batch job with recovery, with the takeover since which its events count."""
        recovery, newest = self._settings.recovery, self._newest
        if recovery is None:
            return None
        goes_on = newest is not None and newest.kind is ChainEntryKind.TAKEOVER and self._continues
        begun = newest.program if goes_on and newest is not None else None
        return replace(recovery.program, first=next_id if begun is None else begun.first)

    def _put_takeover(self, chain: ChainWriter) -> list[Instruction]:
        self._tries = 0
        commits = None if self.restored is None else self.restored.assignment.snapshot.commits
        self._takeover = chain.make(ChainEntryKind.TAKEOVER, self.now_ms, commits=commits)
        return [PutChainEntry(self._takeover)]

    def takeover_answered(self, event: ChainEntryStored | ChainEntryTaken | ChainEntryUncertain) -> list[Instruction]:
        """Check the takeover once it is stored; begin again if another driver was faster."""
        takeover, chain = self._takeover, self.chain
        assert takeover is not None and chain is not None  # noqa: PT018 - set together
        if isinstance(event, ChainEntryUncertain):
            self._tries += 1
            if self._tries >= _TAKEOVER_TRIES:
                raise event.error
            return [PutChainEntry(takeover)]
        if isinstance(event, ChainEntryTaken) and not takeover.same_write(event.existing):
            self._was_late = True
            return self._list()
        self._takeovers.append(takeover)
        chain.stored(takeover)
        restored = self.restored
        if restored is not None and restored.entry.checkpoint_id >= chain.next_id:
            # A checkpoint from elsewhere: ids continue after its id, because committers remember the last one.
            chain.next_id = restored.entry.checkpoint_id + 1
            return self._put_takeover(chain)
        self.phase = StartPhase.VERIFYING
        return [ListChainEntries(self.job_id)]

    def takeover_verified(self, event: ChainEntriesListed) -> list[Instruction]:
        """Check that no other driver has taken an id after the first takeover of this one.

        A driver that skipped ids, for a checkpoint from elsewhere, yields. Where the other one did, it has not seen
        this one's takeover, and this one begins again behind it. Else the other one came later, and fences this one
        (`newest_read`).
        """
        own = {entry.checkpoint_id for entry in self._takeovers}
        others = [number for number in event.ids if number > min(own) and number not in own]
        if others and len(own) > 1:
            raise FencedError(self.job_id, others[-1], self._identity.run_id, "of a driver started at the same time")
        if others:
            return self._list()
        self.phase = StartPhase.RECORDING_START
        claimed = () if self.chain is None else self.chain.claimed
        return [RecordStart(self._settings.job_name, self.job_id, claimed)]

    def start_recorded(self, _: StartRecorded) -> list[Instruction]:
        """End the start."""
        self.phase = StartPhase.DONE
        return []

    @property
    def remarks(self) -> tuple[LogMessage, ...]:
        """What the start says: its headline, then remarks."""
        first = headline(self._settings, self._job, self.restored, self._newest, continues=self._continues)
        return first, *(() if self.restored is None else self.restored.remarks)

    @property
    def _job(self) -> str:
        return f"{self._settings.job_name!r} ({self.job_id})"
