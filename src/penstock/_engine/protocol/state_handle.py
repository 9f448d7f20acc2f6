"""Where the keyed state of one subtask lies: the handles that acks, metadata and dispatches carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class StateHandle:
    """One file of keyed state: the changes of an epoch, or the whole state at a checkpoint."""

    checkpoint_id: int
    #: The attempt that wrote the file; with the checkpoint id it names the state as of this file.
    token: int
    kind: Literal["delta", "snapshot"]
    #: Relative to the checkpoint storage; None when the bytes stand in `inline`.
    path: str | None
    inline: bytes | None
    #: Bytes of the file, its entries, and the CRC-32 of its bytes.
    size: int
    entries: int
    checksum: int
    #: First and last key group of the subtask that wrote it.
    key_groups: tuple[int, int]


#: The handles that add up to a subtask's state, in the order in which they are read: snapshots first (several after a
#: rescale, with the deltas of the subtasks that wrote them), then the subtask's own accepted deltas.
Lineage: TypeAlias = tuple[StateHandle, ...]
