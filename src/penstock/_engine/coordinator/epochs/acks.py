"""What the acks of an epoch tell: whether they count, and how far the sources of a watermark group have come.

Spark may run a task twice, and the second attempt need not produce the same records. Each attempt stamps its rows with
its own token. Senders and receivers report sums over their rows (`protocol.row_sums`), which show whether all subtasks
read the same attempts.

All sources of the job whose strategies name the same group belong to it. A subtask that is idle, has no splits, has
ended or had no watermark yet holds nothing back. A subtask is told the watermark of the others only: the one that is
last, or alone, goes on as far as the others allow, within an epoch too, and none gets further ahead than by its drift.
Source: FLIP-182, Flink's SourceCoordinator, whose announcements come by time and hold for the last one as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import UNSET

from penstock._engine.coordinator.instructions import AccumulatorUpdate, OperatorOutput
from penstock._engine.protocol.control import AlignmentReport, decode
from penstock._engine.protocol.events import ReaderState
from penstock._engine.protocol.row_sums import are_read
from penstock._engine.protocol.rows import MAX_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
    from penstock._engine.graph.job_graph import JobEdge
    from penstock._engine.protocol.control import SubtaskAck
    from penstock._engine.protocol.metadata import JobSnapshot


def void_reason(
    checkpoint_id: int,
    acks: Iterable[SubtaskAck],
    expected: Collection[Subtask],
    edges: Iterable[JobEdge],
    earlier: Collection[SubtaskAck] = (),
) -> str | None:
    """Say why an epoch or a stage is void; return None if it counts.

    Args:
        checkpoint_id: The checkpoint of the epoch.
        acks: The answers of the tasks.
        expected: The subtasks of the dispatch.
        edges: All edges of the job; for a stage, those into it.
        earlier: For a stage: the answers of earlier stages, whose results it reads.
    """
    answered: dict[Subtask, SubtaskAck] = {}
    for ack in acks:
        subtask = (ack.vertex, ack.subtask)
        if subtask not in expected:
            return f"{_name(subtask)} answered without being asked"
        if subtask in answered:
            return f"{_name(subtask)} answered twice"
        if ack.checkpoint_id != checkpoint_id:
            return f"{_name(subtask)} answered for checkpoint {ack.checkpoint_id}"
        answered[subtask] = ack
    missing = [subtask for subtask in expected if subtask not in answered]
    if missing:
        return f"{_name(missing[0])} did not answer" + (f", nor did {len(missing) - 1} others" if missing[1:] else "")
    together = [*earlier, *answered.values()]
    return next(filter(None, (_misread(edge, together) for edge in edges)), None)


def _misread(edge: JobEdge, acks: Collection[SubtaskAck]) -> str | None:
    """Name an edge whose rows were not all read once from the attempts that answered; return None where they were."""
    sent = ((ack.token, ack.rows_sent.get(edge.id, 0)) for ack in acks if ack.vertex == edge.source)
    read = (ack.rows_read.get(edge.id, 0) for ack in acks if ack.vertex == edge.target)
    if are_read(sent, read):
        return None
    return f"vertex {edge.target} read other rows of vertex {edge.source} than those of the attempts that answered"


def _name(subtask: Subtask) -> str:
    return f"subtask {subtask[1]} of vertex {subtask[0]}"


#: What each source subtask in a group has reported at the end of the last epoch; those that have ended are left out.
Reports: TypeAlias = "dict[Subtask, AlignmentReport]"


def contributions(acks: Iterable[SubtaskAck]) -> tuple[AccumulatorUpdate, ...]:
    """Return the accumulator updates of an epoch."""
    return tuple(
        AccumulatorUpdate(uid, ack.subtask, part.all_accumulators)
        for ack in sorted(acks, key=lambda ack: (ack.vertex, ack.subtask))
        for uid, part in ack.operators.items()
        if part.all_accumulators
    )


def outputs(acks: Iterable[SubtaskAck], collectors: Iterable[str]) -> tuple[OperatorOutput, ...]:
    """Return the printed and collected output of an epoch, by operator and subtask.

    Args:
        acks: Those of the epoch.
        collectors: The uids of the operators whose output goes to the program.
    """
    in_order = sorted(acks, key=lambda ack: ack.subtask)
    found = ((uid, ack.subtask, ack.operators[uid]) for uid in collectors for ack in in_order if uid in ack.operators)
    return tuple(
        OperatorOutput(uid, subtask, part.outputs, part.outputs_path, part.outputs_digest)
        for uid, subtask, part in found
        if part.outputs or part.outputs_path
    )


def reports_of(acks: Iterable[SubtaskAck]) -> Reports:
    """Return the reports of an epoch."""
    return {
        (ack.vertex, ack.subtask): part.alignment
        for ack in acks
        for part in ack.operators.values()
        if part.alignment is not UNSET and not ack.finished
    }


def restored_reports(snapshot: JobSnapshot, sources: Iterable[str]) -> Reports:
    """Return the reports of the last epoch before a restart; at another parallelism, readers start fresh without any.

    Args:
        snapshot: The last checkpoint.
        sources: The uids of the sources.
    """
    found: Reports = {}
    for operator in map(snapshot.operators.__getitem__, sources):
        for index, part in enumerate(operator.subtasks):
            state = ReaderState() if part.state is None or part.finished else decode(part.state, ReaderState)
            if state.alignment is not UNSET:
                found[operator.vertex, index] = state.alignment
    return found


def group_watermarks(reports: Reports) -> dict[Subtask, int]:
    """Return the smallest watermark of the others in its group for each subtask that has one."""
    groups: dict[str, dict[Subtask, int]] = {}
    for subtask, report in reports.items():
        groups.setdefault(report.group, {})[subtask] = report.watermark
    found: dict[Subtask, int] = {}
    for group in groups.values():
        smallest, second = sorted([*group.values(), MAX_WATERMARK])[:2]
        found |= {subtask: second if mark == smallest else smallest for subtask, mark in group.items()}
    return found


def may_read_on(reports: Reports) -> bool:
    """Tell whether a subtask that waited for its group in the last epoch may read in the next one."""
    marks = group_watermarks(reports)
    return any(report.awaits is not None and marks[subtask] >= report.awaits for subtask, report in reports.items())
