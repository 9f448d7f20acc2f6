"""The options of a file sink, for its writers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._connectors.files.policies import OutputFileConfig

if TYPE_CHECKING:
    from penstock._connectors.files.compaction import Compaction
    from penstock._connectors.files.policies import BucketAssigner, RollingPolicy
    from penstock.common.serialization import BulkWriterFactory, Encoder


@dataclass(frozen=True, slots=True)
class FileSinkOptions:
    """The options of a file sink.

    Args:
        base_path: The folder that the buckets are in.
        encoding: Writes records one by one (a row format) or whole files (a bulk format).
        bucket_assigner: Chooses the folder of a record.
        rolling_policy: Says when a file is complete.
        file_config: The names of files.
        bucket_check_interval_ms: The interval of the age check between checkpoints.
        max_open_buckets: The number of files that a writer has open at a time.
        compaction: How small files are merged; None for a sink that never has merged any.
    """

    base_path: str
    encoding: Encoder | BulkWriterFactory
    bucket_assigner: BucketAssigner
    rolling_policy: RollingPolicy
    file_config: OutputFileConfig = OutputFileConfig()  # noqa: RUF009 - frozen
    bucket_check_interval_ms: int = 60_000
    max_open_buckets: int = 500
    compaction: Compaction | None = None
