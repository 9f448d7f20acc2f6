"""Factories of operators that call a function for each record or batch, without a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock._api.functions.checkpointed import CheckpointedFunction
from penstock._engine.operators.async_functions.async_wait import AsyncWaitOperator
from penstock._engine.operators.columnar.map_batches import MapBatchesOperator
from penstock._engine.operators.functions.broadcast import BroadcastProcessOperator
from penstock._engine.operators.functions.co_process import CoFlatMapOperator, CoMapOperator, CoProcessOperator
from penstock._engine.operators.functions.process import ProcessOperator
from penstock._engine.operators.functions.stateless import CastOperator, FilterOperator, FlatMapOperator, MapOperator
from penstock._engine.operators.operator_factory import OperatorFactory, OperatorRole
from penstock._engine.operators.sources.batch_sources import timestamps_only
from penstock._engine.operators.sources.watermarks import TimestampsAndWatermarksOperator

if TYPE_CHECKING:
    from penstock._api.functions.async_retry import AsyncRetryStrategy
    from penstock._api.functions.asynchronous import AsyncFunction
    from penstock._api.state.kinds import MapStateDescriptor
    from penstock._engine.operators.base import Operator
    from penstock.common.typeinfo import TypeInformation
    from penstock.common.watermark_strategy import WatermarkStrategy


@dataclass(frozen=True, eq=False)
class FunctionFactory(OperatorFactory):
    """The factory of an operator with one function, which is a callable or an object of the API."""

    function: Any

    @property
    def keeps_state(self) -> bool:
        return super().keeps_state or isinstance(self.function, CheckpointedFunction)


class MapFactory(FunctionFactory):
    kind = "map"

    def create(self) -> Operator:
        return MapOperator(self.function)


class FlatMapFactory(FunctionFactory):
    kind = "flat_map"

    def create(self) -> Operator:
        return FlatMapOperator(self.function)


class FilterFactory(FunctionFactory):
    kind = "filter"

    def create(self) -> Operator:
        return FilterOperator(self.function)


class ProcessFactory(FunctionFactory):
    kind = "process"

    def create(self) -> Operator:
        return ProcessOperator(self.function)


class CoMapFactory(FunctionFactory):
    kind = "co_map"

    def create(self) -> Operator:
        return CoMapOperator(self.function)


class CoFlatMapFactory(FunctionFactory):
    kind = "co_flat_map"

    def create(self) -> Operator:
        return CoFlatMapOperator(self.function)


class CoProcessFactory(FunctionFactory):
    kind = "co_process"

    def create(self) -> Operator:
        return CoProcessOperator(self.function)


@dataclass(frozen=True, eq=False)
class BroadcastProcessFactory(FunctionFactory):
    kind = "broadcast_process"
    always_keeps_state: ClassVar[bool] = True
    descriptors: tuple[MapStateDescriptor, ...]

    def create(self) -> Operator:
        return BroadcastProcessOperator(self.function, self.descriptors)


@dataclass(frozen=True, eq=False)
class MapBatchesFactory(FunctionFactory):
    kind = "map_batches"
    batch_format: str
    input_type: TypeInformation | None
    output_type: TypeInformation | None

    def create(self) -> Operator:
        return MapBatchesOperator(self.function, self.batch_format, self.input_type, self.output_type)


@dataclass(frozen=True, eq=False)
class AsyncWaitFactory(FunctionFactory):
    kind = "async_wait"
    always_keeps_state: ClassVar[bool] = True
    function: AsyncFunction[Any, Any]
    timeout_ms: int
    capacity: int
    is_ordered: bool
    retry_strategy: AsyncRetryStrategy[Any]

    def create(self) -> Operator:
        return AsyncWaitOperator(**self.members())


@dataclass(frozen=True, eq=False)
class DeclaredTypeFactory(OperatorFactory):
    kind = "conform"
    role: ClassVar[OperatorRole] = OperatorRole.DECLARED_TYPE
    type_info: TypeInformation

    def create(self) -> Operator:
        return CastOperator(self.type_info)


@dataclass(frozen=True, eq=False)
class WatermarksFactory(OperatorFactory):
    kind = "watermarks"
    role: ClassVar[OperatorRole] = OperatorRole.WATERMARKS
    watermark_strategy: WatermarkStrategy

    def create(self) -> Operator:
        return TimestampsAndWatermarksOperator(self.watermark_strategy)

    def create_in_batch(self) -> Operator:
        return TimestampsAndWatermarksOperator(timestamps_only(self.watermark_strategy))
