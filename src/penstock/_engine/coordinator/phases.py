"""The phases of a job in its driver, the moves between them, and the status that each one shows.

STARTING → CREATED → RECOVERING → OPENING → NOTIFYING_SOURCES ⇄ PAUSED
↑                    ↓  ↑
|                  EPOCH → CUTTING → STORING → EXPORTING → WAITING_FOR_COMMITS → RECORDING → NOTIFYING_SOURCES
BACKING_OFF ← TEARDOWN ← (any of these)         NOTIFYING_SOURCES → FINISHING → RELEASING → CLOSING → ENDED
RECOVERING → SAVING ← RECORDING                 SAVING → NOTIFYING → FINISHING
                                                SAVING → RESUMING → TEARDOWN
                                                FINISHING → CLOSING, where no function listens
                                                FINISHING → EPOCH, in a batch job with operators behind a committer
FAILING, CANCELLING ← (any of these)            FAILING, CANCELLING → CLOSING → ENDED
RECOVERING → RECONCILING → OPENING and EPOCH → SNAPSHOTTING → NOTIFYING_SOURCES → RECORDING → FINISHING, in a batch job
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from penstock.common.job_status import JobStatus


class Phase(Enum):
    """A phase of a job's coordinator."""

    #: The driver finds the job, chooses what to restore, and takes the job over.
    STARTING = auto()
    #: The takeover is stored; files of a checkpoint from elsewhere are being copied.
    CREATED = auto()
    #: The outstanding commits of the checkpoint are being done, before anything new is read.
    RECOVERING = auto()
    #: A batch job with recovery takes up what earlier drivers have recorded, and waits for stored results.
    RECONCILING = auto()
    #: Enumerators start and readers register.
    OPENING = auto()
    #: A checkpoint has completed: enumerators are notified and get their readers' events.
    NOTIFYING_SOURCES = auto()
    #: The next epoch waits for its time.
    PAUSED = auto()
    #: An epoch runs on Spark; in a batch job, a stage.
    EPOCH = auto()
    #: The epoch counts; accumulators are added up, enumerators take their snapshots.
    SNAPSHOTTING = auto()
    #: State that the metadata has no room for is being written to files.
    STORING = auto()
    #: The job stops with this epoch: its savepoint is being written, except for the name of its metadata.
    EXPORTING = auto()
    #: The chain entry waits until each sink has committed the checkpoint before the last.
    WAITING_FOR_COMMITS = auto()
    #: The chain entry is being stored: the commit point.
    RECORDING = auto()
    #: The job stops with the completed checkpoint: its savepoint is being named.
    SAVING = auto()
    #: The savepoint could not be named: the chain entry that lets the job continue is being stored.
    RESUMING = auto()
    #: The savepoint exists: enumerators are notified of the checkpoint that the job stops with.
    NOTIFYING = auto()
    #: All subtasks have finished, or the savepoint exists; the last commits are being done.
    FINISHING = auto()
    #: Everything is committed: checkpoint listeners are notified of the last checkpoint, and functions are closed.
    RELEASING = auto()
    #: The job has failed and will restart; it is being torn down.
    TEARDOWN = auto()
    #: The job waits for its restart.
    BACKING_OFF = auto()
    #: The job has failed for good; it is being torn down.
    FAILING = auto()
    #: The job was cancelled; it is being torn down.
    CANCELLING = auto()
    #: The terminal entry is being stored.
    CLOSING = auto()
    #: Nothing follows.
    ENDED = auto()


class StartPhase(Enum):
    """A phase of the start of a job: what the driver waits for."""

    NEW = auto()
    FINDING_JOB = auto()
    #: There is no job of that name yet: its id will come from the name and the mark of the directory.
    NAMING_JOB = auto()
    LISTING = auto()
    #: The newest entry of the chain, which says what the job owns.
    LOOKING = auto()
    #: A batch job has finished: whether the driver that has finished it came to its own end.
    LOOKING_FOR_EVENTS = auto()
    #: The entry of the checkpoint to restore.
    READING = auto()
    #: The later checkpoints of the job whose checkpoint the user has named.
    COMPARING = auto()
    #: Records of committables that the user gives up.
    HANDING_OVER = auto()
    #: Whether another driver of the job runs, as far as is known.
    LOOKING_FOR_DRIVER = auto()
    TAKING_OVER = auto()
    #: Whether another driver has taken the job over at the same time.
    VERIFYING = auto()
    #: The job's new place in the start order of its name.
    RECORDING_START = auto()
    DONE = auto()


#: The phases of a running job, each of which can fail.
RUNNING: Final = frozenset(
    {
        Phase.RECOVERING,
        Phase.RECONCILING,
        Phase.OPENING,
        Phase.NOTIFYING_SOURCES,
        Phase.PAUSED,
        Phase.EPOCH,
        Phase.SNAPSHOTTING,
        Phase.STORING,
        Phase.EXPORTING,
        Phase.WAITING_FOR_COMMITS,
        Phase.RECORDING,
        Phase.SAVING,
        Phase.RESUMING,
        Phase.NOTIFYING,
        Phase.FINISHING,
        Phase.RELEASING,
    }
)

#: The phases of a teardown, in which no new work begins.
STOPPING: Final = frozenset({Phase.TEARDOWN, Phase.FAILING, Phase.CANCELLING})

#: The phases of an epoch between its end and its commit point.
CHECKPOINTING: Final = frozenset(
    {Phase.SNAPSHOTTING, Phase.STORING, Phase.EXPORTING, Phase.WAITING_FOR_COMMITS, Phase.RECORDING}
)

_ONWARD: Final[dict[Phase, frozenset[Phase]]] = {
    Phase.STARTING: frozenset({Phase.CREATED, Phase.ENDED}),
    Phase.CREATED: frozenset({Phase.RECOVERING}) | STOPPING,
    Phase.RECOVERING: frozenset({Phase.RECONCILING, Phase.OPENING, Phase.SAVING}),
    Phase.RECONCILING: frozenset({Phase.OPENING}),
    Phase.OPENING: frozenset({Phase.NOTIFYING_SOURCES}),
    Phase.NOTIFYING_SOURCES: frozenset({Phase.EPOCH, Phase.PAUSED, Phase.RECORDING, Phase.FINISHING}),
    Phase.PAUSED: frozenset({Phase.EPOCH}),
    Phase.EPOCH: frozenset({Phase.SNAPSHOTTING, Phase.EPOCH}),
    Phase.SNAPSHOTTING: frozenset(
        {Phase.STORING, Phase.EXPORTING, Phase.WAITING_FOR_COMMITS, Phase.RECORDING, Phase.NOTIFYING_SOURCES}
    ),
    Phase.STORING: frozenset({Phase.EXPORTING, Phase.WAITING_FOR_COMMITS, Phase.RECORDING}),
    Phase.EXPORTING: frozenset({Phase.WAITING_FOR_COMMITS, Phase.RECORDING}),
    Phase.WAITING_FOR_COMMITS: frozenset({Phase.RECORDING}),
    Phase.RECORDING: frozenset({Phase.NOTIFYING_SOURCES, Phase.SAVING, Phase.FINISHING, Phase.ENDED}),
    Phase.SAVING: frozenset({Phase.NOTIFYING, Phase.FINISHING, Phase.RESUMING}),
    Phase.RESUMING: frozenset({Phase.ENDED}),
    Phase.NOTIFYING: frozenset({Phase.FINISHING}),
    Phase.FINISHING: frozenset({Phase.RELEASING, Phase.CLOSING, Phase.EPOCH}),
    Phase.RELEASING: frozenset({Phase.RELEASING, Phase.CLOSING}),
    Phase.TEARDOWN: frozenset({Phase.BACKING_OFF, Phase.CANCELLING, Phase.ENDED}),
    Phase.BACKING_OFF: frozenset({Phase.RECOVERING, Phase.CANCELLING}),
    Phase.FAILING: frozenset({Phase.CLOSING, Phase.CANCELLING, Phase.ENDED}),
    Phase.CANCELLING: frozenset({Phase.CLOSING, Phase.ENDED}),
    Phase.CLOSING: frozenset({Phase.ENDED}),
    Phase.ENDED: frozenset(),
}

#: By phase: all that may follow it.
MOVES: Final[dict[Phase, frozenset[Phase]]] = {
    phase: onward | (STOPPING if phase in RUNNING else frozenset()) for phase, onward in _ONWARD.items()
}

#: The status that a phase shows; other phases keep the one before.
STATUS: Final[dict[Phase, JobStatus]] = {
    Phase.STARTING: JobStatus.INITIALIZING,
    Phase.CREATED: JobStatus.CREATED,
    **dict.fromkeys(RUNNING, JobStatus.RUNNING),
    Phase.RECONCILING: JobStatus.RECONCILING,
    Phase.TEARDOWN: JobStatus.RESTARTING,
    Phase.BACKING_OFF: JobStatus.RESTARTING,
    Phase.FAILING: JobStatus.FAILING,
    Phase.CANCELLING: JobStatus.CANCELLING,
}
