"""How much control data an epoch has: what the driver sends out, what travels between tasks, and what comes back.

All of it by the product's own encoders, for a job of three vertices with a hash edge between each two. Each subtask has
state and a slot of its own. What is counted with a task is what it gets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.unit.coordinator.acks import ack
from tests.unit.plan.graphs import graph

from penstock._engine.coordinator.checkpoints.snapshots import (
    dispatch,
    edge_statuses,
    fresh_snapshot,
    visible_states,
)
from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.operators.batch import watermark_only
from penstock._engine.plan import dispatches
from penstock._engine.plan.epoch_plan import EpochPlan
from penstock._engine.plan.homes import ANYWHERE, Homes
from penstock._engine.plan.levels import build_plan, plan_epoch
from penstock._engine.protocol.control import (
    HISTORY,
    ChannelClosing,
    ChannelStatus,
    JobDispatch,
    LevelDispatch,
    OperatorAck,
    SubtaskAck,
    encode,
)
from penstock._engine.protocol.metadata import JobSnapshot, OperatorSubtaskState, VertexSubtaskState
from penstock._engine.protocol.paths import shared_path
from penstock._engine.protocol.rows import DRIVER, MAX_WATERMARK, PayloadKind, channel_number, slot_target
from penstock._engine.protocol.state_handle import StateHandle
from penstock._engine.runtime.edge_writer import EdgeWriter
from penstock._engine.runtime.row_buffer import ExchangeRow, RowBuffer, record_batch

if TYPE_CHECKING:
    from penstock._engine.protocol.control import SubtaskDispatch

NOW_MS = 1_795_000_000_000
CHECKPOINT = 1_000
#: As many deltas as a chain has on average before a snapshot cuts it.
DELTAS = 8


class News(Enum):
    """What has become of all senders of an edge in the epoch."""

    NONE = auto()
    IDLE = auto()
    ACTIVE = auto()
    ENDED = auto()
    #: They have new watermarks, and no record.
    WATERMARK = auto()
    #: An operator behind the edge has `with_idleness`.
    TIMED = auto()


@dataclass(frozen=True)
class ControlData:
    """Bytes of one epoch."""

    #: What leaves the driver: once, and to all tasks together.
    written: int
    dispatched: int
    #: The rows of control data in both shuffles, and what the driver gets.
    rows: int
    answers: int
    #: The most that one task gets, with the program, which travels with the plan.
    to_a_task: int

    @property
    def total(self) -> int:
        return self.written + self.dispatched + self.rows + self.answers


def measure(parallelism: int, news: News = News.NONE, hosts: int = 0) -> ControlData:
    """Measure an epoch of so many subtasks in each level.

    Args:
        parallelism: Subtasks of each vertex.
        news: What has become of all senders in the epoch.
        hosts: The hosts of a cluster, on which the subtasks have their state; one was lost before the epoch.
    """
    random = Random(parallelism)
    job = graph([parallelism] * 3, [(0, 1), (1, 2)])
    before = state(fresh_snapshot(job), random)
    visible = visible_states(before)
    history = tuple((CHECKPOINT - place, random.getrandbits(62)) for place in reversed(range(HISTORY)))
    parts = {
        (vertex, subtask): replace(
            dispatch(
                before, (vertex, subtask), no_events, history=history, completed_checkpoint=CHECKPOINT, visible=visible
            ),
            max_records=100_000,
            max_bytes=64 << 20,
            max_time_ms=300,
            ends=vertex == 0 and news is News.ENDED,
        )
        for vertex in range(3)
        for subtask in range(parallelism)
    }
    common = LevelDispatch(0, CHECKPOINT + 1, 0, inputs=edge_statuses(before, job))
    levels = plan_epoch(build_plan(job), common, parts, (ANYWHERE,) * 3 * parallelism, 0)
    if hosts:
        homes, slots = Homes(), [f"host-{slot % hosts}" for slot in range(parallelism)]
        plan_epoch(build_plan(job), common, parts, slots, 0, homes=homes)
        slots = [host.replace("host-1", "new") if host == "host-1" else host for host in slots]
        levels = plan_epoch(build_plan(job), common, parts, slots, 0, homes=homes)
    of_the_run = JobDispatch("0" * 32, "job", "1" * 32, b"p" * (32 << 10), None, "s3://bucket/checkpoints", b"key")
    stored: list[bytes] = []

    def store(data: bytes) -> str:
        stored.append(data)
        return f"{'0' * 32}/blobs/{'1' * 32}-{CHECKPOINT}-1"

    text = dispatches.pack(EpochPlan(CHECKPOINT + 1, 1, of_the_run, levels, store=store))
    most, dispatched = 0, 0
    read: list[int] = []
    for level in range(3):
        for slot in (0, parallelism - 1):
            del read[:]

            def read_range(_: str, start: int, length: int) -> bytes:
                read.append(length)
                return stored[0][start : start + length]

            dispatches.unpack(text, of_the_run, (level, slot), lambda: read_range)
            most = max(most, len(text) + sum(read))
        dispatched += parallelism * (len(text) + sum(read))
    answer = bytes_of(row(DRIVER, PayloadKind.ACK, encode(subtask_ack(random))))
    sent = rows_of_a_sender(parallelism, levels[0], parts[0, 0], news)
    return ControlData(
        written=sum(map(len, stored)),
        dispatched=dispatched,
        rows=3 * parallelism * answer + 2 * parallelism * sent,
        answers=3 * parallelism * answer,
        to_a_task=len(encode(of_the_run)) + most + 2 * answer + sent,  # as many channels lead to a task as from one
    )


def no_events(_uid: str, _subtask: int) -> tuple[bytes, ...]:
    return ()


def state(fresh: JobSnapshot, random: Random) -> JobSnapshot:
    """Return a state in which every subtask has files, and every sender a watermark of its own."""
    vertices = tuple(
        replace(
            vertex,
            subtasks=tuple(
                VertexSubtaskState(
                    input_watermark=NOW_MS - 5_000,
                    has_run=True,
                    outputs={number: ChannelStatus(NOW_MS - random.randrange(5_000))} if number < 2 else {},
                )
                for _ in vertex.subtasks
            ),
        )
        for number, vertex in enumerate(fresh.vertices)
    )
    operators = {
        uid: replace(
            operator,
            subtasks=tuple(
                OperatorSubtaskState(
                    tuple(handle(uid, subtask, CHECKPOINT - place, random) for place in reversed(range(DELTAS))),
                    random.randbytes(50),
                )
                for subtask in range(operator.parallelism)
            ),
        )
        for uid, operator in fresh.operators.items()
    }
    return replace(fresh, vertices=vertices, operators=operators)


def handle(uid: str, subtask: int, checkpoint_id: int, random: Random) -> StateHandle:
    token, size = random.getrandbits(62), random.randrange(1 << 30)
    path = shared_path("0" * 32, uid, subtask, checkpoint_id, token)
    groups = (subtask, subtask + 1)
    return StateHandle(checkpoint_id, token, "delta", path, None, size, size // 100, random.getrandbits(32), groups)


def subtask_ack(random: Random) -> SubtaskAck:
    part = OperatorAck(
        (handle("window-totals", 1_999, CHECKPOINT, random),),
        random.randbytes(50),
        metrics={f"user.metric-{number}": random.random() for number in range(5)},
    )
    return ack(
        2,
        1_999,
        token=random.getrandbits(62),
        rows_read={1: random.getrandbits(61)},
        rows_sent={2: random.getrandbits(61)},
        operators={"window-totals": part},
        outputs={2: ChannelStatus(NOW_MS)},
        started_ms=NOW_MS,
        ended_ms=NOW_MS + 300,
        next_timer_ms=NOW_MS,
    )


def rows_of_a_sender(parallelism: int, level: LevelDispatch, part: SubtaskDispatch, news: News) -> int:
    """Return the bytes of the rows beside the data that a subtask sends to all of its receivers."""
    plan = build_plan(graph([parallelism] * 2, [(0, 1, PartitionerKind.REBALANCE)]))  # which has no key selector
    edge, rows = EdgeWriter(plan, plan.graph.edges[0], part.subtask), RowBuffer()
    edge.is_timed = news is News.TIMED
    ends = part.subtask in level.ending_subtasks(part.vertex)
    edge.begin_epoch(rows, 1, dict.fromkeys(edge.targets, 0), replace(part.outputs[0], ended=ends))
    edge.watermark = part.outputs[0].watermark
    if news is News.ENDED:
        edge.write(watermark_only(MAX_WATERMARK))
    elif news is News.WATERMARK:
        edge.write(watermark_only(edge.watermark + 1))
    elif news is News.ACTIVE:  # the dispatch said that it was idle; now it has a watermark again, between its records
        edge.begin_epoch(rows, 1, dict.fromkeys(edge.targets, 0), replace(part.outputs[0], idle=True))
        edge.write(watermark_only(edge.watermark + 1))
        edge.flush()
        rows.drain()
    edge.flush()
    status = edge.status(idle=news is News.IDLE, ended=news is News.ENDED)
    closings = len(edge.targets) if edge.has_update(status) else 0
    payload = encode(ChannelClosing({edge.channel: edge.update(status)}, {}))
    one = row(slot_target(1, 1_999), PayloadKind.CLOSING, payload)
    empty = record_batch([]).nbytes
    return rows.drain().nbytes - empty + closings * bytes_of(one)


def row(target: int, kind: PayloadKind, payload: bytes) -> ExchangeRow:
    return ExchangeRow(1_999, target, channel_number(1, 1_999), 0, 1 << 61, kind, payload)


def bytes_of(one: ExchangeRow) -> int:
    """Return what one row more takes in a batch."""
    return (record_batch([one] * 65).nbytes - record_batch([one]).nbytes) // 64


def test_control_data_of_2000_subtasks_over_two_hash_levels() -> None:
    large, quarter = measure(2_000, News.WATERMARK), measure(500, News.WATERMARK)
    assert large.total <= 100_000_000
    assert large.to_a_task <= 100_000
    # What is written, passed on and answered is linear. Each task reads besides where each of its senders stands: one
    # small number for each pair of tasks.
    assert large.written + large.rows + large.answers <= 4.05 * (quarter.written + quarter.rows + quarter.answers)
    assert large.dispatched <= 4 * quarter.dispatched + 3 * 2 * 2_000**2


@pytest.mark.parametrize("news", [News.IDLE, News.ACTIVE, News.ENDED, News.WATERMARK, News.TIMED])
def test_what_happens_to_all_senders_at_once_needs_no_row_for_each_pair(news: News) -> None:
    quarter = measure(500, news)
    assert quarter.total <= measure(500).total + 3 * 500 * 16
    assert quarter.to_a_task <= measure(500).to_a_task + 16


def test_control_data_of_2000_subtasks_that_have_hosts() -> None:
    large = measure(2_000, News.WATERMARK, hosts=250)
    assert large.total <= 100_000_000
    assert large.to_a_task <= 100_000


def test_an_epoch_of_few_subtasks_stores_no_dispatches() -> None:
    assert measure(10).written == 0
