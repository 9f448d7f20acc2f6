"""Shares operator state out: which subtask reads which files in an epoch, and which one owns them after rescaling.

It works on state handles alone and reads no file.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._engine.protocol.state_handle import StateMode, StatePart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._engine.protocol.metadata import OperatorSubtaskState
    from penstock._engine.protocol.state_handle import Lineage, StateHandle


class VisibleState:
    """What each subtask of an operator starts from: its own state, and the union lists of all others.

    Args:
        subtasks: The subtasks. Only the files of subtasks with union lists are given to all others.
    """

    def __init__(self, subtasks: Sequence[OperatorSubtaskState]) -> None:
        self._subtasks = subtasks
        self._unions = [
            (owner, replace(handle, parts=parts))
            for owner, subtask in enumerate(subtasks)
            for handle in subtask.operator_state
            if (parts := _as_foreign(handle))
        ]

    def of(self, index: int) -> Lineage:
        """Return the files of one subtask, in the order of the subtasks, so that all see a union list in one order."""
        own = self._subtasks[index].operator_state
        if not self._unions:
            return own
        before = (handle for owner, handle in self._unions if owner < index)
        return (*before, *own, *(handle for owner, handle in self._unions if owner > index))


def _as_foreign(handle: StateHandle) -> tuple[StatePart, ...]:
    return tuple(replace(part, mode=StateMode.FOREIGN) for part in handle.parts if part.mode is StateMode.UNION)


def redistribute(subtasks: Sequence[OperatorSubtaskState], parallelism: int) -> list[Lineage]:
    """Return the operator state of each of `parallelism` new subtasks.

    List items are dealt round-robin, but those of finished subtasks: the state of an operator is composed of the states
    of the subtasks still executing (FLIP-147). Each item of a union list gets one owner, and all subtasks see it, also
    those of finished subtasks. A broadcast map is copied from a running subtask, or from a finished one if none runs.

    Args:
        subtasks: All old subtasks of the operator.
        parallelism: The number of new ones.
    """
    dealt: list[list[StateHandle]] = [[] for _ in range(parallelism)]
    counts: Counter[str] = Counter()
    models = _models(subtasks)
    for old, subtask in enumerate(subtasks):
        for handle in subtask.operator_state:
            owned = [part for part in handle.parts if not (subtask.finished and part.mode is StateMode.LIST)]
            for new in range(parallelism):
                whole = {
                    StateMode.UNION: new == old % parallelism,
                    StateMode.BROADCAST: bool(models) and models[new % len(models)] == old,
                }
                parts = tuple(
                    share
                    for part in owned
                    if (share := part if whole.get(part.mode) else _items(part, new - counts[part.name], parallelism))
                )
                if parts:
                    dealt[new].append(replace(handle, parts=parts))
            counts.update({part.name: len(part.places()) for part in owned})
    return [tuple(handles) for handles in dealt]


def _items(part: StatePart, offset: int, parallelism: int) -> StatePart | None:
    """Return every `parallelism`-th item of a list; None for other states, and where there is none."""
    share = part.places()[offset % parallelism :: parallelism]
    return (
        replace(part, start=share.start, stop=share.stop, step=share.step)
        if part.mode is StateMode.LIST and share
        else None
    )


def items_left(subtasks: Sequence[OperatorSubtaskState]) -> Counter[str]:
    """Return how many list items finished subtasks have left, by the names of their states; no other subtask gets them.

    Args:
        subtasks: All subtasks of an operator.
    """
    left: Counter[str] = Counter()
    for subtask in subtasks:
        if subtask.finished and not subtask.drained:
            lists = [part for handle in subtask.operator_state for part in handle.parts if part.mode is StateMode.LIST]
            for part in lists:
                left[part.name] += len(part.places())
    return left


def _models(subtasks: Sequence[OperatorSubtaskState]) -> list[int]:
    """Return the subtasks whose broadcast maps are copied: running ones, or else all that have any."""
    having = [
        index
        for index, subtask in enumerate(subtasks)
        if any(part.mode is StateMode.BROADCAST for handle in subtask.operator_state for part in handle.parts)
    ]
    return [index for index in having if not subtasks[index].finished] or having
