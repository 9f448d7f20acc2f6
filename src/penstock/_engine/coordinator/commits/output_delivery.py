"""Delivers the output of print and collect to the program, once its checkpoint has completed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator.instructions import DeliverOutputs

if TYPE_CHECKING:
    from penstock._engine.coordinator.checkpoints.retention import RetainedCheckpoint
    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.instructions import OperatorOutput


class OutputDelivery:
    """Delivers the output of each checkpoint to the program exactly once, with retries.

    No epoch produces the output again once its checkpoint has completed. So its files stay until the program has it,
    and a restart first delivers what is still owed.

    Args:
        context: The coordinator's context.
    """

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._outputs: tuple[OperatorOutput, ...] = ()
        self._pinned: RetainedCheckpoint | None = None

    @property
    def is_due(self) -> bool:
        """Whether outputs are still to be delivered."""
        return bool(self._outputs)

    def begin(self, checkpoint_id: int, outputs: tuple[OperatorOutput, ...]) -> None:
        """Deliver the outputs of an epoch."""
        if outputs:
            files = frozenset(output.path for output in outputs if output.path is not None)
            self._outputs, self._pinned = outputs, self._context.retention.pin(checkpoint_id, files)
            self.again()

    def again(self) -> None:
        """Deliver again the outputs that the program has not taken."""
        if self._outputs:
            self._context.emit(DeliverOutputs(self._outputs))

    def done(self) -> None:
        """Unpin the files of the outputs that the program has taken."""
        self._outputs = ()
        if self._pinned is not None:
            self._context.delete(self._context.retention.unpin(self._pinned))
            self._pinned = None
