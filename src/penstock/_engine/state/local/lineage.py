"""Positions on a lineage: the state that a store holds, and the files that lead from it to the newest state."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from penstock._engine.protocol.state_handle import Lineage, StateHandle

#: (checkpoint id, token): the state as of that attempt's file. Tokens are random, so equal positions mean equal state.
Position: TypeAlias = "tuple[int, int]"

#: The position of a job that starts without state.
ORIGIN: Final[Position] = (0, 0)


@dataclass(frozen=True, slots=True)
class LineageStep:
    """The files that lead from the previous position to this one."""

    position: Position
    handles: tuple[StateHandle, ...]


def steps(lineage: Lineage, key_groups: range) -> list[LineageStep]:
    """Return the positions on a lineage, oldest first; the first one starts from empty state.

    The first step has all snapshots and, after a rescale, the deltas of the former subtasks: only together are they a
    state of this subtask.
    """
    own = (key_groups.start, key_groups.stop - 1)
    foreign = [i for i, handle in enumerate(lineage) if handle.kind == "snapshot" or handle.key_groups != own]
    root = lineage[: foreign[-1] + 1] if foreign else ()
    result = [LineageStep(_root_position(root, own), root)]
    result += [LineageStep((handle.checkpoint_id, handle.token), (handle,)) for handle in lineage[len(root) :]]
    return result


def _root_position(root: Lineage, own: tuple[int, int]) -> Position:
    if not root:
        return ORIGIN
    # The files of one snapshot count as one.
    names = list(dict.fromkeys((part.checkpoint_id, part.token, part.kind, part.key_groups) for part in root))
    if len(names) == 1 and root[0].key_groups == own:
        return root[0].checkpoint_id, root[0].token
    digest = blake2b(msgspec.msgpack.encode(names), digest_size=7)  # fits the 64 bits that MessagePack has
    return max(handle.checkpoint_id for handle in root), int.from_bytes(digest.digest(), "big")
