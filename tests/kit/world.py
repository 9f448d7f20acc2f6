"""A world for drivers: a job that counts in no time, a clock that jumps, threads that run when nothing else does."""

from __future__ import annotations

import pickle
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never
from zlib import crc32

import cloudpickle
from tests.kit.driving import assembled
from tests.kit.settings import configured

from penstock._engine.graph.job_graph import JobEdge, JobGraph, JobVertex, OperatorNode, PartitionerKind
from penstock._engine.operators.factories.sources_and_sinks import CollectFactory, SinkWriterFactory, SourceFactory
from penstock._engine.plan.epoch_plan import EpochOutcome, EpochProgress
from penstock._engine.plan.levels import build_plan
from penstock._engine.protocol.clocks import Moment
from penstock._engine.protocol.control import IOMetrics, OperatorAck, StopMode, SubtaskAck, decode, encode
from penstock._engine.protocol.events import AddSplitsEvent, NoMoreSplitsEvent, ReaderState, decode_event
from penstock._engine.protocol.row_sums import MODULUS, row_weight
from penstock._engine.protocol.rows import MAX_WATERMARK, subtask_target
from penstock._engine.protocol.state_handle import StateHandle
from penstock._engine.protocol.versioned import pack
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream.connectors import base
from penstock.errors import EpochCancelledError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.driver.loop import JobLoop
    from penstock._engine.driver.mailbox import SystemClock
    from penstock._engine.plan.epoch_plan import EpochPlan
    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.protocol.control import SubtaskDispatch

#: What committers have published, by name of the target: committable -> its numbers.
TARGETS: dict[str, dict[str, tuple[int, ...]]] = {}


class Numbers(base.Source):
    """The numbers from 0 up to a limit, in splits of one size."""

    def __init__(self, limit: int, split_size: int) -> None:
        self.limit, self.split_size = limit, split_size

    def get_boundedness(self) -> base.Boundedness:
        return base.Boundedness.BOUNDED

    def create_enumerator(self, enum_context: Any) -> base.SplitEnumerator:
        splits = [(start, min(start + self.split_size, self.limit)) for start in range(0, self.limit, self.split_size)]
        return NumbersEnumerator(enum_context, splits)

    def restore_enumerator(self, enum_context: Any, checkpoint: Any) -> base.SplitEnumerator:
        return NumbersEnumerator(enum_context, checkpoint)

    def create_reader(self, reader_context: Any) -> Never:
        raise AssertionError("the world reads splits itself")


class NumbersEnumerator(base.SplitEnumerator):
    def __init__(self, context: Any, splits: Any) -> None:
        self.context, self.splits = context, list(splits)
        context.metric_group.gauge("unassignedSplits", lambda: len(self.splits))

    def start(self) -> None:
        pass

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        if self.splits:
            self.context.assign_split(self.splits.pop(0), subtask_id)
        else:
            self.context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits: Any, subtask_id: int) -> None:
        self.splits[:0] = splits

    def add_reader(self, subtask_id: int) -> None:
        pass

    def snapshot_state(self, checkpoint_id: int) -> list[tuple[int, int]]:
        return list(self.splits)


class TargetSink(base.Sink, base.SupportsCommitter):
    """Publishes what a committable names, once, to one of TARGETS."""

    def __init__(self, target: str) -> None:
        self.target = target

    def create_writer(self, context: Any) -> Never:
        raise AssertionError("the world writes itself")

    def create_committer(self, context: Any) -> TargetCommitter:
        return TargetCommitter(TARGETS.setdefault(self.target, {}))


class TargetCommitter(base.Committer):
    def __init__(self, published: dict[str, tuple[int, ...]]) -> None:
        self.published = published

    def commit(self, requests: Any) -> None:
        for request in requests:
            name, numbers = request.get_committable()
            self.published.setdefault(name, numbers)


def numbers_job(
    target: str,
    *,
    limit: int = 40,
    split_size: int = 5,
    readers: int = 2,
    writers: int = 2,
    sink: Any = None,
    source: Any = None,
    source_uid: str = "numbers",
    collects: bool = False,
) -> JobGraph:
    """Return a job of two vertices: numbers, and by number a sink."""
    members = _members(
        source=source or Numbers(limit, split_size), watermark_strategy=WatermarkStrategy.no_watermarks()
    )
    reader = OperatorNode(source_uid, "Source: numbers", SourceFactory, members)
    writer = OperatorNode("target", "Sink: target", SinkWriterFactory, _members(sink=sink or TargetSink(target)))
    collect = OperatorNode("seen", "collect", CollectFactory, _members(type_info=None, as_text=not collects), parent=0)
    return JobGraph(
        "numbers",
        (
            JobVertex(0, "Source: numbers", (reader,), readers, 128),
            JobVertex(1, "Sink: target", (writer, collect), writers, 128),
        ),
        (JobEdge(0, 0, 0, None, 1, 0, PartitionerKind.HASH),),
    )


def _members(**members: Any) -> bytes:
    return cloudpickle.dumps(members)


@dataclass
class World:
    """Clock, threads and Spark of one driver, all driven from the loop's own thread."""

    graph: JobGraph
    random: random.Random = field(default_factory=lambda: random.Random(0))
    #: Records that a source subtask reads in an epoch at most, whatever its budget.
    patience: int = 1_000_000
    #: By number of the run: makes it fail in place of an outcome, or changes the outcome.
    trouble: dict[int, Any] = field(default_factory=dict)
    #: Numbers of runs that do not come to an end before they are cancelled.
    stuck: frozenset[int] = frozenset()
    #: Whether each subtask has a checkpoint listener.
    wants_notification: bool = False
    #: Whether the sink's subtasks have keyed state, of which nothing is asked but that it is there.
    has_state: bool = False

    def __post_init__(self) -> None:
        self.time_ms = 1_000_000
        #: How far the clock was set ahead or back.
        self.jumped_ms = 0
        self.pending: list[Any] = []
        #: By subtask: the completed checkpoints that it was told of.
        self.told: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.timers: list[tuple[int, Any]] = []
        self.runs = 0
        self._begun = 0
        self._held: Any = None
        self.plan = build_plan(self.graph)
        self._tokens = count(1)

    # Clock

    def now(self) -> Moment:
        return Moment(self.time_ms + self.jumped_ms, self.time_ms)

    def receive(self, letters: Any, until_ms: int | None) -> Any:
        while letters.empty():
            due = min((moment for moment, _ in self.timers), default=None)
            if self.pending and (due is None or self.random.random() < 0.5):  # else something comes in between
                self.pending.pop(self.random.randrange(len(self.pending)))()
            elif due is not None and (until_ms is None or due <= until_ms):
                self.time_ms = max(self.time_ms, due)
                work = next(timer for timer in self.timers if timer[0] == due)
                self.timers.remove(work)
                work[1]()
            elif until_ms is not None:
                self.time_ms = max(self.time_ms, until_ms)
                return None
            else:
                raise AssertionError("the driver waits for something that nobody will send")
        return letters.get()

    # Background

    def run_epoch(self, work: Any) -> None:
        self._begun += 1
        if self._begun in self.stuck:
            self._held = work
        else:
            self.pending.append(work)

    def later(self, delay_ms: int, work: Any) -> None:
        self.timers.append((self.time_ms + delay_ms, work))

    def close(self, *, wait: bool) -> None:
        while self.pending and wait:
            self.pending.pop()()
        self.pending.clear()
        self.timers.clear()

    # EpochRunner, and Background.run: told apart by what they are given

    def run(self, work: Any) -> Any:
        if callable(work):
            self.pending.append(work)
            return None
        self.runs += 1
        trouble = self.trouble.get(self.runs)
        if isinstance(trouble, BaseException):
            raise trouble
        outcome = self._outcome(work)
        self.time_ms += 100
        return trouble(outcome) if trouble else outcome

    def release(self, run_id: str) -> None:
        pass

    def cancel(self) -> None:
        if self._held is not None:
            self.trouble[self.runs + 1] = EpochCancelledError(0)
            self.pending.append(self._held)
            self._held = None

    def progress(self) -> EpochProgress:
        return EpochProgress(0, ((0, 1),))

    def _outcome(self, epoch: EpochPlan) -> EpochOutcome:
        acks: list[SubtaskAck] = []
        inboxes: dict[int, list[int]] = {}
        ended: set[int] = set()
        tokens: dict[tuple[int, int], int] = {}
        for level in epoch.levels:
            for dispatch in (one for slot in level.slots for one in slot):
                if dispatch.history:
                    self.told[dispatch.vertex, dispatch.subtask].append(dispatch.completed_checkpoint)
                if dispatch.is_notification:
                    continue
                tokens[dispatch.vertex, dispatch.subtask] = next(self._tokens)
                if dispatch.vertex == 0:
                    ack = self._read(dispatch, epoch.checkpoint_id, inboxes, level.stop)
                    if ack.finished:
                        ended.add(dispatch.subtask)
                else:
                    over = ended.union(level.inputs[0].ended if level.inputs else ())
                    ack = self._write(dispatch, epoch.checkpoint_id, inboxes.get(dispatch.subtask, []), over, tokens)
                if self.wants_notification:
                    operators = {uid: replace(part, wants_notification=True) for uid, part in ack.operators.items()}
                    ack = replace(ack, operators=operators)
                acks.append(replace(ack, token=tokens[dispatch.vertex, dispatch.subtask]))
        return EpochOutcome(tuple(acks), ())

    def _read(
        self, dispatch: SubtaskDispatch, checkpoint_id: int, inboxes: dict[int, list[int]], stop: StopMode
    ) -> SubtaskAck:
        part = dispatch.operators["numbers"]
        state = decode(part.state, ReaderState) if part.state else None
        splits = [pickle.loads(split) for split in state.splits] if state else []
        complete = state.no_more_splits if state else False
        for event in map(decode_event, part.events):
            if isinstance(event, AddSplitsEvent):
                splits += [pickle.loads(split) for split in event.splits]
            complete = complete or isinstance(event, NoMoreSplitsEvent)
        most = dispatch.max_records or self.patience  # a pipelined epoch has no budget
        left = min(most, self.patience) if stop is StopMode.NO else 0
        read = 0
        while splits and left:
            start, end = splits.pop(0)
            taken = min(left, end - start)
            for number in range(start, start + taken):
                inboxes.setdefault(number % self.graph.vertices[1].parallelism, []).append(number)
            if start + taken < end:
                splits.insert(0, (start + taken, end))
            left, read = left - taken, read + taken
        finished = (complete and not splits) or stop is StopMode.DRAIN
        made_anew = not dispatch.history  # then it asks at its start
        asks = (read > 0 or made_anew) and not splits and not complete
        written = tuple(pickle.dumps(split) for split in splits)
        part = OperatorAck(
            state=encode(ReaderState(written, 1, complete)), split_requests=int(asks), more_available=bool(splits)
        )
        ack = _ack(dispatch, checkpoint_id, {"numbers": part}, finished=finished, records_in=read)
        return replace(ack, rows_sent=one_row_to_each(self.plan, dispatch.subtask))

    def _write(
        self,
        dispatch: SubtaskDispatch,
        checkpoint_id: int,
        numbers: list[int],
        ended: set[int],
        tokens: dict[tuple[int, int], int],
    ) -> SubtaskAck:
        senders = self.plan.senders(self.graph.edges[0], dispatch.subtask)
        finished = ended.issuperset(senders)
        committables = ()
        if numbers:
            name = f"{dispatch.subtask}-{checkpoint_id}-{tokens[1, dispatch.subtask]}"
            committables = (pack(1, pickle.dumps((name, tuple(numbers)))),)
        keyed_state = self._keyed_state(dispatch, checkpoint_id, tokens[1, dispatch.subtask])
        operators = {
            "target": OperatorAck(keyed_state, committables=committables),
            "seen": OperatorAck(outputs=(pickle.dumps(numbers),) if numbers else ()),
        }
        ack = _ack(dispatch, checkpoint_id, operators, finished=finished, records_in=len(numbers))
        running = [tokens[0, sender] for sender in senders if (0, sender) in tokens]
        return replace(ack, rows_read=one_row_each(self.plan, dispatch.subtask, running))

    def _keyed_state(self, dispatch: SubtaskDispatch, checkpoint_id: int, token: int) -> tuple[StateHandle, ...]:
        if not self.has_state:
            return ()
        is_delta = dispatch.operators["target"].lineage and not dispatch.full_snapshot
        data = f"{checkpoint_id}-{token}".encode()
        kind = "delta" if is_delta else "snapshot"
        return (StateHandle(checkpoint_id, token, kind, None, data, len(data), 1, crc32(data), (0, 127)),)

    def driver(
        self, directory: str | None, threads: SystemClock | None = None, **settings: str
    ) -> tuple[JobDriver, JobLoop]:
        """Make a driver in this world, with settings by their short names; its time and threads are the world's."""
        configuration = configured(**({} if directory is None else {"checkpoints": directory}), **settings)
        has_disk = directory is not None and directory.startswith("/")
        state = Path(str(directory)).parent / "state" if has_disk else Path("/dev/null/penstock-state")
        return assembled(self.graph, configuration, state, self, threads or self)


def one_row_to_each(plan: ExecutionPlan, sender: int) -> dict[int, int]:
    """What a subtask of vertex 0 answers that has sent a row to each receiver."""
    [edge] = plan.graph.edges
    return {
        edge.id: sum(row_weight(subtask_target(1, receiver)) for receiver in plan.receivers(edge, sender)) % MODULUS
    }


def one_row_each(plan: ExecutionPlan, receiver: int, tokens: Iterable[int]) -> dict[int, int]:
    """What a subtask of vertex 1 answers that has read a row of each of these attempts."""
    [edge] = plan.graph.edges
    return {edge.id: row_weight(subtask_target(1, receiver)) * sum(tokens) % MODULUS}


def _ack(
    dispatch: SubtaskDispatch, checkpoint_id: int, operators: dict[str, OperatorAck], *, finished: bool, records_in: int
) -> SubtaskAck:
    return SubtaskAck(
        vertex=dispatch.vertex,
        subtask=dispatch.subtask,
        checkpoint_id=checkpoint_id,
        token=0,
        rows_read={},
        rows_sent={},
        operators=operators,
        outputs={},
        finished=finished,
        input_watermark=0,
        watermark=MAX_WATERMARK if finished else 0,
        io=IOMetrics(records_in, records_in, bytes_out=8 * records_in, busy_ms=10),
        started_ms=0,
        ended_ms=10,
    )


def published(target: str) -> Counter[int]:
    """Return how often each number was published."""
    return Counter(number for numbers in TARGETS.get(target, {}).values() for number in numbers)
