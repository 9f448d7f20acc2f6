"""What the driver tells the tasks of an epoch, and what their subtasks answer at the end.

All of it is plain data in MessagePack (`encode`, `decode`): the driver never unpickles anything to learn how an
epoch went. What is opaque to the engine (split states, committables, collected records) stays bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock._engine.protocol.state_handle import Lineage, StateHandle  # noqa: TC001 - msgspec evaluates them

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T = TypeVar("T")


class StopMode(StrEnum):
    """How an epoch ends its job (FLIP-34)."""

    #: It does not.
    NO = ""
    #: Nothing more is read; timers, windows and readers stay as they are.
    SUSPEND = "suspend"
    #: Nothing more is read, and all input ends: the whole order of the end of a job.
    DRAIN = "drain"
    #: As suspend, but the job then ends as cancelled.
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """How far one channel had come at the end of an epoch."""

    watermark: int = MIN_WATERMARK
    idle: bool = False
    ended: bool = False


#: Accepted attempts of a subtask that a dispatch names: a Python process that has not had the subtask for longer
#: has nothing left of it.
HISTORY: Final = 16

#: A channel that has not spoken yet, and one that will not speak any more.
UNHEARD: Final = ChannelStatus()
ENDED: Final = ChannelStatus(MAX_WATERMARK, ended=True)


@dataclass(frozen=True, slots=True)
class OperatorRestore:
    """What one operator of a subtask starts an epoch from."""

    #: Keyed state: the snapshot and the accepted deltas up to the last completed checkpoint.
    lineage: Lineage = ()
    #: What the operator returned from its last accepted snapshot, None at a fresh start.
    state: bytes | None = None
    #: Operator events for a source reader, oldest first (see `protocol.events`).
    events: tuple[bytes, ...] = ()
    #: Operator state: the subtask's own, and between it, in the order of the subtasks, the union lists of the others.
    operator_state: Lineage = ()


@dataclass(frozen=True, slots=True)
class SubtaskDispatch:
    """One subtask's part of an epoch's dispatch."""

    #: Position of the vertex in the job graph, and of the subtask in the vertex.
    vertex: int
    subtask: int
    #: Accepted (checkpoint id, token) pairs of this subtask, oldest first, of this run: names usable cache entries.
    history: tuple[tuple[int, int], ...] = ()
    #: By operator uid.
    operators: dict[str, OperatorRestore] = field(default_factory=dict[str, OperatorRestore])
    #: Its watermark at the end of its last epoch.
    input_watermark: int = MIN_WATERMARK
    #: Whether it runs for the first time: it hears of the ends of its senders that have finished before.
    is_new: bool = False
    #: By edge out of it: what its receivers know of its channels.
    outputs: dict[int, ChannelStatus] = field(default_factory=dict[int, ChannelStatus])
    #: Source subtasks: records that this epoch may read at most, bytes that it may send, and for how long it may read.
    max_records: int = 0
    max_bytes: int = 0
    max_time_ms: int = 0
    #: Cut the chains of this subtask's keyed state: write a snapshot in place of a delta.
    full_snapshot: bool = False
    #: Write all operator state anew: the checkpoint is to name no file of an earlier one.
    write_all: bool = False
    #: A savepoint is made of this checkpoint: it is to name nothing that a later one takes away.
    for_savepoint: bool = False
    #: The job's last completed checkpoint, 0 at a fresh start; operators that took part in it are notified.
    completed_checkpoint: int = 0
    #: The subtask runs nothing: the named operators are notified of that checkpoint, their last one, and closed.
    is_notification: bool = False


@dataclass(frozen=True, slots=True)
class EdgeStatus:
    """What is known of all channels of one edge when an epoch begins: once for all receivers, by sender."""

    #: The least watermark of a sender that has not finished, and how far each one's is above it.
    watermark: int
    above: tuple[int, ...]
    #: Senders that are idle, and those that have finished.
    idle: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()

    @staticmethod
    def of(statuses: Sequence[ChannelStatus]) -> EdgeStatus:
        """Put the statuses of all senders together."""
        least = min((status.watermark for status in statuses if not status.ended), default=MIN_WATERMARK)
        return EdgeStatus(
            least,
            tuple(0 if status.ended else status.watermark - least for status in statuses),
            tuple(sender for sender, status in enumerate(statuses) if status.idle),
            tuple(sender for sender, status in enumerate(statuses) if status.ended),
        )

    def statuses(self) -> list[ChannelStatus]:
        """Return the status of each sender."""
        idle, ended = set(self.idle), set(self.ended)
        return [
            ChannelStatus(self.watermark + above, sender in idle, sender in ended)
            for sender, above in enumerate(self.above)
        ]


@dataclass(frozen=True, slots=True)
class JobDispatch:
    """What is the same for all tasks of a run: it travels with the plan, once for each executor."""

    job_id: str
    job_name: str
    #: One start of the job in one driver; worker caches of another run are never used.
    run_id: str
    #: The pickled job program: inline, or its path in the checkpoint storage when it is large.
    program: bytes | None
    program_path: str | None
    #: The checkpoint storage; the options to open it are not here, because there are secrets among them.
    storage_url: str
    #: Seals the dispatches that lie in the checkpoint storage. Random, and known to those alone who get this by Spark.
    dispatch_key: bytes = field(repr=False)
    #: Directory on the executor's local disk for state; made by the task.
    local_directory: str = ""
    #: Entries of sys.path that a worker on the driver's machine adds, so that the user's modules import.
    python_path: tuple[str, ...] = ()
    #: Effective configuration of the job that tasks look at (plain strings).
    configuration: dict[str, str] = field(default_factory=dict[str, str])
    #: The runs that this one goes on from: what they have staged is this one's.
    earlier_runs: tuple[str, ...] = ()
    #: Of the program at `program_path`: another file in its place is not run.
    program_digest: bytes | None = None


@dataclass(frozen=True, slots=True)
class LevelDispatch:
    """What the tasks of one level get for one epoch; on its way to them each gets its own slot only."""

    #: Times that the job was restarted in this run, from 0.
    job_attempt: int
    checkpoint_id: int
    level: int
    #: By slot: the subtasks that it runs, in the order in which they run.
    slots: tuple[tuple[SubtaskDispatch, ...], ...] = ()
    #: Slots of each level.
    widths: tuple[int, ...] = ()
    #: By vertex: the ranges of its subtasks that have a part in the epoch. With the widths they say what runs where.
    running: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict[int, tuple[tuple[int, int], ...]])
    #: By edge into the level; of an edge that is not named no channel has spoken yet.
    inputs: dict[int, EdgeStatus] = field(default_factory=dict[int, EdgeStatus])
    #: Whether the job stops with this epoch.
    stop: StopMode = StopMode.NO
    #: Which try of this checkpoint it is, from 1.
    attempt: int = 1
    #: The job ends: checkpoint listeners are notified of its last checkpoint, then all functions are closed.
    releases: bool = False


#: What receivers do not know of a channel: watermark, or None where they do, idleness, and whether it has ended.
ChannelNews: TypeAlias = tuple[int | None, bool, bool]


@dataclass(frozen=True, slots=True)
class TaskDispatch:
    """What one task of an epoch gets."""

    job: JobDispatch
    #: Without its slots.
    level: LevelDispatch
    slot: int
    subtasks: tuple[SubtaskDispatch, ...]


class ChannelClosing(msgspec.Struct, frozen=True, array_like=True):
    """The end of channels from one sending slot to one receiving slot; a channel that has no news is left out.

    An array, because there may be one for each pair of slots.
    """

    #: By channel number.
    channels: dict[int, ChannelNews]
    #: By channel number: milliseconds of the epoch in which its sender could have read; channels without are left out.
    read_ms: dict[int, float] = {}
    #: True when a subtask of the sending slot failed: receivers run nothing more.
    failed: bool = False


@dataclass(frozen=True, slots=True)
class OperatorAck:
    """What one operator of a subtask adds to a checkpoint."""

    keyed_state: StateHandle | None = None
    #: Opaque: the reader's splits, a writer's or a watermark generator's state.
    state: bytes | None = None
    #: Sinks: pickled committables, in the order in which the writer made them.
    committables: tuple[bytes, ...] = ()
    #: Sources: pickled events from the reader to its enumerator, in order.
    events: tuple[bytes, ...] = ()
    #: Outputs of print and collect: encoded blocks, or the path of a storage object that holds them.
    outputs: tuple[bytes, ...] = ()
    outputs_path: str | None = None
    #: Of that object, which is unpickled later.
    outputs_digest: bytes | None = None
    #: Sources: split requests since the last ack, and whether the reader could have continued reading.
    split_requests: int = 0
    more_available: bool = False
    #: Sources: the reader wants the input of the whole job to end.
    ends_input: bool = False
    #: User metrics: name -> value.
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    #: Lists and broadcast maps of functions; the handle of an earlier epoch as long as nothing changes.
    operator_state: StateHandle | None = None
    #: It has checkpoint listeners, which are to be notified once the checkpoint has completed.
    wants_notification: bool = False
    #: Accumulators: pickled, by name, each with what this epoch has added. Left out where there is none.
    accumulators: dict[str, bytes] | UnsetType = UNSET

    @property
    def all_accumulators(self) -> Mapping[str, bytes]:
        """The accumulators, none where they are left out."""
        return {} if self.accumulators is UNSET else self.accumulators


@dataclass(frozen=True, slots=True)
class SubtaskAck:
    """A subtask's acknowledgement of one epoch."""

    vertex: int
    subtask: int
    checkpoint_id: int
    #: The attempt that made it.
    token: int
    #: By edge: sums over the rows that it read, and over those that it sent (see `row_sums`).
    rows_read: dict[int, int]
    rows_sent: dict[int, int]
    operators: dict[str, OperatorAck]
    #: By edge out of it: where its channels stand.
    outputs: dict[int, ChannelStatus]
    #: True once the subtask called finish(): it is not scheduled again.
    finished: bool
    #: That of its inputs, and what it has sent.
    input_watermark: int
    watermark: int
    records_in: int
    records_out: int
    bytes_out: int
    #: Time spent in this subtask, and when it began and ended (epoch milliseconds, executor's clock).
    busy_ms: int
    started_ms: int
    ended_ms: int
    #: Earliest processing-time timer that is pending, None without one.
    next_timer_ms: int | None = None
    #: Bytes of the blocks that it received; 0 for sources.
    bytes_in: int = 0

    @property
    def listeners(self) -> tuple[str, ...]:
        """The uids of the operators whose checkpoint listeners are to be notified of this checkpoint."""
        return tuple(uid for uid, part in self.operators.items() if part.wants_notification)


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """An error that a user's function raised, as the driver shows it."""

    operator: str
    uid: str
    vertex: int
    subtask: int
    #: The function's file and line nearest to the error, "" when unknown.
    location: str
    #: The shortened repr of the current record, None outside of a record.
    record: str | None
    #: "ValueError: bad" and the user's own frames, as text.
    error: str
    traceback: str
    #: The pickled exception, None when it does not pickle.
    exception: bytes | None
    #: Whether a restart would end the same way.
    non_recoverable: bool = False


@dataclass(frozen=True, slots=True)
class LogLine:
    """One record that a user function logged."""

    logger: str
    level: int
    message: str
    created: float
    operator: str
    subtask: int


def encode(value: object) -> bytes:
    """Return the MessagePack form of a protocol value."""
    return msgspec.msgpack.encode(value)


def decode(data: bytes, kind: type[T]) -> T:
    """Read a protocol value of type `kind` back; raises msgspec.ValidationError on anything else."""
    return msgspec.msgpack.decode(data, type=kind)
