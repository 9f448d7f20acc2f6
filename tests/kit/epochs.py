"""Jobs without Spark and without a driver: a program, its epochs one by one, and what is accepted of them."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._engine.coordinator.checkpoints.snapshots import (
    advance,
    dispatch,
    edge_statuses,
    fresh_snapshot,
    inline_limit,
    unfinished,
    visible_states,
)
from penstock._engine.coordinator.epochs.acks import (
    Reports,
    group_watermarks,
    reports_of,
    restored_reports,
    void_reason,
)
from penstock._engine.plan.dispatches import pack, unpack
from penstock._engine.plan.epoch_plan import EpochOutcome, EpochPlan
from penstock._engine.plan.homes import ANYWHERE
from penstock._engine.plan.levels import build_plan, plan_epoch
from penstock._engine.protocol.control import JobDispatch, LevelDispatch
from penstock._engine.protocol.events import AddSplitsEvent, NoMoreSplitsEvent, encode_event
from penstock._engine.protocol.rows import MAX_WATERMARK, channel_number
from penstock._engine.storage.opening import open_storage
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.testing.in_process import InProcessEpochRunner
from penstock.testing.sources import ListSplit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.kit.program import Program

    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.protocol.control import ChannelStatus, LogLine, SubtaskAck, TaskDispatch, TaskFailure

UNLIMITED_MS = 3_600_000


class SecondField(TimestampAssigner):
    """Timestamps are the second field of a record."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


def in_order() -> WatermarkStrategy:
    """Watermarks of timestamps that rise, taken from the second field."""
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())


class EpochFailedError(AssertionError):
    """A user function failed."""

    def __init__(self, failures: Sequence[TaskFailure]) -> None:
        super().__init__("\n".join(failure.traceback for failure in failures))
        self.failures = failures


@dataclass
class Job:
    """Runs the epochs of a program; what is accepted of them moves it on.

    Sources get their splits in the first epoch: list number i goes to subtask i, in turn.
    """

    graph: JobGraph
    place: Path
    runner: InProcessEpochRunner = field(default_factory=InProcessEpochRunner)
    slots: int = 2
    #: Where tasks get the job's configuration from.
    configuration: dict[str, str] = field(default_factory=dict)
    run_id: str = "run-1"
    job_attempt: int = 0

    def __post_init__(self) -> None:
        self.plan = build_plan(self.graph)
        self.snapshot = fresh_snapshot(self.graph)
        self.checkpoint_id = 0
        self.history: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}
        self.outputs: dict[str, list[Any]] = {}
        self.acks: dict[tuple[int, int], SubtaskAck] = {}
        self.alignment: Reports = {}
        self.log: list[LogLine] = []
        self.voids = 0
        (self.place / "checkpoints").mkdir(parents=True, exist_ok=True)
        self._storage = open_storage(str(self.place / "checkpoints"))
        self._names = {node.uid: node.name for vertex in self.graph.vertices for node in vertex.operators}

    @property
    def finished(self) -> bool:
        return not unfinished(self.snapshot)

    def plan_epoch(self, max_records: int, max_time_ms: int = UNLIMITED_MS, max_bytes: int = 0) -> EpochPlan:
        """Return the next epoch."""
        parts, visible = {}, visible_states(self.snapshot)
        group_marks = group_watermarks(self.alignment)
        for subtask in unfinished(self.snapshot):
            history = self.history.get(subtask, ())
            part = dispatch(
                self.snapshot,
                subtask,
                self._events,
                history=history,
                completed_checkpoint=self.checkpoint_id,
                visible=visible,
            )
            if self.graph.vertices[subtask[0]].is_source:
                ends = subtask in self.acks and self.acks[subtask].awaits_end
                part = replace(part, max_records=max_records, max_bytes=max_bytes, max_time_ms=max_time_ms, ends=ends)
                part = replace(part, group_watermark=group_marks.get(subtask, MAX_WATERMARK))
            parts[subtask] = part
        job = JobDispatch(
            job_id="0" * 32,
            job_name="test",
            run_id=self.run_id,
            program=pickle.dumps((self.graph, None)),
            program_path=None,
            storage_url=str(self.place / "checkpoints"),
            dispatch_key=b"key",
            configuration=self.configuration,
        )
        inputs = edge_statuses(self.snapshot, self.graph, self.acks.values())
        common = LevelDispatch(
            *(self.job_attempt, self.checkpoint_id + 1, 0), inputs=inputs, inline_bytes=inline_limit(self.snapshot)
        )
        levels = plan_epoch(self.plan, common, parts, (ANYWHERE,) * self.slots, self.checkpoint_id)
        return EpochPlan(self.checkpoint_id + 1, 1, job, levels, state_directory=self.place / "local")

    def channels(self, vertex: int, subtask: int) -> dict[int, ChannelStatus]:
        """Return where the channels into a subtask stood after the last epoch, by their numbers."""
        return {
            channel: self.acks[edge.source, sender].outputs[edge.id]
            for edge in self.graph.inputs(vertex)
            for sender in self.plan.senders(edge, subtask)
            for channel in (channel_number(edge.id, sender),)
        }

    def task(self, level: int = 0, slot: int = 0, *, records: int = 1) -> TaskDispatch:
        """Return what a task of the next epoch gets."""
        plan = self.plan_epoch(records)
        return unpack(pack(plan), plan.job, (level, slot), lambda: self._storage.read_range)

    def try_epoch(
        self, max_records: int = 1_000_000, max_time_ms: int = UNLIMITED_MS, max_bytes: int = 0
    ) -> EpochOutcome:
        """Run an epoch of which nothing is accepted."""
        outcome = self.runner.run(self.plan_epoch(max_records, max_time_ms, max_bytes))
        self.log += outcome.log
        return outcome

    def epoch(
        self, max_records: int = 1_000_000, max_time_ms: int = UNLIMITED_MS, max_bytes: int = 0
    ) -> dict[str, list[Any]]:
        """Run an epoch and accept it; return its outputs by the name of the collector.

        Raises:
            EpochFailedError: A user function failed.
        """
        outcome = self.try_epoch(max_records, max_time_ms, max_bytes)
        if outcome.failures:
            raise EpochFailedError(outcome.failures)
        reason = void_reason(self.checkpoint_id + 1, outcome.acks, unfinished(self.snapshot), self.graph.edges)
        if reason is not None:
            self.voids += 1
            return {}
        return self.accept(outcome)

    def accept(self, outcome: EpochOutcome) -> dict[str, list[Any]]:
        """Take an epoch's outcome for the truth; return its outputs."""
        self.checkpoint_id += 1
        self.snapshot, self.alignment = advance(self.snapshot, outcome.acks, {}, ()), reports_of(outcome.acks)
        outputs: dict[str, list[Any]] = {}
        for ack in sorted(outcome.acks, key=lambda ack: (ack.vertex, ack.subtask)):
            place = ack.vertex, ack.subtask
            self.acks[place] = ack
            self.history[place] = (*self.history.get(place, ()), (self.checkpoint_id, ack.token))
            for uid, part in ack.operators.items():
                blocks = part.outputs
                if part.outputs_path is not None:
                    blocks = tuple(msgspec.msgpack.decode(self._storage.read(part.outputs_path), type=list[bytes]))
                for block in blocks:
                    outputs.setdefault(self._names[uid], []).extend(pickle.loads(block))
        for name, records in outputs.items():
            self.outputs.setdefault(name, []).extend(records)
        return outputs

    def run(self, max_records: int | Callable[[], int] = 1_000_000, most_epochs: int = 1000) -> dict[str, list[Any]]:
        """Run epochs until the job has finished, and close what it has opened; return all outputs."""
        for _ in range(most_epochs):
            if self.finished:
                self.runner.release(self.run_id)
                return self.outputs
            self.epoch(max_records if isinstance(max_records, int) else max_records())
        msg = f"the job did not finish in {most_epochs} epochs"
        raise AssertionError(msg)

    def restarted(self) -> Job:
        """Return the job as it goes on from its last checkpoint after a failure: nothing in memory is used."""
        job = replace(self, job_attempt=self.job_attempt + 1)
        job.snapshot, job.checkpoint_id, job.outputs = self.snapshot, self.checkpoint_id, self.outputs
        heads = (vertex.operators[0] for vertex in self.graph.vertices if vertex.is_source)
        job.alignment = restored_reports(self.snapshot, [head.uid for head in heads])
        return job

    def _events(self, uid: str, subtask: int) -> tuple[bytes, ...]:
        if self.checkpoint_id > 0:
            return ()
        for vertex in self.graph.vertices:
            head = vertex.operators[0]
            if head.uid == uid and vertex.is_source:
                source = pickle.loads(head.payload)["source"]
                serializer = source.get_split_serializer()
                splits = [ListSplit(number) for number in range(len(source._lists))]
                mine = tuple(serializer.serialize(split) for split in splits[subtask :: vertex.parallelism])
                return encode_event(AddSplitsEvent(mine, serializer.get_version())), encode_event(NoMoreSplitsEvent())
        return ()


def run(program: Program, place: Path, **settings: Any) -> dict[str, list[Any]]:
    """Run a program to its end in epochs of all sizes; return its outputs."""
    sizes = random.Random(7)
    return Job(program.graph(), place, **settings).run(lambda: sizes.randint(1, 10))


def same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Return whether two outputs have the same records, in whatever order."""
    return Counter(map(repr, left)) == Counter(map(repr, right))
