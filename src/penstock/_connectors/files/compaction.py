"""The settings of the file sink's compaction: when small files are merged, and how."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

_BUFFER_BYTES = 1024 * 1024
_ROW_GROUP_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileCompactStrategy:
    """When the files of a bucket are merged; use ``builder()``.

    Source: org.apache.flink.connector.file.sink.compactor.FileCompactStrategy.

    Args:
        size_threshold: Merge once the waiting files of a bucket have so many bytes together; None for no such bound.
        num_checkpoints_before_compaction: Merge once a file has waited for so many checkpoints; None for no such bound.
        num_compact_threads: How many buckets a subtask merges at a time.

    Example:
        >>> FileCompactStrategy.builder().enable_compaction_on_checkpoint(5).build().num_checkpoints_before_compaction
        5
    """

    size_threshold: int | None = None
    num_checkpoints_before_compaction: int | None = None
    num_compact_threads: int = 1

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Begin without any condition."""
        return FileCompactStrategy.Builder()

    class Builder:
        """Builds a FileCompactStrategy."""

        def __init__(self) -> None:
            self._size: int | None = None
            self._checkpoints: int | None = None
            self._threads = 1

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Merge once the waiting files of a bucket have so many bytes together.

            Raises:
                ValueError: It is not positive.
            """
            self._size = _positive("size_threshold", size_threshold)
            return self

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Merge once a file has waited for so many checkpoints.

            Raises:
                ValueError: It is not positive.
            """
            self._checkpoints = _positive("num_checkpoints_before_compaction", num_checkpoints_before_compaction)
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Set how many buckets a subtask merges at a time.

            Raises:
                ValueError: It is not positive.
            """
            self._threads = _positive("num_compact_threads", num_compact_threads)
            return self

        def build(self) -> FileCompactStrategy:
            """Return the strategy.

            Raises:
                ValueError: It has no condition, so that nothing would ever be merged.
            """
            if self._size is None and self._checkpoints is None:
                msg = "A FileCompactStrategy needs set_size_threshold(...) or enable_compaction_on_checkpoint(...)."
                raise ValueError(msg)
            return FileCompactStrategy(self._size, self._checkpoints, self._threads)


class FileCompactor(ABC):
    r"""Merges files of one bucket into one; subclasses pickle.

    Source: org.apache.flink.connector.file.sink.compactor.FileCompactor.

    Example:
        >>> from io import BytesIO
        >>> merged = BytesIO()
        >>> FileCompactor.concat_file_compactor().compact([BytesIO(b"a\n"), BytesIO(b"b\n")], merged)
        >>> merged.getvalue()
        b'a\nb\n'
    """

    @abstractmethod
    def compact(self, inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
        """Write one file with the records of several.

        Args:
            inputs: The files, in the order in which they were finished.
            output: The merged file; it is closed later.
        """

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Append one file to the other, for formats of lines.

        Args:
            file_delimiter: Bytes between two files; None for nothing.
        """
        return _ConcatFileCompactor(file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Copy the only file; several are an error."""
        return _IdenticalFileCompactor()

    @staticmethod
    def parquet_file_compactor() -> FileCompactor:
        """Copy the rows of Parquet files into one with larger row groups; ours. All files need one schema."""
        return _ParquetFileCompactor()


class _ConcatFileCompactor(FileCompactor):
    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter

    def compact(self, inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
        for number, source in enumerate(inputs):
            if number:
                output.write(self._delimiter)
            shutil.copyfileobj(source, output, _BUFFER_BYTES)


class _IdenticalFileCompactor(FileCompactor):
    def compact(self, inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
        if len(inputs) != 1:
            msg = f"identical_file_compactor() copies a single file, and a bucket has {len(inputs)} of them."
            raise ValueError(msg)
        shutil.copyfileobj(inputs[0], output, _BUFFER_BYTES)


class _ParquetFileCompactor(FileCompactor):
    def compact(self, inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
        import pyarrow.parquet as pq

        files: list[Any] = [pq.ParquetFile(source) for source in inputs]
        schema = files[0].schema_arrow
        with pq.ParquetWriter(output, schema) as writer:
            group: list[pa.RecordBatch] = []
            size = 0
            for file in files:
                for batch in file.iter_batches(use_threads=False):
                    group.append(batch)
                    size += batch.nbytes
                    if size >= _ROW_GROUP_BYTES:
                        _write_group(writer, group)
                        group, size = [], 0
            if group:
                _write_group(writer, group)


def _write_group(writer: Any, batches: list[pa.RecordBatch]) -> None:
    import pyarrow as pa

    writer.write_table(pa.Table.from_batches(batches))


def _positive(name: str, value: int) -> int:
    if value < 1:
        msg = f"{name} must be at least 1, not {value}."
        raise ValueError(msg)
    return value


@dataclass(frozen=True, slots=True)
class Compaction:
    """The compaction of a sink; with no strategy it is off, and waiting files are published as they are."""

    strategy: FileCompactStrategy | None = None
    compactor: FileCompactor | None = None


show("penstock.datastream.connectors.file_system", FileCompactStrategy, FileCompactor)
