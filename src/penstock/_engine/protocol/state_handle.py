"""Handles of the state of one subtask, which acks, metadata and dispatches carry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable


class StateMode(StrEnum):
    """How operator state is distributed when the number of subtasks changes."""

    #: Item by item, round-robin.
    LIST = "list"
    #: Every subtask sees all items; each item has one owner, which keeps it.
    UNION = "union"
    #: In a dispatch only: union items of another subtask, which the receiver sees but does not keep.
    FOREIGN = "foreign"
    #: Every subtask has the same one item.
    BROADCAST = "broadcast"


@dataclass(frozen=True, slots=True)
class StatePart:
    """The part of one operator state in a file: the items at `range(start, stop, step)`."""

    name: str
    mode: StateMode
    start: int
    stop: int
    step: int = 1

    def places(self) -> range:
        """Return the positions of the items."""
        return range(self.start, self.stop, self.step)


@dataclass(frozen=True, slots=True)
class StateHandle:
    """One file of state.

    Of keyed state: the changes of an epoch ("delta"), or the whole state at a checkpoint ("snapshot"). Of operator
    state: all of it ("operator").
    """

    checkpoint_id: int
    #: The attempt that wrote the file; with the checkpoint id it names the state as of this file.
    token: int
    kind: Literal["delta", "snapshot", "operator"]
    #: Relative to the checkpoint storage; None when the bytes are in `inline`.
    path: str | None
    inline: bytes | None
    #: Bytes of the file, its entries, and the CRC-32 of its bytes.
    size: int
    entries: int
    checksum: int
    #: First and last key group to read from the file: the groups of the subtask that wrote it, fewer after a rescale;
    #: (0, -1) for operator state, which has none.
    key_groups: tuple[int, int]
    #: Operator state: the items to read from the file.
    parts: tuple[StatePart, ...] = ()
    #: The SHA-256 of the bytes of a file, which a signature covers with the entry that names it; None where the bytes
    #: are in the handle.
    digest: bytes | None = None
    #: First and last key group of which the file has something; None where it has nothing.
    groups_within: tuple[int, int] | None = None


#: The handles that add up to a subtask's state, in the order in which they are read: snapshots first (several of one
#: checkpoint where the state is large; after a rescale those of several subtasks, each with the deltas on top of it),
#: then the subtask's own accepted deltas. Operator state: all its files.
Lineage: TypeAlias = tuple[StateHandle, ...]


def rescale(lineages: Iterable[Lineage], key_groups: range) -> Lineage:
    """Return the lineage of a new subtask, given the lineages of all old subtasks of its operator.

    Args:
        lineages: The old subtasks' lineages.
        key_groups: The key groups of the new subtask.
    """
    result: list[StateHandle] = []
    for lineage in lineages:
        for handle in lineage:
            first, last = max(handle.key_groups[0], key_groups.start), min(handle.key_groups[1], key_groups.stop - 1)
            if first <= last and not _misses(handle, first, last):
                result.append(replace(handle, key_groups=(first, last)))
    return tuple(result)


def _misses(handle: StateHandle, first: int, last: int) -> bool:
    """Tell whether a snapshot's file has nothing of some key groups."""
    if handle.kind != "snapshot" or handle.groups_within is None:
        return False
    return handle.groups_within[1] < first or last < handle.groups_within[0]
