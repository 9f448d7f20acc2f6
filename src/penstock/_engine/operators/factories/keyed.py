"""Factories of operators whose functions have the key of a record; in a batch job their input is sorted by it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from penstock._api.functions.checkpointed import CheckpointedFunction
from penstock._api.functions.wrapping import unwrapped
from penstock._engine.operators.functions.broadcast import BROADCAST_INPUT, KeyedBroadcastProcessOperator
from penstock._engine.operators.functions.co_process import KeyedCoProcessOperator
from penstock._engine.operators.functions.combine import CombineOperator
from penstock._engine.operators.functions.process import KeyedProcessOperator
from penstock._engine.operators.functions.reduce import ReduceOperator, may_have_state
from penstock._engine.operators.joins.interval_join import IntervalJoinOperator
from penstock._engine.operators.operator_factory import OperatorFactory, OperatorRole
from penstock._engine.operators.sorting.sorted_input import SortedInputOperator, SortedReduceOperator

if TYPE_CHECKING:
    from penstock._api.state.kinds import MapStateDescriptor
    from penstock._engine.operators.base import Operator
    from penstock._engine.operators.keyed import KeyedOperator


class KeyedFactory(OperatorFactory):
    """The factory of an operator with keyed state."""

    has_key: ClassVar[bool] = True
    always_keeps_state: ClassVar[bool] = True
    #: The input that is not sorted in a batch job, but read whole before the others.
    broadcast_input: ClassVar[int | None] = None

    @abstractmethod
    def create(self) -> KeyedOperator: ...

    def create_in_batch(self) -> Operator:
        return SortedInputOperator(self.create(), self.broadcast_input)


@dataclass(frozen=True, eq=False)
class KeyedProcessFactory(KeyedFactory):
    kind = "keyed_process"
    function: Any
    key_selector: Any

    def create(self) -> KeyedOperator:
        return KeyedProcessOperator(self.function, self.key_selector)


@dataclass(frozen=True, eq=False)
class KeyedCoProcessFactory(KeyedFactory):
    kind = "keyed_co_process"
    function: Any
    key_selector1: Any
    key_selector2: Any

    def create(self) -> KeyedOperator:
        return KeyedCoProcessOperator(self.function, self.key_selector1, self.key_selector2)


@dataclass(frozen=True, eq=False)
class IntervalJoinFactory(KeyedFactory):
    kind = "interval_join"
    function: Any
    key_selector1: Any
    key_selector2: Any
    lower_ms: int
    upper_ms: int
    #: The ids of the side outputs for late records of both inputs.
    late_tags: tuple[str | None, str | None]

    def create(self) -> KeyedOperator:
        return IntervalJoinOperator(**self.members())


@dataclass(frozen=True, eq=False)
class KeyedBroadcastProcessFactory(KeyedFactory):
    kind = "keyed_broadcast_process"
    broadcast_input: ClassVar[int | None] = BROADCAST_INPUT
    function: Any
    key_selector: Any
    descriptors: tuple[MapStateDescriptor, ...]

    def create(self) -> KeyedOperator:
        return KeyedBroadcastProcessOperator(self.function, self.key_selector, self.descriptors)


@dataclass(frozen=True, eq=False)
class ReduceFactory(KeyedFactory):
    kind = "reduce"
    function: Any
    key_selector: Any

    def create(self) -> ReduceOperator:
        return ReduceOperator(self.function, self.key_selector)

    def create_in_batch(self) -> Operator:
        return SortedReduceOperator(self.create())

    @property
    def is_combinable(self) -> bool:
        return not may_have_state(self.function) and is_combinable(self.function, by_itself=True)

    @classmethod
    def combined(cls) -> tuple[type[OperatorFactory], type[OperatorFactory]]:
        return CombineFactory, ReduceCombinedFactory


class CombineFactory(ReduceFactory):
    """Sends partial results, each with its key."""

    kind = "combine"
    role: ClassVar[OperatorRole] = OperatorRole.COMBINING

    def create_in_batch(self) -> Operator:
        return CombineOperator(self.function, self.key_selector)


class ReduceCombinedFactory(ReduceFactory):
    """Reduces partial results, which have their keys beside them."""

    kind = "reduce_combined"

    def create_in_batch(self) -> Operator:
        return SortedReduceOperator(ReduceOperator(self.function, itemgetter(0)), takes_pairs=True)


def is_combinable(function: Any, *, by_itself: bool) -> bool:
    """Tell whether a function may see partial results in place of records.

    A function with operator state may not, because it counts on all records of its subtask.

    Args:
        function: The function, which may be wrapped by one that holds a declared type.
        by_itself: Whether it may where it does not say so.
    """
    function = unwrapped(function)
    return not isinstance(function, CheckpointedFunction) and bool(getattr(function, "combinable", by_itself))
