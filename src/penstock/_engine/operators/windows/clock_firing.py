"""Tumbling and sliding windows of processing time that fire at their end.

All records of a block have the windows of the moment at which it is handled. So a window is looked up once for a block,
its records are folded at once, and a key gets a timer with the first record of each epoch, over the rows of
`trigger_firing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._engine.operators.windows.trigger_firing import TriggerFiring
from penstock._engine.protocol.rows import MAX_WATERMARK
from penstock._engine.state.table import ABSENT
from penstock.common.copies import copy_if_mutable

if TYPE_CHECKING:
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Composite


class ClockFiring(TriggerFiring):
    """Adds blocks of records to the windows of the moment."""

    def add_all(
        self, records: list[Any], stamps: list[int], keys: list[Any], normals: list[NormalKey], out: SideOutputs
    ) -> None:
        pane, register = self.contents.pane, self.timers.processing.register
        hot, dirty = pane.hot, pane.dirty
        windows = self._assigned(records[0], stamps[0])
        for window in windows:
            namespace, last = self.namespaces.of(window), window.max_timestamp()
            addresses: list[Composite] = [(normal, namespace, None) for normal in normals]
            for address, key in zip(addresses, keys, strict=True):
                # A window that this epoch has written, and not fired since, has its timer.
                if address not in dirty or hot.get(address) is ABSENT:
                    if last < MAX_WATERMARK:
                        register(last, address[0], namespace, key)
                    dirty.add(address)
                    pane.remember(address, key)
            # A function may change the record that it folds, which the next window gets, too.
            is_shared = len(windows) > 1 and self.contents.folds
            given = [copy_if_mutable(record) for record in records] if is_shared else records
            self.contents.add_all(addresses, self.operator.iterate(given))
