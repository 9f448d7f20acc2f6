"""The state of a window operator: the contents of its windows, and the keys that have fired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from penstock._engine.protocol.keys import NormalKey
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
