"""Keys of format 1 that have another encoding today: rows with field names, and keys that contain such rows.

Format 1 encoded a row with names as the tuple of its values. Where the user's key was stored too, in timers and in
states that can list their keys, the key is encoded again. Elsewhere the names are unknown until the key occurs again:
then the state under the tuple of its values moves to it. Both encodings belong to one key group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock._engine.protocol.key_frames import NAMED, without_names
from penstock._engine.protocol.keys import normal_key
from penstock._engine.state.table import ABSENT, MISSING, Pane, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Composite
    from penstock._engine.state.timers import Timers


def adopt(tables: Iterable[Table], normals: Iterable[NormalKey]) -> None:
    """Move the state of some keys from their encodings of format 1 to their encodings of today.

    Args:
        tables: The tables of the store.
        normals: The keys in today's encoding; call this before their state is read or written.
    """
    moved = [(normal, without_names(normal)) for normal in set(normals) if type(normal) is bytes and NAMED in normal]
    moved = [(normal, old) for normal, old in moved if normal != old]
    for table in tables:
        if moved and table.old_keys:
            for pane in table.panes.values():
                for normal, old in moved:
                    _move(pane, normal, old)


def _move(pane: Pane, normal: bytes, old: bytes) -> None:
    value = _read(pane, old)
    if value is ABSENT:
        return
    original = pane.originals.get(old)
    if original is not None and normal_key(original) != normal:
        return  # a tuple, or a row with other names
    pane.hot[normal], pane.hot[old] = value, ABSENT
    pane.originals.pop(old, None)
    pane.remember(normal, original)
    pane.dirty.update((normal, old))


def _read(pane: Pane, normal: bytes) -> Any:
    value = pane.hot.get(normal, MISSING)
    return pane.load(normal) if value is MISSING else value


def timer_row(timers: Timers, row: Composite, original: Any) -> Composite:
    """Return a timer of format 1 as it is today.

    Args:
        timers: All timers of the domain so far.
        row: The timer as it is in the file.
        original: The user's key as stored with the timer; None for a deleted timer.
    """
    normal, namespace, timestamp = row
    if original is not None and original[0] is not None:
        return normal_key(original[0]), namespace, timestamp
    for held in timers.rows_at(cast("int", timestamp)):
        other = held[0]
        if held[1] == namespace and type(other) is bytes and without_names(other) == normal:
            return held
    return row
