"""The watermark up to which sliding windows were cleared, by key group.

A slice outlives the first of its windows. After rescaling, watermarks start fresh and would fire these windows again,
so checkpoints hold the progress of each key group.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.protocol.key_groups import key_group, key_group_range
from penstock._engine.protocol.rows import MIN_WATERMARK
from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from penstock._engine.operators.base import OperatorContext
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.keyed_state import KeyedState

#: The table, with a row for each key group.
PROGRESS: Final = "window-progress"


class WindowProgress:
    """The watermarks of the key groups of one subtask.

    Args:
        store: The operator's store.
        context: The operator's context.
    """

    def __init__(self, store: KeyedState, context: OperatorContext) -> None:
        self._pane = store.table(PROGRESS, kind=PROGRESS).pane()
        self._max_parallelism = context.max_parallelism
        own_groups = key_group_range(context.subtask, context.parallelism, context.max_parallelism)
        self._rows = _keys_of_groups(own_groups, context.max_parallelism)
        self._noted = MIN_WATERMARK
        #: By key group; key groups that the watermark has reached again are left out.
        self.ahead: dict[int, int] = {}

    def begin(self, watermark: int) -> None:
        """Read the progress of the key groups."""
        pane, found = self._pane, dict[int, int]()
        for group, row in self._rows.items():
            value: Any = pane.hot.get(row, MISSING)
            value = pane.load(row) if value is MISSING else value
            if value is not ABSENT and value > watermark:
                found[group] = value
        self.ahead = found
        self._noted = MIN_WATERMARK

    def advance(self, watermark: int) -> None:
        """Forget the key groups that a watermark has reached."""
        if self.ahead:
            self.ahead = {group: mark for group, mark in self.ahead.items() if mark > watermark}

    def of(self, normal: NormalKey) -> int:
        """Return the progress of a key's group if it is ahead of the watermark, else the smallest time."""
        return self.ahead.get(key_group(normal, self._max_parallelism), MIN_WATERMARK)

    def note(self, watermark: int) -> None:
        """Write the progress of the key groups."""
        if watermark > self._noted:
            self._noted = watermark
            rows = [row for group, row in self._rows.items() if group not in self.ahead]
            self._pane.hot.update(dict.fromkeys(rows, watermark))
            self._pane.dirty.update(rows)


@lru_cache(maxsize=8)
def _keys_of_groups(groups: range, max_parallelism: int) -> dict[int, int]:
    """Return for each key group a number that, used as a key, belongs to the group."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < len(groups):
        group = key_group(number, max_parallelism)
        if group in groups:
            found.setdefault(group, number)
        number += 1
    return found
