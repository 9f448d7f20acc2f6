"""What a subtask counts in an epoch, for its metrics: the ack has it as `IOMetrics`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._engine.protocol.control import IOMetrics

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock._engine.runtime.edge_writer import EdgeWriter


@dataclass(slots=True)
class EpochFigures:
    """The counts of one epoch, which the subtask adds to."""

    records_in: int = 0
    bytes_in: int = 0
    #: The time spent in the subtask, in seconds, without that in which it waited for input.
    busy_s: float = 0.0
    waited_s: float = 0.0

    def io_metrics(self, edges: Collection[EdgeWriter], restored_bytes: int) -> IOMetrics:
        """Return all figures of the epoch.

        Args:
            edges: What the subtask has sent through.
            restored_bytes: The bytes of state that it has read from checkpoints.
        """
        return IOMetrics(
            records_in=self.records_in,
            records_out=sum(edge.records_out for edge in edges),
            bytes_in=self.bytes_in,
            bytes_out=sum(edge.bytes_out for edge in edges),
            busy_ms=max(0, int(self.busy_s * 1000)),  # a clock by hand may have run ahead of it
            restored_bytes=restored_bytes,
            waited_ms=int(self.waited_s * 1000),
        )
