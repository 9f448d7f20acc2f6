"""Sources and timestamps in batch mode, which emit no watermark before the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._engine.operators.sources.source import SourceOperator
from penstock.common.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._api.connectors.source import Source
    from penstock._engine.operators.base import Output
    from penstock._engine.operators.sources.source import ReadLimits


class BatchSourceOperator(SourceOperator):
    """A source that emits neither the watermarks of its strategy nor those of its reader."""

    def __init__(self, source: Source[Any, Any, Any], watermark_strategy: WatermarkStrategy) -> None:
        super().__init__(source, timestamps_only(watermark_strategy))

    def read(self, limits: ReadLimits, size: Callable[[], int]) -> Iterator[Output]:
        for tag, batch in super().read(limits, size):
            batch.watermarks = ()
            yield tag, batch


def timestamps_only(strategy: WatermarkStrategy) -> WatermarkStrategy:
    """Return a strategy that assigns the same timestamps, and emits no watermark."""
    only, assigner = WatermarkStrategy.no_watermarks(), strategy.timestamp_assigner
    return only if assigner is None else only.with_timestamp_assigner(assigner)
