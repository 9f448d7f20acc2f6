"""The state of a window operator: the contents of its windows, and the keys that have fired.

Format 1 stored only the contents. There a window had fired if its end was at or before the watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.key_groups import key_group
from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.protocol.state_handle import Lineage
    from penstock._engine.state.memory_store import MemoryStore
    from penstock._engine.state.table import Pane

#: The tables; both have a pane for each window, by (start, end).
CONTENTS: Final = "window-contents"
FIRED: Final = "window-fired"


def has_fired(fired: Pane, normal: NormalKey) -> bool:
    """Return whether a key of a window has fired, so that it does not fire when the watermark passes."""
    value = fired.hot.get(normal, MISSING)
    return (fired.load(normal) if value is MISSING else value) is not ABSENT


def note_fired(fired: Pane, normal: NormalKey) -> None:
    """Note that a key of a window has fired."""
    if not has_fired(fired, normal):
        fired.hot[normal] = True
        fired.dirty.add(normal)


def note_new_record(fired: Pane, normal: NormalKey) -> None:
    """Note that a key of a window fires when the watermark passes, even if it has fired before."""
    if has_fired(fired, normal):
        fired.hot[normal] = ABSENT
        fired.dirty.add(normal)


def take_over_from_format_1(store: MemoryStore, lineage: Lineage, max_parallelism: int) -> None:
    """Note the fired keys in a checkpoint of format 1, in which only the watermark shows them.

    This happens once, because the first epoch stores the notes.

    Args:
        store: The store, restored from the lineage.
        lineage: The lineage of the subtask; its handles may come from several former subtasks with a watermark each.
        max_parallelism: The number of all key groups.
    """
    known = [(handle.watermark, *handle.key_groups) for handle in lineage if handle.watermark is not None]
    if not known or len(known) < len(lineage):
        return
    fired = store.table(FIRED, kind=FIRED)
    for namespace, pane in list(store.table(CONTENTS).panes.items()):
        own = [(first, last) for watermark, first, last in known if namespace[1] - 1 <= watermark]
        for normal, _, _ in pane.entries() if own else ():
            group = key_group(normal, max_parallelism)
            if any(first <= group <= last for first, last in own):
                note_fired(fired.pane(namespace), normal)
