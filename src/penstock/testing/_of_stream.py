"""The operator of a piece of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._builders.environment import StreamExecutionEnvironment
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._builders.data_stream import DataStream
    from penstock._engine.operators.base import Operator
    from penstock.common.typeinfo import TypeInformation


def operator_of(
    program: Callable[[DataStream[Any]], object], type_info: TypeInformation | None, *, batch_mode: bool
) -> Operator:
    """Return the one operator that a piece of a program adds to a stream.

    Args:
        program: Is called with the stream.
        type_info: The declared type of the stream.
        batch_mode: Whether the job is in batch mode; full window partitions are in any case.

    Raises:
        ValueError: It adds several operators, or none.
    """
    environment = StreamExecutionEnvironment.get_execution_environment()
    program(environment.from_source(ListSource([]), WatermarkStrategy.no_watermarks(), "input", type_info))
    added = [node for node in environment._pipeline.nodes() if node.inputs]
    environment._pipeline.clear()  # nothing of it runs
    if len(added) != 1:
        names = ", ".join(node.name for node in added) or "none"
        msg = f"A harness runs one operator; this piece of a program has: {names}. Make a harness of each."
        raise ValueError(msg)
    (node,) = added
    factory = node.factory.loads(node.payload)
    return factory.create_in_batch() if batch_mode or node.full_window else factory.create()
