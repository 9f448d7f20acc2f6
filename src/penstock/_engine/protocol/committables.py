"""The ids of committables, by which errors, savepoints and start options name them."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import OutstandingCommit


def committable_ids(commit: OutstandingCommit) -> list[str]:
    """Return the id of each committable of a commit: checkpoint, subtask, and a digest of its bytes and its sink's uid.

    An id stays the same from start to start, as long as the committer does not change the committable.

    Example:
        >>> from penstock._engine.protocol.metadata import Committable, OutstandingCommit
        >>> committable_ids(OutstandingCommit("orders", 7, (Committable(0, b"a"), Committable(0, b"a"))))
        ['7-0-84aedcda87b9', '7-0-84aedcda87b9-2']
    """
    seen: Counter[str] = Counter()
    ids: list[str] = []
    for item in commit.committables:
        digest = sha256(b"\0".join((commit.uid.encode("utf-8", "surrogatepass"), item.payload))).hexdigest()[:12]
        name = f"{commit.checkpoint_id}-{item.subtask}-{digest}"
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return ids
