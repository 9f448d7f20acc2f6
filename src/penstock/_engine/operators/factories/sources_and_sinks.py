"""Factories of the operators at the ends of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock._api.connectors.committer import HasCommittables
from penstock._api.connectors.sink import SupportsWriterState
from penstock._engine.operators.operator_factory import OperatorFactory, OperatorRole
from penstock._engine.operators.sinks.checkpoint_process import CheckpointProcessOperator
from penstock._engine.operators.sinks.committed import CommittedOperator
from penstock._engine.operators.sinks.sink import (
    CacheOperator,
    CollectOperator,
    CommittablesOperator,
    PassOperator,
    SinkWriterOperator,
)
from penstock._engine.operators.sources.batch_sources import BatchSourceOperator
from penstock._engine.operators.sources.source import SourceOperator

if TYPE_CHECKING:
    from penstock._api.connectors.sink import Sink
    from penstock._api.connectors.source import Source
    from penstock._api.connectors.topology import CheckpointFunction
    from penstock._engine.operators.base import Operator
    from penstock.common.typeinfo import TypeInformation
    from penstock.common.watermark_strategy import WatermarkStrategy


@dataclass(frozen=True, eq=False)
class SourceFactory(OperatorFactory):
    kind = "source"
    role: ClassVar[OperatorRole] = OperatorRole.SOURCE
    always_keeps_state: ClassVar[bool] = True
    source: Source[Any, Any, Any]
    watermark_strategy: WatermarkStrategy

    def create(self) -> Operator:
        return SourceOperator(self.source, self.watermark_strategy)

    def create_in_batch(self) -> Operator:
        return BatchSourceOperator(self.source, self.watermark_strategy)


@dataclass(frozen=True, eq=False)
class SinkWriterFactory(OperatorFactory):
    kind = "sink_writer"
    role: ClassVar[OperatorRole] = OperatorRole.SINK_WRITER
    has_items: ClassVar[bool] = True
    sink: Sink[Any]
    #: Whether its committables go through a pre-commit topology.
    emits_committables: bool = False

    def create(self) -> Operator:
        return SinkWriterOperator(self.sink, emits_committables=self.emits_committables)

    @property
    def keeps_state(self) -> bool:
        return isinstance(self.sink, (HasCommittables, SupportsWriterState))


@dataclass(frozen=True, eq=False)
class CheckpointProcessFactory(OperatorFactory):
    kind = "checkpoint_process"
    has_items: ClassVar[bool] = True
    always_keeps_state: ClassVar[bool] = True
    function: CheckpointFunction[Any, Any]

    def create(self) -> Operator:
        return CheckpointProcessOperator(self.function)


@dataclass(frozen=True, eq=False)
class CommittablesFactory(OperatorFactory):
    kind = "committables"
    role: ClassVar[OperatorRole] = OperatorRole.COMMITTABLES
    always_keeps_state: ClassVar[bool] = True
    sink: HasCommittables[Any]

    def create(self) -> Operator:
        return CommittablesOperator(self.sink)


@dataclass(frozen=True, eq=False)
class CommittedFactory(OperatorFactory):
    kind = "committed"
    role: ClassVar[OperatorRole] = OperatorRole.COMMITTED
    always_keeps_state: ClassVar[bool] = True
    sink: HasCommittables[Any]

    def create(self) -> Operator:
        return CommittedOperator(self.sink)


@dataclass(frozen=True, eq=False)
class CacheFactory(OperatorFactory):
    """Passes the records on, and writes them where there is a sink."""

    kind = "cache"
    role: ClassVar[OperatorRole] = OperatorRole.CACHE
    sink: Sink[Any] | None

    def create(self) -> Operator:
        return PassOperator() if self.sink is None else CacheOperator(self.sink)


@dataclass(frozen=True, eq=False)
class CollectFactory(OperatorFactory):
    kind = "collect"
    role: ClassVar[OperatorRole] = OperatorRole.COLLECT
    type_info: TypeInformation | None
    #: Whether it gives the text of each record, to print it, and not the record.
    as_text: bool
    prefix: str | None = None

    def create(self) -> Operator:
        return CollectOperator(self.type_info, as_text=self.as_text, prefix=self.prefix)
