"""Delivers the output of print and collect to the program, once its checkpoint has completed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator.checkpoints.retention import Garbage
from penstock._engine.coordinator.instructions import DeliverOutputs

if TYPE_CHECKING:
    from penstock._engine.coordinator.checkpoints.retention import CheckpointRetention, RetainedCheckpoint
    from penstock._engine.coordinator.instructions import OperatorOutput


class OutputDelivery:
    """Delivers the output of each checkpoint to the program exactly once, with retries.

    No epoch produces the output again once its checkpoint has completed. So its files stay until the program has it,
    and a restart first delivers what is still owed.
    """

    def __init__(self) -> None:
        self._outputs: tuple[OperatorOutput, ...] = ()
        self._pinned: RetainedCheckpoint | None = None

    @property
    def is_due(self) -> bool:
        """Whether outputs are still to be delivered."""
        return bool(self._outputs)

    def begin(
        self, checkpoint_id: int, outputs: tuple[OperatorOutput, ...], retention: CheckpointRetention
    ) -> list[DeliverOutputs]:
        """Deliver the outputs of an epoch, whose files stay until the program has them."""
        if not outputs:
            return []
        files = frozenset(output.path for output in outputs if output.path is not None)
        self._outputs, self._pinned = outputs, retention.pin(checkpoint_id, files)
        return self.again()

    def again(self) -> list[DeliverOutputs]:
        """Deliver again the outputs that the program has not taken."""
        return [DeliverOutputs(self._outputs)] if self._outputs else []

    def done(self, retention: CheckpointRetention) -> Garbage:
        """Note that the program has taken the outputs, and return their files."""
        pinned, self._outputs, self._pinned = self._pinned, (), None
        return retention.unpin(pinned) if pinned is not None else Garbage()
