"""The file sink and its builders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from penstock._api.connectors.sink import Sink, SupportsCommitter, SupportsWriterState
from penstock._api.connectors.topology import SupportsPreCommitTopology
from penstock._connectors.files.compaction import Compaction, FileCompactor, FileCompactStrategy
from penstock._connectors.files.options import FileSinkOptions
from penstock._connectors.files.policies import (
    BucketAssigner,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from penstock._shelf import show
from penstock.common.arguments import instance
from penstock.common.paths import absolute_path
from penstock.common.serialization import BulkWriterFactory, Encoder

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock._api.connectors.committer import CommitterInitContext
    from penstock._api.connectors.sink import WriterInitContext
    from penstock._connectors.files.committer import FileCommitter
    from penstock._connectors.files.staging import FileCommittable  # noqa: F401 - named among the bases
    from penstock._connectors.files.writer import FileWriter, FileWriterState
    from penstock.common.typeinfo import TypeInformation


class FileSink(Sink[Any], SupportsWriterState[Any, "FileWriterState"], SupportsCommitter["FileCommittable"]):
    """Writes each record exactly once into files, which appear when the checkpoint of their last record is durable.

    Files are in bucket folders below one path and named ``<prefix>-<unique>-<n><suffix>``. Incomplete files have names
    that begin with a dot, which readers of the folder skip. A file of a row format may hold the records of several
    checkpoints; a file of a bulk format ends with each. Files of failed attempts are deleted with the first commit
    after the start of the job, and at its end.

    Source: org.apache.flink.connector.file.sink.FileSink.

    Example:
        >>> from penstock.common.serialization import Encoder
        >>> sink = FileSink.for_row_format("/data/out", Encoder.simple_string_encoder()).build()
    """

    def __init__(self, options: FileSinkOptions) -> None:
        self._options = options

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Begin a sink that encodes record by record.

        Args:
            base_path: The folder, local or in an object store.
            encoder: Writes one record.

        Raises:
            TypeError: The encoder is none.
        """
        otherwise = "Encoder.simple_string_encoder() writes str(record) as a line"
        return FileSink.RowFormatBuilder(base_path, instance("encoder", encoder, Encoder, otherwise))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Begin a sink that writes files of a format such as Parquet, which end with each checkpoint.

        Args:
            base_path: The folder, local or in an object store.
            writer_factory: Makes the writer of one file.

        Raises:
            TypeError: The factory is none.
        """
        otherwise = "ParquetBulkWriters.for_schema(schema) is one"
        return FileSink.BulkFormatBuilder(
            base_path, instance("writer_factory", writer_factory, BulkWriterFactory, otherwise)
        )

    def for_type(self, type_info: TypeInformation | None) -> FileSink:
        """Return the sink whose encoder writes records of a type."""
        if isinstance(self._options.encoding, BulkWriterFactory):
            return self
        return type(self)(replace(self._options, encoding=self._options.encoding.for_type(type_info)))

    def storage_paths(self) -> tuple[str, ...]:
        """Return the folder, in which writers stage what the committer names."""
        return (self._options.base_path,)

    def create_writer(self, context: WriterInitContext) -> FileWriter:
        """Make a writer without state."""
        return self.restore_writer(context, [])

    def restore_writer(self, context: WriterInitContext, recovered_state: Collection[FileWriterState]) -> FileWriter:
        """Make a writer that continues the incomplete files."""
        from penstock._connectors.files.writer import FileWriter

        return FileWriter(context, self._options, recovered_state)

    def create_committer(self, context: CommitterInitContext) -> FileCommitter:
        """Make the committer, which publishes complete files."""
        from penstock._connectors.files.committer import FileCommitter

        return FileCommitter(self._options.base_path, context)

    class BaseBuilder:
        """The base of both builders.

        Args:
            base_path: The folder.
            encoding: Writes records.
            rolling_policy: The default policy.
        """

        def __init__(
            self, base_path: str, encoding: Encoder | BulkWriterFactory, rolling_policy: RollingPolicy
        ) -> None:
            self._options = FileSinkOptions(
                absolute_path(base_path), encoding, BucketAssigner.date_time_bucket_assigner(), rolling_policy
            )

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
            """Set the assigner of a record's folder; by default there is one for each hour.

            Raises:
                TypeError: It is no BucketAssigner.
            """
            assigner = instance("bucket_assigner", bucket_assigner, BucketAssigner, "subclass it for one of your own")
            self._options = replace(self._options, bucket_assigner=assigner)
            return self

        def with_bucket_check_interval(self, interval: int) -> Self:
            """Set how often the ages of files are checked between checkpoints, beside the check at each checkpoint.

            Args:
                interval: Milliseconds.

            Raises:
                ValueError: The interval is not positive.
            """
            if interval <= 0:
                msg = f"interval must be at least 1 ms, not {interval}."
                raise ValueError(msg)
            self._options = replace(self._options, bucket_check_interval_ms=interval)
            return self

        def with_max_open_buckets(self, buckets: int) -> Self:
            """Set how many files each subtask has open at a time, 500 by default; not in Flink.

            With more buckets than that, the least recently written file is closed, and reopened for its next record. A
            file of a bulk format ends there, and the next record begins another.

            Args:
                buckets: The number of files; each takes a descriptor and the memory of its format.

            Raises:
                ValueError: The number is not positive.
            """
            if buckets < 1:
                msg = f"buckets must be at least 1, not {buckets}."
                raise ValueError(msg)
            self._options = replace(self._options, max_open_buckets=buckets)
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
            """Set the prefix and suffix of file names.

            Raises:
                TypeError: It is no OutputFileConfig.
            """
            config = instance("output_file_config", output_file_config, OutputFileConfig)
            self._options = replace(self._options, file_config=config)
            return self

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Set the policy that decides when a file is complete.

            Raises:
                TypeError: It is no RollingPolicy.
            """
            policy = instance("rolling_policy", rolling_policy, RollingPolicy)
            self._options = replace(self._options, rolling_policy=policy)
            return self

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
            """Merge small files before they are published: only the merged ones ever appear.

            Finished files wait, staged, until the strategy is content; at a savepoint and at the end none waits. Give
            the sink a uid.

            Args:
                strategy: When the files of a bucket are merged.
                compactor: How.

            Raises:
                TypeError: One is not of its class.
            """
            instance("strategy", strategy, FileCompactStrategy)
            instance("compactor", compactor, FileCompactor)
            self._options = replace(self._options, compaction=Compaction(strategy, compactor))
            return self

        def disable_compact(self) -> Self:
            """Merge no more files, and publish those that wait; for a job that continues one with compaction."""
            self._options = replace(self._options, compaction=Compaction())
            return self

        def build(self) -> FileSink:
            """Return the sink."""
            return (FileSink if self._options.compaction is None else CompactingFileSink)(self._options)

    class RowFormatBuilder(BaseBuilder):
        """Builds a sink of a row format; ``for_row_format`` makes it."""

        def __init__(self, base_path: str, encoder: Encoder) -> None:
            super().__init__(base_path, encoder, RollingPolicy.default_rolling_policy())

    class BulkFormatBuilder(BaseBuilder):
        """Builds a sink of a bulk format; ``for_bulk_format`` makes it."""

        def __init__(self, base_path: str, writer_factory: BulkWriterFactory) -> None:
            super().__init__(base_path, writer_factory, RollingPolicy.on_checkpoint_rolling_policy())

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Set the policy that decides when a file is complete, in addition to each checkpoint.

            Raises:
                TypeError: It is no RollingPolicy.
                ValueError: The policy leaves files open over a checkpoint, which bulk formats cannot.
            """
            instance("rolling_policy", rolling_policy, RollingPolicy)
            if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
                msg = (
                    f"A bulk format needs a rolling policy that rolls on every checkpoint, not "
                    f"{type(rolling_policy).__name__}: use OnCheckpointRollingPolicy or a subclass of it."
                )
                raise ValueError(msg)  # noqa: TRY004 - both are rolling policies, and this one cannot be used here
            return super().with_rolling_policy(rolling_policy)


class CompactingFileSink(FileSink, SupportsPreCommitTopology["FileCommittable"]):
    """A file sink that merges small files, or has done so; the builders make it."""

    def add_pre_commit_topology(self, committables: Any) -> Any:
        """Add the coordinator and the compactors behind the writers."""
        from penstock._connectors.files.compacting import CompactCoordinator, Compactor

        compaction = self._options.compaction
        assert compaction is not None
        coordinator = committables.process_checkpoint(CompactCoordinator(compaction)).name("Compact coordinator")
        compactor = Compactor(compaction, self._options.file_config)
        return coordinator.force_non_parallel().rebalance().process_checkpoint(compactor).name("Compactor")


show("penstock.datastream.connectors.file_system", FileSink)
