"""Knows which stored results of a batch job are there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.protocol.job_events import ExecutionVertexFinishedEvent


@dataclass(frozen=True, slots=True)
class PartitionWithMetrics:
    """A stored result of one run of a subtask. Source: FLIP-383's ``ShuffleMaster.PartitionWithMetrics``."""

    run_id: str
    vertex: int
    subtask: int
    token: int
    #: The sizes of its files in bytes, by their numbers.
    sizes: tuple[tuple[int, int], ...]


class PartitionTracker:
    """Tells whether the results of finished subtasks are complete. Source: Flink's ``JobMasterPartitionTracker``.

    Args:
        partitions: All results that are stored.
    """

    def __init__(self, partitions: Iterable[PartitionWithMetrics]) -> None:
        self._sizes: Counter[tuple[str, int, int, int, int]] = Counter()
        for part in partitions:
            for number, size in part.sizes:
                self._sizes[part.run_id, part.vertex, part.subtask, part.token, number] = size

    def tracks(self, done: ExecutionVertexFinishedEvent) -> bool:
        """Tell whether all files of a finished subtask are there; what is in them, its readers check."""
        place = done.vertex, done.subtask
        return all(
            self._sizes.get((done.run_id, *place, ack.token, number)) == file.size
            for ack in done.acks
            for number, file in enumerate(ack.result_files)
        )
