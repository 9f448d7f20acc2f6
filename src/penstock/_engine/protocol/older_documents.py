"""Converts chain entries of older formats to the current one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import UNSET

from penstock._engine.protocol.control import ChannelStatus
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.protocol.metadata import (
        ChainEntry,
        OperatorSubtaskState,
        VertexMetadata,
        VertexSubtaskState,
    )


def from_format_1(entry: ChainEntry) -> ChainEntry:
    """Store the watermark in handles of keyed state: in format 1 only it shows which windows have fired."""
    snapshot = entry.snapshot
    if snapshot is None:
        return entry
    operators = dict(snapshot.operators)
    for vertex in snapshot.vertices:
        for uid in vertex.operators:
            parts = zip(operators[uid].subtasks, vertex.subtasks, strict=True)
            subtasks = tuple(_with_watermark(part, place.input_watermark) for part, place in parts)
            operators[uid] = replace(operators[uid], subtasks=subtasks)
    return replace(entry, snapshot=replace(snapshot, operators=operators))


def _with_watermark(subtask: OperatorSubtaskState, watermark: int) -> OperatorSubtaskState:
    return replace(subtask, lineage=tuple(replace(handle, watermark=watermark) for handle in subtask.lineage))


def from_format_3(entry: ChainEntry) -> ChainEntry:
    """Store the status of channels with their senders: in format 3 each receiver had it."""
    snapshot = entry.snapshot
    if snapshot is None:
        return entry
    told: dict[tuple[int, int], list[ChannelStatus]] = {}
    for vertex in snapshot.vertices:
        for subtask in vertex.subtasks:
            for channel, status in _old_channels(subtask).items():
                told.setdefault(divmod(channel, 1 << 16), []).append(status)
    signatures = [text for vertex in snapshot.vertices for text in vertex.inputs]
    vertices: list[VertexMetadata] = []
    for vertex in snapshot.vertices:
        edges = [int(text.partition(":")[0]) for text in signatures if _sends(vertex, text)]
        outputs = [
            {edge: _earliest(told[edge, index]) for edge in edges if (edge, index) in told}
            for index in range(len(vertex.subtasks))
        ]
        vertices.append(replace(vertex, subtasks=tuple(map(_with_outputs, vertex.subtasks, outputs))))
    return replace(entry, snapshot=replace(snapshot, vertices=tuple(vertices)))


def _with_outputs(subtask: VertexSubtaskState, outputs: dict[int, ChannelStatus]) -> VertexSubtaskState:
    if subtask.channels is UNSET:
        return subtask
    watermark, has_run = _input_watermark(subtask.channels), bool(subtask.channels)
    return replace(subtask, input_watermark=watermark, has_run=has_run, outputs=outputs, channels=UNSET)


def _old_channels(subtask: VertexSubtaskState) -> dict[int, ChannelStatus]:
    return {} if subtask.channels is UNSET else subtask.channels


def _sends(vertex: VertexMetadata, signature: str) -> bool:
    """Return whether an edge begins at an operator of a vertex, or at a side output of it."""
    output = signature.partition(": ")[2].rsplit(" ", 4)[0]
    return any(output == uid or output.startswith(f"{uid}:") for uid in vertex.operators)


def _earliest(statuses: list[ChannelStatus]) -> ChannelStatus:
    """Return the status of a channel that all receivers know; its next row brings the rest."""
    return ChannelStatus(
        min(status.watermark for status in statuses),
        any(status.idle for status in statuses),
        all(status.ended for status in statuses),
    )


def _input_watermark(channels: Mapping[int, ChannelStatus]) -> int:
    """Return the watermark of a subtask at the end of an epoch, as the runtime's valve computes it.

    Args:
        channels: The status of all its channels.
    """
    still_open = [channel for channel in channels.values() if not channel.ended]
    if channels and not still_open:
        return MAX_WATERMARK
    counting = [channel.watermark for channel in still_open if not channel.idle]
    return min(counting) if counting else max((channel.watermark for channel in still_open), default=MIN_WATERMARK)
