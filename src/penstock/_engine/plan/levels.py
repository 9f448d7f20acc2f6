"""Levels and slots: assigns the subtasks of a job graph to the tasks of an epoch.

A vertex is one level below its deepest input, so each edge leads downwards. An edge that skips levels passes through
carriers, which do not read its rows. The driver uses this module to plan an epoch, and tasks to find their place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock._engine.graph.job_graph import JobEdge, JobGraph, PartitionerKind
from penstock._engine.protocol.rows import channel_number, subtask_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.protocol.control import LevelDispatch, SubtaskDispatch


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """A job graph with its levels."""

    graph: JobGraph
    #: By vertex.
    level_of: tuple[int, ...]
    #: By level: its vertices, in order.
    levels: tuple[tuple[int, ...], ...]

    def channels_into(self, vertex: int, subtask: int) -> dict[int, int]:
        """Return the channels that a subtask reads: channel number -> input index."""
        channels: dict[int, int] = {}
        for edge in self.graph.inputs(vertex):
            for sender in self.senders(edge, subtask):
                channels[channel_number(edge.id, sender)] = edge.input_index
        return channels

    def senders(self, edge: JobEdge, receiver: int) -> range | list[int]:
        """Return the subtasks that send to a receiver through an edge."""
        up = self.graph.vertices[edge.source].parallelism
        if edge.partitioner in (PartitionerKind.FORWARD, PartitionerKind.RESCALE):
            return [sender for sender in range(up) if receiver in self.receivers(edge, sender)]
        return range(up)

    def receivers(self, edge: JobEdge, sender: int) -> range:
        """Return the subtasks that a sender reaches through an edge; pointwise edges as Flink distributes them."""
        up = self.graph.vertices[edge.source].parallelism
        down = self.graph.vertices[edge.target].parallelism
        if edge.partitioner is PartitionerKind.FORWARD:
            return range(sender, sender + 1)
        if edge.partitioner is PartitionerKind.RESCALE:
            if up >= down:
                place = ((sender + 1) * down - 1) // up
                return range(place, place + 1)
            return range(-(-sender * down // up), -(-(sender + 1) * down // up))
        return range(down)


def build_plan(graph: JobGraph) -> ExecutionPlan:
    """Sort the vertices of a job graph into levels."""
    level_of = graph.levels()
    levels = tuple(
        tuple(vertex.id for vertex in graph.vertices if level_of[vertex.id] == level)
        for level in range(max(level_of, default=-1) + 1)
    )
    return ExecutionPlan(graph, tuple(level_of), levels)


def plan_epoch(
    plan: ExecutionPlan,
    common: LevelDispatch,
    dispatches: Mapping[tuple[int, int], SubtaskDispatch],
    slots: int,
    rotation: int,
) -> tuple[LevelDispatch, ...]:
    """Place the subtasks of an epoch on slots.

    Args:
        plan: The job's levels.
        common: What all levels share; its `level`, `slots`, `widths` and `placement` are replaced.
        dispatches: The subtasks to run, by (vertex, subtask); finished ones are left out.
        slots: How many tasks can run at the same time.
        rotation: Shifts the order of subtasks in a slot, so that no source always comes last.
    """
    placed: list[tuple[tuple[SubtaskDispatch, ...], ...]] = []
    placement: dict[int, int] = {}
    for vertices in plan.levels:
        subtasks = [dispatches[key] for key in sorted(dispatches) if key[0] in vertices]
        width = max(1, min(len(subtasks), slots))
        rank = dict.fromkeys(vertices, 0)
        by_slot: list[list[SubtaskDispatch]] = [[] for _ in range(width)]
        for dispatch in subtasks:
            # Subtask i of every vertex goes to the same slot as long as all run; vertices of one subtask are spread.
            alone = plan.graph.vertices[dispatch.vertex].parallelism == 1
            slot = (vertices.index(dispatch.vertex) if alone else rank[dispatch.vertex]) % width
            rank[dispatch.vertex] += 1
            by_slot[slot].append(dispatch)
            placement[subtask_target(dispatch.vertex, dispatch.subtask)] = slot
        placed.append(tuple(_rotated(_share_time(slot), rotation) for slot in by_slot))
    widths = tuple(len(level) for level in placed)
    return tuple(
        replace(common, level=level, slots=slots_of_level, widths=widths, placement=placement)
        for level, slots_of_level in enumerate(placed)
    )


def plan_release(
    common: LevelDispatch, dispatches: Mapping[tuple[int, int], SubtaskDispatch], slots: int
) -> tuple[LevelDispatch, ...]:
    """Spread the notices of a job's last checkpoint over one task for each slot, which all run at the same time.

    Args:
        common: As in `plan_epoch`.
        dispatches: The notices, by (vertex, subtask).
        slots: How many tasks can run at the same time.
    """
    notifications = [dispatches[key] for key in sorted(dispatches)]
    spread = tuple(tuple(notifications[slot::slots]) for slot in range(slots))
    return (replace(common, level=0, slots=spread, widths=(slots,), placement={}, releases=True),)


def _share_time(subtasks: list[SubtaskDispatch]) -> list[SubtaskDispatch]:
    """Divide a slot's reading time among the source subtasks that it runs one after the other."""
    reading = sum(1 for dispatch in subtasks if dispatch.max_time_ms)
    if reading <= 1:
        return subtasks
    return [replace(dispatch, max_time_ms=-(-dispatch.max_time_ms // reading)) for dispatch in subtasks]


def _rotated(subtasks: list[SubtaskDispatch], rotation: int) -> tuple[SubtaskDispatch, ...]:
    shift = rotation % len(subtasks) if subtasks else 0
    return (*subtasks[shift:], *subtasks[:shift])
