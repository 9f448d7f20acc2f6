"""The operators of jobs in batch mode, made of those of streaming mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.operators.functions.broadcast import BROADCAST_INPUT, KeyedBroadcastProcessOperator
from penstock._engine.operators.functions.reduce import ReduceOperator
from penstock._engine.operators.keyed import KeyedOperator
from penstock._engine.operators.sorting.sorted_input import SortedInputOperator, SortedReduceOperator

if TYPE_CHECKING:
    from penstock._engine.operators.base import Operator


def in_batch_mode(operator: Operator) -> Operator:
    """Return what a job in batch mode has in the place of an operator: keyed ones get their records key by key."""
    if isinstance(operator, ReduceOperator):
        return SortedReduceOperator(operator)
    if isinstance(operator, KeyedBroadcastProcessOperator):
        return SortedInputOperator(operator, BROADCAST_INPUT)
    return SortedInputOperator(operator) if isinstance(operator, KeyedOperator) else operator
