"""Watermark alignment in the driver: how far the others of its group are, for each source subtask.

All sources of the job whose strategies name the same group belong to it. A subtask that is idle, has no splits, has
ended or had no watermark yet holds nothing back. A subtask is told the watermark of the others only: the one that is
last, or alone, goes on as far as the others allow, within an epoch too, and none gets further ahead than by its drift.

Source: FLIP-182, Flink's SourceCoordinator, whose announcements come by time and hold for the last one as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import UNSET

from penstock._engine.protocol.control import AlignmentReport, decode
from penstock._engine.protocol.events import ReaderState
from penstock._engine.protocol.rows import MAX_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.coordinator.epochs.acceptance import Subtask
    from penstock._engine.protocol.control import SubtaskAck
    from penstock._engine.protocol.metadata import JobSnapshot

#: What each source subtask in a group has reported at the end of the last epoch; those that have ended are left out.
Reports: TypeAlias = "dict[Subtask, AlignmentReport]"


def reports_of(acks: Iterable[SubtaskAck]) -> Reports:
    """Return the reports of an epoch."""
    return {
        (ack.vertex, ack.subtask): part.alignment
        for ack in acks
        for part in ack.operators.values()
        if part.alignment is not UNSET and not ack.finished
    }


def restored_reports(snapshot: JobSnapshot, sources: Iterable[str]) -> Reports:
    """Return the reports of the last epoch before a restart; at another parallelism, readers begin anew without any.

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
