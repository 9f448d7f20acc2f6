"""The phases of a job in its driver, the moves between them, and the status that each one shows.

STARTING → CREATED → RECOVERING → OPENING → SETTLING ⇄ PAUSED
↑                    ↓  ↑
|                  EPOCH → CUTTING → STORING → EXPORTING → AWAITING_ROOM → RECORDING → SETTLING
BACKING_OFF ← TEARDOWN ← (any of these)         SETTLING → FINISHING → RELEASING → CLOSING → ENDED
RECOVERING → SAVING ← RECORDING                 SAVING → NOTIFYING → FINISHING
                                                SAVING → RESUMING → TEARDOWN
                                                FINISHING → CLOSING, where no function listens
FAILING, CANCELLING ← (any of these)            FAILING, CANCELLING → CLOSING → ENDED
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from penstock.common.job_status import JobStatus


class Phase(Enum):
    """What a job's coordinator is doing."""

    #: Finding the job, choosing what to restore, claiming the next id.
    STARTING = auto()
    #: The job is ours; files of a checkpoint from elsewhere are being copied.
    CREATED = auto()
    #: The outstanding commits of the checkpoint are being done, before anything new is read.
    RECOVERING = auto()
    #: Enumerators start and readers register.
    OPENING = auto()
    #: A checkpoint has completed: enumerators hear of it, and what their readers sent.
    SETTLING = auto()
    #: Nothing to do before a moment in time.
    PAUSED = auto()
    #: An epoch runs on Spark.
    EPOCH = auto()
    #: The epoch counts; accumulators are added up, enumerators take their snapshots.
    SNAPSHOTTING = auto()
    #: State that is too much for the metadata goes to files.
    STORING = auto()
    #: The job stops with this epoch: the savepoint is written, all but the name of its entry.
    EXPORTING = auto()
    #: The epoch's entry waits until a sink has committed the checkpoint before the last.
    AWAITING_ROOM = auto()
    #: The entry is on its way: the commit point.
    RECORDING = auto()
    #: The job stops with the checkpoint that has completed: the savepoint's own entry gets its name.
    SAVING = auto()
    #: That savepoint cannot be: the entry is on its way which says that the job goes on.
    RESUMING = auto()
    #: The savepoint is there: enumerators hear of the checkpoint that the job stops with.
    NOTIFYING = auto()
    #: All subtasks have finished, or the savepoint is there; the last commits are being done.
    FINISHING = auto()
    #: All is committed: functions that listen hear of the last checkpoint, and all are closed.
    RELEASING = auto()
    #: The job has failed and will start again; what runs is being ended.
    TEARDOWN = auto()
    #: The job waits for its restart.
    BACKING_OFF = auto()
    #: The job has failed for good; what runs is being ended.
    FAILING = auto()
    #: The job was cancelled; what runs is being ended.
    CANCELLING = auto()
    #: The terminal entry is on its way.
    CLOSING = auto()
    #: Nothing follows.
    ENDED = auto()


#: The phases of a job that runs: each of them can break off.
RUNNING: Final = frozenset(
    {
        Phase.RECOVERING,
        Phase.OPENING,
        Phase.SETTLING,
        Phase.PAUSED,
        Phase.EPOCH,
        Phase.SNAPSHOTTING,
        Phase.STORING,
        Phase.EXPORTING,
        Phase.AWAITING_ROOM,
        Phase.RECORDING,
        Phase.SAVING,
        Phase.RESUMING,
        Phase.NOTIFYING,
        Phase.FINISHING,
        Phase.RELEASING,
    }
)

#: The phases in which what runs is being ended, and no new work begins.
STOPPING: Final = frozenset({Phase.TEARDOWN, Phase.FAILING, Phase.CANCELLING})

#: The phases of an epoch between its end and its commit point.
CUT: Final = frozenset({Phase.SNAPSHOTTING, Phase.STORING, Phase.EXPORTING, Phase.AWAITING_ROOM, Phase.RECORDING})

_ONWARD: Final[dict[Phase, frozenset[Phase]]] = {
    Phase.STARTING: frozenset({Phase.CREATED, Phase.ENDED}),
    Phase.CREATED: frozenset({Phase.RECOVERING}) | STOPPING,
    Phase.RECOVERING: frozenset({Phase.OPENING, Phase.SAVING}),
    Phase.OPENING: frozenset({Phase.SETTLING}),
    Phase.SETTLING: frozenset({Phase.EPOCH, Phase.PAUSED, Phase.FINISHING}),
    Phase.PAUSED: frozenset({Phase.EPOCH}),
    Phase.EPOCH: frozenset({Phase.SNAPSHOTTING, Phase.EPOCH}),
    Phase.SNAPSHOTTING: frozenset({Phase.STORING, Phase.EXPORTING, Phase.AWAITING_ROOM, Phase.RECORDING}),
    Phase.STORING: frozenset({Phase.EXPORTING, Phase.AWAITING_ROOM, Phase.RECORDING}),
    Phase.EXPORTING: frozenset({Phase.AWAITING_ROOM, Phase.RECORDING}),
    Phase.AWAITING_ROOM: frozenset({Phase.RECORDING}),
    Phase.RECORDING: frozenset({Phase.SETTLING, Phase.SAVING, Phase.ENDED}),
    Phase.SAVING: frozenset({Phase.NOTIFYING, Phase.FINISHING, Phase.RESUMING}),
    Phase.RESUMING: frozenset({Phase.ENDED}),
    Phase.NOTIFYING: frozenset({Phase.FINISHING}),
    Phase.FINISHING: frozenset({Phase.RELEASING, Phase.CLOSING}),
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

#: The status that a phase shows; a phase that is not named keeps the one before.
STATUS: Final[dict[Phase, JobStatus]] = {
    Phase.STARTING: JobStatus.INITIALIZING,
    Phase.CREATED: JobStatus.CREATED,
    **dict.fromkeys(RUNNING, JobStatus.RUNNING),
    Phase.TEARDOWN: JobStatus.RESTARTING,
    Phase.BACKING_OFF: JobStatus.RESTARTING,
    Phase.FAILING: JobStatus.FAILING,
    Phase.CANCELLING: JobStatus.CANCELLING,
}
