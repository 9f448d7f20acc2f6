"""The messages of an epoch: dispatches from the driver to tasks, and acks from their subtasks.

All messages are plain data in MessagePack (`encode`, `decode`): the driver never unpickles anything to learn the
outcome of an epoch. Values that are opaque to the engine (split states, committables, collected records) stay bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from penstock._engine.protocol.decoders import msgpack_decoder
from penstock._engine.protocol.epoch_signals import epoch_name
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock._engine.protocol.state_handle import Lineage, StateHandle  # noqa: TC001 - msgspec evaluates them
from penstock.common.user_values import encoded, log_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Told:
    """A message for people: all its texts are such as a log or an error can hold, see `log_text`."""

    def __post_init__(self) -> None:
        for each in fields(self):
            text: object = getattr(self, each.name)
            if isinstance(text, str):
                object.__setattr__(self, each.name, log_text(text))


class StopMode(StrEnum):
    """How an epoch ends its job (FLIP-34)."""

    #: The job continues.
    NO = ""
    #: Sources read nothing more; timers, windows and readers keep their state.
    SUSPEND = "suspend"
    #: Sources read nothing more, and all input ends: operators finish as at the end of a bounded job.
    DRAIN = "drain"
    #: As SUSPEND, but the job ends as cancelled.
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """The status of one channel at the end of an epoch."""

    watermark: int = MIN_WATERMARK
    idle: bool = False
    ended: bool = False


#: The number of accepted attempts of a subtask that a dispatch names: a Python process that last ran the subtask
#: earlier drops it.
HISTORY: Final = 16

#: The status of a channel that has sent nothing yet, and of a channel that has ended.
UNKNOWN: Final = ChannelStatus()
ENDED: Final = ChannelStatus(MAX_WATERMARK, ended=True)


@dataclass(frozen=True, slots=True)
class OperatorRestore:
    """The state from which one operator of a subtask starts an epoch."""

    #: Keyed state: the snapshot and the accepted deltas up to the last completed checkpoint.
    lineage: Lineage = ()
    #: The state in the operator's last accepted snapshot; None at a fresh start.
    state: bytes | None = None
    #: Operator events for a source reader, oldest first (see `protocol.events`).
    events: tuple[bytes, ...] = ()
    #: Operator state: the subtask's own, and the union lists of all subtasks, in the order of the subtasks.
    operator_state: Lineage = ()


@dataclass(frozen=True, slots=True)
class SubtaskDispatch:
    """One subtask's part of an epoch's dispatch."""

    #: Position of the vertex in the job graph, and of the subtask in the vertex.
    vertex: int
    subtask: int
    #: Accepted (checkpoint id, token) pairs of this subtask in this run, oldest first: they name usable cache entries.
    history: tuple[tuple[int, int], ...] = ()
    #: By operator uid.
    operators: dict[str, OperatorRestore] = field(default_factory=dict[str, OperatorRestore])
    #: Its watermark at the end of its last epoch.
    input_watermark: int = MIN_WATERMARK
    #: Whether it runs for the first time: then senders that finished earlier end its inputs now.
    is_new: bool = False
    #: The status of its channels that receivers know, by outgoing edge.
    outputs: dict[int, ChannelStatus] = field(default_factory=dict[int, ChannelStatus])
    #: Source subtasks: the limits of the epoch: records to read, bytes to send, and milliseconds to read for.
    max_records: int = 0
    max_bytes: int = 0
    max_time_ms: int = 0
    #: Source subtasks: their input ends with this epoch.
    ends: bool = False
    #: Those in a watermark alignment group: the smallest watermark of the others in it, MAX_WATERMARK where none holds
    #: it back, or none is known yet.
    group_watermark: int = MAX_WATERMARK
    #: Cut the chains of this subtask's keyed state: write a snapshot in place of a delta.
    full_snapshot: bool = False
    #: Write all operator state again: the checkpoint must not name files of an earlier one.
    write_all: bool = False
    #: Whether a savepoint is made of this checkpoint: it must not name files that a later checkpoint deletes.
    for_savepoint: bool = False
    #: The job's last completed checkpoint, 0 at a fresh start; operators that took part in it are notified.
    completed_checkpoint: int = 0
    #: The subtask processes nothing: the named operators are notified of their last checkpoint, and closed.
    is_notification: bool = False


class ReadingTime(NamedTuple):
    """The milliseconds of an epoch in which senders could have read, and whether they are idle."""

    is_idle: bool
    read_ms: float

    @staticmethod
    def of_all(times: Iterable[ReadingTime | None]) -> ReadingTime | None:
        """Return the time in which all senders could have read, None without any; idle ones wait for the others.

        Example:
            >>> ReadingTime.of_all([ReadingTime(False, 30.0), ReadingTime(True, 0.0), None, ReadingTime(False, 20.0)])
            ReadingTime(is_idle=False, read_ms=20.0)
        """
        return min(filter(None, times), default=None)


@dataclass(frozen=True, slots=True)
class EdgeStatus:
    """The status of all channels of one edge when an epoch begins; all receivers share it, by sender."""

    #: The smallest watermark of the unfinished senders, and the difference of each sender's watermark to it.
    watermark: int
    above: tuple[int, ...]
    #: Senders that are idle, and those that have finished.
    idle: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    #: Wide edges with an idleness behind them: the time of the senders in the last epoch; None where it is not known.
    time: ReadingTime | None = None

    @staticmethod
    def of(statuses: Sequence[ChannelStatus], time: ReadingTime | None = None) -> EdgeStatus:
        """Return the statuses of all senders in compact form."""
        least = min((status.watermark for status in statuses if not status.ended), default=MIN_WATERMARK)
        return EdgeStatus(
            least,
            tuple(0 if status.ended else status.watermark - least for status in statuses),
            tuple(sender for sender, status in enumerate(statuses) if status.idle),
            tuple(sender for sender, status in enumerate(statuses) if status.ended),
            time,
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
    """The data that all tasks of a run share; it is sent with the plan, once for each executor."""

    job_id: str
    job_name: str
    #: One start of the job in one driver; worker caches of another run are never used.
    run_id: str
    #: The pickled job program: inline, or its path in the checkpoint storage when it is large.
    program: bytes | None
    program_path: str | None
    #: The checkpoint storage, without its options, which may contain secrets.
    storage_url: str
    #: The key that seals dispatches in the checkpoint storage. It is random, and sent through Spark only.
    dispatch_key: bytes = field(repr=False)
    #: Entries of sys.path that a worker adds, so that the user's modules import; relative ones were shipped.
    python_path: tuple[str, ...] = ()
    #: The effective configuration of the job that tasks read (plain strings).
    configuration: dict[str, str] = field(default_factory=dict[str, str])
    #: The earlier runs that this run continues: it owns their staged data.
    earlier_runs: tuple[str, ...] = ()
    #: The digest of the program at `program_path`: a file with another digest is not run.
    program_digest: bytes | None = None
    #: The working directory of workers on the driver's machine; empty for the one that they were started in.
    working_directory: str = ""
    #: The storage of a batch job's results, where that is another one than the checkpoint storage.
    results_url: str = ""
    #: Whether tasks announce each finished subtask of a batch job, so that it need not run again in another driver.
    announces: bool = False
    #: Where tasks that read reach the driver while an epoch runs; "" where they do not (`protocol.epoch_signals`).
    signals: str = ""


class ResultFile(NamedTuple):
    """A file of a stored result: its bytes, those of the index at its end, and the digest of that index."""

    size: int
    index_size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class ResultPartition:
    """The stored result of one run of a subtask, for later stages (see `runtime.results`)."""

    vertex: int
    subtask: int
    #: Names its files, with their numbers.
    token: int
    #: The bytes of each file, and those of the index at its end, and the digest of that.
    files: tuple[ResultFile, ...]
    #: The run that has written them.
    run_id: str


@dataclass(frozen=True, slots=True)
class LevelDispatch:
    """The dispatch of one level for one epoch; each task is sent its own slot only."""

    #: Times that the job was restarted in this run, from 0.
    job_attempt: int
    checkpoint_id: int
    level: int
    #: The subtasks of each slot, in the order in which they run.
    slots: tuple[tuple[SubtaskDispatch, ...], ...] = ()
    #: The number of slots of each level.
    widths: tuple[int, ...] = ()
    #: The ranges of running subtasks, by vertex. With the widths they determine the slot of each subtask, unless it is
    #: placed.
    running: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict[int, tuple[tuple[int, int], ...]])
    #: On a cluster of several hosts: by vertex that rows go to from here, the slot of each running subtask.
    placed: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    #: For the driver: the host that is to run each slot, see `plan.homes`; nothing where Spark chooses.
    hosts: tuple[str, ...] = ()
    #: The ranges of subtasks that are expected to end with this epoch, by vertex.
    ending: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict[int, tuple[tuple[int, int], ...]])
    #: The status by edge into the level; the channels of a missing edge have sent nothing yet.
    inputs: dict[int, EdgeStatus] = field(default_factory=dict[int, EdgeStatus])
    #: Whether the job stops with this epoch.
    stop: StopMode = StopMode.NO
    #: The number of the attempt at this checkpoint, from 1.
    attempt: int = 1
    #: The job ends: checkpoint listeners are notified of its last checkpoint, then all functions are closed.
    releases: bool = False
    #: For a stage of a batch job: the results that it reads, in the order of their senders. None for an epoch.
    results: tuple[ResultPartition, ...] | None = None
    #: For a stage: by vertex that runs fewer subtasks than the job graph says, which receivers each of them reads for
    #: (`plan.bounds`).
    bounds: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    #: Whether all levels run at the same time, for as long as its sources may read.
    pipelined: bool = False
    #: The most bytes of state that each operator of a subtask may return in its ack, for the metadata; what is larger
    #: goes to a file.
    inline_bytes: int = 0

    @property
    def epoch(self) -> str:
        """Names the attempt at the epoch."""
        return epoch_name(self.checkpoint_id, self.attempt, self.job_attempt)

    def ending_subtasks(self, vertex: int) -> set[int]:
        """Return the subtasks of a vertex that are expected to end with this epoch."""
        return {subtask for bounds in self.ending.get(vertex, ()) for subtask in range(*bounds)}


#: The changed status of a channel: the watermark, or None if receivers know it; whether it is idle; whether it has
#: ended.
ChannelUpdate: TypeAlias = tuple[int | None, bool, bool]


@dataclass(frozen=True, slots=True)
class TaskDispatch:
    """The dispatch of one task of an epoch."""

    job: JobDispatch
    #: Without its slots.
    level: LevelDispatch
    slot: int
    subtasks: tuple[SubtaskDispatch, ...]


class ChannelClosing(msgspec.Struct, frozen=True, array_like=True):
    """The control row of the channels from one sending slot to one receiving slot; others are left out.

    It is encoded as an array, because there may be one row for each pair of slots.
    """

    #: The updates by channel number.
    channels: dict[int, ChannelUpdate]
    #: The milliseconds of the epoch in which the sender could have read, by channel number; 0 is left out.
    read_ms: dict[int, float] = {}
    #: True when a subtask of the sending slot failed: receivers process nothing more.
    failed: bool = False


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """How the reader of a source stands in its watermark alignment group."""

    group: str
    #: Its watermark; MAX_WATERMARK where it holds nothing back: it is idle, without splits, at its end, or had no
    #: watermark yet.
    watermark: int
    #: The smallest watermark of the others with which it could read what it may not read now; None where nothing waits.
    awaits: int | None = None


@dataclass(frozen=True, slots=True)
class OperatorAck:
    """One operator's part of a subtask's ack."""

    #: A delta, or the files of a snapshot; nothing where nothing has changed.
    keyed_state: tuple[StateHandle, ...] = ()
    #: Opaque: the reader's splits, a writer's or a watermark generator's state.
    state: bytes | None = None
    #: Sinks: pickled committables, in the order of the writer.
    committables: tuple[bytes, ...] = ()
    #: Sources: pickled events from the reader to its enumerator, in order.
    events: tuple[bytes, ...] = ()
    #: Outputs of print and collect: encoded blocks, or the path of a storage object that holds them.
    outputs: tuple[bytes, ...] = ()
    outputs_path: str | None = None
    #: The digest of that object, which is unpickled later.
    outputs_digest: bytes | None = None
    #: Sources: split requests since the last ack, and whether the reader could have continued reading.
    split_requests: int = 0
    more_available: bool = False
    #: Sources: the reader wants the input of the whole job to end.
    ends_input: bool = False
    #: Sources in a watermark alignment group.
    alignment: AlignmentReport | UnsetType = UNSET
    #: User metrics: name -> value; integers are those of 64 bits.
    metrics: dict[str, int | float] = field(default_factory=dict[str, "int | float"])
    #: Lists and broadcast maps of functions; the handle of an earlier epoch as long as nothing changes.
    operator_state: StateHandle | None = None
    #: Whether it has checkpoint listeners to notify once the checkpoint has completed.
    wants_notification: bool = False
    #: The pickled accumulators by name, each with the additions of this epoch. Left out where there is none.
    accumulators: dict[str, bytes] | UnsetType = UNSET

    @property
    def all_accumulators(self) -> Mapping[str, bytes]:
        """The accumulators; empty where they are left out."""
        return {} if self.accumulators is UNSET else self.accumulators


@dataclass(frozen=True, slots=True)
class IOMetrics:
    """What a subtask has done, in an epoch or since its job began.

    A further figure is a field here, which `runtime.figures` fills.

    Source: Flink's ``IOMetrics``.
    """

    records_in: int = 0
    records_out: int = 0
    #: Bytes of the blocks that it received; 0 for sources.
    bytes_in: int = 0
    bytes_out: int = 0
    #: The time spent in the subtask.
    busy_ms: int = 0
    #: The bytes of state that it read from checkpoints.
    restored_bytes: int = 0
    #: The time in which a source has waited for input.
    waited_ms: int = 0

    def __add__(self, other: IOMetrics) -> IOMetrics:
        return IOMetrics(*(getattr(self, name) + getattr(other, name) for name in IOMetrics.__slots__))


@dataclass(frozen=True, slots=True)
class SubtaskAck:
    """A subtask's acknowledgement of one epoch."""

    vertex: int
    subtask: int
    checkpoint_id: int
    #: The token of its attempt.
    token: int
    #: The sums over the rows that it read, and over the rows that it sent, by edge (see `row_sums`).
    rows_read: dict[int, int]
    rows_sent: dict[int, int]
    operators: dict[str, OperatorAck]
    #: The status of its channels, by outgoing edge.
    outputs: dict[int, ChannelStatus]
    #: Whether the subtask has finished: it is not scheduled again.
    finished: bool
    #: The watermark of its inputs, and the watermark that it has sent.
    input_watermark: int
    watermark: int
    #: When it began and ended (epoch milliseconds, executor's clock).
    started_ms: int
    ended_ms: int
    #: The earliest pending processing-time timer; None without one.
    next_timer_ms: int | None = None
    io: IOMetrics = IOMetrics()
    #: Sources: it has nothing left to read, and ends with the epoch that is announced as its last one.
    awaits_end: bool = False
    #: The milliseconds of the epoch in which it could have read, where the next dispatch has to say so.
    read_ms: float | UnsetType = UNSET
    #: In a stage: the files of its result, see `ResultPartition`.
    result_files: tuple[ResultFile, ...] = ()
    #: And the bytes of its rows, by outgoing edge and receiver.
    result_bytes: dict[int, dict[int, int]] = field(default_factory=dict[int, dict[int, int]])
    #: The host that it ran on.
    host: str = ""
    #: Spark's number of the attempt at its task, from 0, where it is not the first.
    task_attempt: int | UnsetType = UNSET

    @property
    def listeners(self) -> tuple[str, ...]:
        """The uids of the operators whose checkpoint listeners are to be notified of this checkpoint."""
        return tuple(uid for uid, part in self.operators.items() if part.wants_notification)


@dataclass(frozen=True, slots=True)
class TaskFailure(_Told):
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
    #: What chose the operator's records, if that failed and not the operator: a key function, with its line; else "".
    chooser: str = ""


@dataclass(frozen=True, slots=True)
class LogLine(_Told):
    """One record that a user function logged."""

    logger: str
    level: int
    message: str
    created: float
    operator: str
    subtask: int


def encode(value: object) -> bytes:
    """Return the MessagePack form of a protocol value; texts of user code may be any."""
    return encoded(value, msgspec.msgpack.encode)


def decode(data: bytes, kind: type[T]) -> T:
    """Decode a protocol value of type `kind`; raises msgspec.ValidationError on anything else."""
    return msgpack_decoder(kind).decode(data)
