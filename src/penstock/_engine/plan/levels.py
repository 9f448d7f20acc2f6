"""Levels and slots: assigns the subtasks of a job graph to the tasks of an epoch.

A vertex is one level below its deepest input, so each edge leads downwards. An edge that skips levels passes through
carriers, which do not read its rows. The driver uses this module to plan an epoch, and tasks to find their place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, count, starmap
from typing import TYPE_CHECKING, Final

from penstock._engine.graph.job_graph import JobEdge, JobGraph, PartitionerKind
from penstock._engine.plan.bounds import receivers_of
from penstock._engine.plan.homes import ANYWHERE, is_spread
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.rows import channel_number, subtask_target, target_subtask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._engine.plan.bounds import Bounds
    from penstock._engine.plan.homes import Homes
    from penstock._engine.protocol.control import LevelDispatch, SubtaskDispatch

#: An edge with more channels is wide: the status of its senders reaches the receivers through the driver.
MAX_CLOSING_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """A job graph with its levels."""

    graph: JobGraph
    #: By vertex.
    level_of: tuple[int, ...]
    #: By level: its vertices, in order.
    levels: tuple[tuple[int, ...], ...]
    #: By vertex: the edges into it, in order of their ids; none into sources, and into what the driver feeds.
    inputs: tuple[tuple[JobEdge, ...], ...]

    @property
    def width(self) -> int:
        """The number of subtasks of the widest level: so many tasks the job can use."""
        counts = (sum(self.graph.vertices[vertex].parallelism for vertex in vertices) for vertices in self.levels)
        return max(counts, default=1)

    def channels_into(self, vertex: int, subtask: int) -> dict[int, int]:
        """Return the channels that a subtask reads: channel number -> input index."""
        channels: dict[int, int] = {}
        for edge in self.inputs[vertex]:
            for sender in self.senders(edge, subtask):
                channels[channel_number(edge.id, sender)] = edge.input_index
        return channels

    def channels_read(self, vertex: int, subtask: int, bounds: Mapping[int, Bounds]) -> dict[int, int]:
        """Return the channels into all receivers whose input a subtask reads, as `channels_into` does.

        Args:
            vertex: The vertex.
            subtask: The subtask.
            bounds: By vertex that runs fewer subtasks than the job graph says: which receivers each of them reads for.
        """
        parts = (self.channels_into(vertex, receiver) for receiver in receivers_of(bounds.get(vertex), subtask))
        return {channel: index for part in parts for channel, index in part.items()}

    def is_wide(self, edge: JobEdge) -> bool:
        """Tell whether an edge has too many channels for a row in each of them."""
        if edge.partitioner in (PartitionerKind.FORWARD, PartitionerKind.RESCALE):
            return False
        vertices = self.graph.vertices
        return vertices[edge.source].parallelism * vertices[edge.target].parallelism > MAX_CLOSING_ROWS

    @property
    def announces_ends(self) -> bool:
        """Whether sources end only in an epoch whose dispatch says so to all receivers."""
        return any(map(self.is_wide, self.graph.edges))

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
    inputs = tuple(tuple(graph.inputs(vertex.id)) for vertex in graph.vertices)
    return ExecutionPlan(graph, tuple(level_of), levels, inputs)


def plan_epoch(
    plan: ExecutionPlan,
    common: LevelDispatch,
    dispatches: Mapping[tuple[int, int], SubtaskDispatch],
    hosts: Sequence[str],
    rotation: int,
    *,
    homes: Homes | None = None,
) -> tuple[LevelDispatch, ...]:
    """Place the subtasks of an epoch on slots; the levels of a pipelined one share them out.

    With fewer slots than levels the last levels have one anywhere: Spark runs such an epoch once there are enough.

    Args:
        plan: The job's levels.
        common: The common part of all levels, with the `inputs` of all; the fields about levels and slots are replaced.
        dispatches: The subtasks to run, by (vertex, subtask); finished ones are left out.
        hosts: The host of each task that can run at the same time.
        rotation: Shifts the order of subtasks in a slot, so that no source always comes last.
        homes: Where the subtasks have their state; None where that does not matter.
    """
    running: dict[int, list[int]] = {}
    for vertex, subtask in sorted(dispatches):
        running.setdefault(vertex, []).append(subtask)
    ranges = {vertex: _ranges(subtasks) for vertex, subtasks in running.items()}
    of_levels = [
        [(vertex, subtask) for vertex in vertices for subtask in running.get(vertex, ())] for vertices in plan.levels
    ]
    shares = [
        hosts[level :: len(of_levels)] or (ANYWHERE,) if common.pipelined else hosts for level in range(len(of_levels))
    ]
    widths = tuple(max(1, min(map(len, pair))) for pair in zip(of_levels, shares, strict=True))
    assignments = (
        [homes.assign_slots(subtasks, share) for subtasks, share in zip(of_levels, shares, strict=True)]
        if homes is not None and is_spread(hosts)
        else []
    )
    slot_of = {subtask: slot for level in assignments for subtask, slot in level.slots.items()}
    placed = {vertex: tuple(slot_of[vertex, one] for one in running[vertex]) for vertex in running if assignments}
    ending = {vertex: _ranges(subtasks) for vertex, subtasks in _ending(plan, common.stop, dispatches).items()}
    by_slot: list[list[list[SubtaskDispatch]]] = [[[] for _ in range(width)] for width in widths]
    for target, slot in placement(plan, ranges, widths, placed).items():
        vertex, subtask = target_subtask(target)
        by_slot[plan.level_of[vertex]][slot].append(dispatches[vertex, subtask])
    return tuple(
        replace(
            common,
            level=level,
            slots=tuple(_rotated(slot if common.pipelined else _share_time(slot), rotation) for slot in slots_of_level),
            widths=widths,
            running=ranges,
            placed={vertex: slots for vertex, slots in placed.items() if vertex in _reached(plan, level)},
            hosts=assignments[level].hosts if assignments else (),
            ending=ending,
            inputs={
                edge: status
                for edge, status in common.inputs.items()
                if plan.level_of[plan.graph.edges[edge].target] == level
            },
        )
        for level, slots_of_level in enumerate(by_slot)
    )


def _reached(plan: ExecutionPlan, level: int) -> set[int]:
    """Return the vertices to which rows pass through or leave a level."""
    level_of = plan.level_of
    return {edge.target for edge in plan.graph.edges if level_of[edge.source] <= level < level_of[edge.target]}


def plan_stage(
    plan: ExecutionPlan,
    common: LevelDispatch,
    dispatches: Mapping[tuple[int, int], SubtaskDispatch],
    slots: int,
) -> tuple[LevelDispatch, ...]:
    """Place the subtasks of one stage of a batch job on slots; they are of one level.

    Args:
        plan: The job's levels.
        common: The common part of all tasks of the stage, with its `results`.
        dispatches: The subtasks to run, by (vertex, subtask).
        slots: How many tasks can run at the same time.
    """
    running: dict[int, list[int]] = {}
    for vertex, subtask in sorted(dispatches):
        running.setdefault(vertex, []).append(subtask)
    width = min(len(dispatches), slots)
    parts = [dispatches[place] for place in sorted(dispatches)]
    senders = {edge.source for vertex in running for edge in plan.graph.inputs(vertex)}
    stage = replace(
        common,
        level=plan.level_of[parts[0].vertex],
        slots=tuple(tuple(_share_time(parts[slot::width])) for slot in range(width)),
        widths=(width,),
        running={vertex: _ranges(subtasks) for vertex, subtasks in running.items()},
        ending={vertex: ((0, plan.graph.vertices[vertex].parallelism),) for vertex in senders},
    )
    return (stage,)


def _ending(
    plan: ExecutionPlan, stop: StopMode, dispatches: Mapping[tuple[int, int], SubtaskDispatch]
) -> dict[int, list[int]]:
    """Return by vertex the subtasks that end with an epoch: sources in a drain, and those without a live sender."""
    going_on: dict[int, list[int]] = {vertex.id: [] for vertex in plan.graph.vertices}
    for (vertex, subtask), part in sorted(dispatches.items()):
        if not part.is_notification:
            going_on[vertex].append(subtask)
    ending: dict[int, list[int]] = {}
    for vertex in chain.from_iterable(plan.levels):
        running = going_on[vertex]
        if stop is StopMode.DRAIN and plan.graph.vertices[vertex].is_source:
            going_on[vertex] = []
        elif not plan.inputs[vertex]:
            going_on[vertex] = [subtask for subtask in running if not dispatches[vertex, subtask].ends]
        else:
            fed = _fed(plan, vertex, going_on)
            going_on[vertex] = [subtask for subtask in running if subtask in fed]
        left = set(going_on[vertex])
        if len(left) < len(running):
            ending[vertex] = [subtask for subtask in running if subtask not in left]
    return ending


def _fed(plan: ExecutionPlan, vertex: int, going_on: Mapping[int, list[int]]) -> set[int]:
    """Return the subtasks of a vertex with a sender that continues."""
    fed: set[int] = set()
    for edge in plan.inputs[vertex]:
        for sender in going_on[edge.source]:
            if len(fed) == plan.graph.vertices[vertex].parallelism:
                return fed
            fed.update(plan.receivers(edge, sender))
    return fed


def placement(
    plan: ExecutionPlan,
    running: Mapping[int, tuple[tuple[int, int], ...]],
    widths: tuple[int, ...],
    placed: Mapping[int, Sequence[int]],
) -> dict[int, int]:
    """Return the slot of each subtask in its level, as target -> slot in the order of the targets.

    Args:
        plan: The job's levels.
        running: By vertex: the ranges of its subtasks that run.
        widths: The slots of each level.
        placed: By vertex: the slots of these subtasks; without them they follow from the numbers of the subtasks.
    """
    found: dict[int, int] = {}
    for vertex, ranges in running.items():
        level = plan.level_of[vertex]
        # Subtask i of every vertex goes to the same slot as long as all run; vertices of one subtask are spread.
        alone = plan.graph.vertices[vertex].parallelism == 1
        first = plan.levels[level].index(vertex) if alone else 0
        subtasks = chain.from_iterable(starmap(range, ranges))
        for slot, subtask in zip(placed.get(vertex, count(first)), subtasks, strict=False):
            found[subtask_target(vertex, subtask)] = slot % widths[level]
    return found


def _ranges(numbers: list[int]) -> tuple[tuple[int, int], ...]:
    """Return ascending numbers as ranges (start, stop)."""
    starts = [number for place, number in enumerate(numbers) if place == 0 or numbers[place - 1] != number - 1]
    stops = [
        number + 1 for place, number in enumerate(numbers, 1) if place == len(numbers) or numbers[place] != number + 1
    ]
    return tuple(zip(starts, stops, strict=True))


def plan_release(
    common: LevelDispatch, dispatches: Mapping[tuple[int, int], SubtaskDispatch], slots: int
) -> tuple[LevelDispatch, ...]:
    """Distribute the notifications of the last checkpoint to one task for each slot, which all run at the same time.

    Args:
        common: As in `plan_epoch`.
        dispatches: The notifications, by (vertex, subtask).
        slots: How many tasks can run at the same time.
    """
    notifications = [dispatches[key] for key in sorted(dispatches)]
    spread = tuple(tuple(notifications[slot::slots]) for slot in range(slots))
    return (replace(common, level=0, slots=spread, widths=(slots,), releases=True),)


def _share_time(subtasks: list[SubtaskDispatch]) -> list[SubtaskDispatch]:
    """Divide a slot's reading time among the source subtasks that it runs one after the other."""
    reading = sum(1 for dispatch in subtasks if dispatch.max_time_ms)
    if reading <= 1:
        return subtasks
    return [replace(dispatch, max_time_ms=-(-dispatch.max_time_ms // reading)) for dispatch in subtasks]


def _rotated(subtasks: list[SubtaskDispatch], rotation: int) -> tuple[SubtaskDispatch, ...]:
    shift = rotation % len(subtasks) if subtasks else 0
    return (*subtasks[shift:], *subtasks[:shift])
