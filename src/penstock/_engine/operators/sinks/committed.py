"""The head of a post-commit topology: passes on what the driver says is committed (decision 54)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.connectors.topology import CommittableWithLineage
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.head import InputHead
from penstock._engine.protocol.control import decode
from penstock._engine.protocol.versioned import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._api.connectors.committer import HasCommittables
    from penstock._engine.operators.base import EpochContext, Output
    from penstock._engine.operators.head import ReadLimits


class CommittedOperator(InputHead):
    """Emits the committables that its dispatch has, all in one batch.

    It has no state: what was not passed on is in the chain entry, with the driver.

    Args:
        sink: The sink, which has the serializer of committables.
    """

    def __init__(self, sink: HasCommittables[Any]) -> None:
        super().__init__()
        self._sink = sink
        self._records: list[CommittableWithLineage[Any]] = []

    def begin_epoch(self, epoch: EpochContext) -> None:
        self.ended = False
        serializer = self._sink.get_committable_serializer()
        self._records = [
            CommittableWithLineage(serializer.deserialize(*unpack(payload)), checkpoint_id, subtask)
            for part in epoch.restore.events
            for checkpoint_id, subtask, payload in decode(part, list[tuple[int, int, bytes]])
        ]

    def read(self, limits: ReadLimits, size: Callable[[], int]) -> Iterator[Output]:
        records, self._records = self._records, []
        if records:
            yield None, RowBatch(records, None)

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        """Pass on the last watermark, which the runtime puts in."""
        yield None, batch
