"""What the job has put out for the program, between the checkpoint that makes it final and the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator.instructions import HandOver

if TYPE_CHECKING:
    from penstock._engine.coordinator.checkpoints.retention import Kept
    from penstock._engine.coordinator.context import Desk
    from penstock._engine.coordinator.instructions import Output


class HandingOver:
    """Has the output of each checkpoint handed over once, however often that has to be tried.

    No epoch makes it again once its checkpoint is there. So its files stay until the program has it, and a restart
    begins with what the program has not got.

    Args:
        desk: The coordinator's desk.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._outputs: tuple[Output, ...] = ()
        self._pinned: Kept | None = None

    @property
    def is_due(self) -> bool:
        """Whether the program has not got everything yet."""
        return bool(self._outputs)

    def begin(self, checkpoint_id: int, outputs: tuple[Output, ...]) -> None:
        """Hand over what an epoch has put out."""
        if outputs:
            files = frozenset(output.path for output in outputs if output.path is not None)
            self._outputs, self._pinned = outputs, self._desk.retention.pin(checkpoint_id, files)
            self.again()

    def again(self) -> None:
        """Hand over what the program has not got yet."""
        if self._outputs:
            self._desk.emit(HandOver(self._outputs))

    def done(self) -> None:
        """Let the files go of what the program has."""
        self._outputs = ()
        if self._pinned is not None:
            self._desk.delete(self._desk.retention.unpin(self._pinned))
            self._pinned = None
