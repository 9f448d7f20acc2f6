"""Functions over all records of a checkpoint, such as those that merge the committables of a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, cast

from penstock._api.connectors.topology import CheckpointFunction
from penstock._engine.graph.job_graph import OperatorKind
from penstock.common.arguments import instance

if TYPE_CHECKING:
    from penstock._builders.stream import DataStream
    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")
U = TypeVar("U")


class CheckpointFunctions(Generic[T]):
    """Calls functions once for each checkpoint."""

    def process_checkpoint(
        self, func: CheckpointFunction[T, U], output_type: TypeInformation | None = None
    ) -> DataStream[U]:
        """Call a function with all records that come to a subtask in a checkpoint, at the checkpoint's end; ours.

        The records of a checkpoint are kept in memory, so this is for few ones, such as a sink's committables.

        Args:
            func: The function.
            output_type: The type of what it returns; records are converted to it.

        Raises:
            TypeError: The function is no CheckpointFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        instance("func", func, CheckpointFunction)
        return cast("DataStream[T]", self)._transform(
            OperatorKind.CHECKPOINT_PROCESS, "Checkpoint", {"function": func}, output_type
        )
