"""A cached stream: its records as blocks in files, columns as columns, and the source that reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from penstock._api.connectors.enumerator_base import SplitQueueEnumerator
from penstock._api.connectors.reader import InputStatus
from penstock._api.connectors.reader_base.sequential import SequentialSourceReader, SplitCursor
from penstock._api.connectors.source import Boundedness, Source
from penstock._api.connectors.split import SourceSplit
from penstock._engine.caches.files import CachedFile, CacheSink, CacheWriter, read_cached
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.protocol.control import decode, encode
from penstock._engine.runtime.blocks import cut, decode_batch
from penstock._engine.storage.opening import open_storage
from penstock._files.job_options import store_options
from penstock.common.columns import layout_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._api.connectors.reader import SourceOutput, SourceReaderContext
    from penstock._api.connectors.sink import WriterInitContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock._engine.operators.batch import Batch
    from penstock._engine.storage.checkpoint_storage import FileStorage
    from penstock.common.typeinfo import TypeInformation

#: The blocks of a file, before they are compressed; a subtask holds as much in memory.
_FILE_BYTES: Final = 16 << 20
_CODEC: Final = "lz4"
_SIZE_BYTES: Final = 8


class StreamSink(CacheSink):
    """Where one job writes a cached stream."""

    def create_writer(self, context: WriterInitContext) -> StreamWriter:
        """Make the writer of a subtask."""
        return StreamWriter(self, context)


class StreamWriter(CacheWriter):
    """Collects blocks and writes them to files."""

    def __init__(self, sink: CacheSink, context: WriterInitContext) -> None:
        super().__init__(sink, context)
        self._blocks: list[bytes] = []
        self._size = self._records = 0

    def add(self, batch: Batch) -> None:
        """Add a batch; it is encoded now, because what follows may change its records."""
        if not len(batch):
            return
        for block in cut(batch):
            self._blocks.append(block)
            self._size += len(block)
        self._records += len(batch)
        if self._size >= _FILE_BYTES:
            self.flush(False)

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        """Add records; the operator adds batches."""
        self.add(RowBatch(elements, cast("list[int] | None", timestamps)))

    def flush(self, end_of_input: bool) -> None:
        """Write a file of what is there."""
        del end_of_input
        if self._blocks:
            raw = encode(self._blocks)
            body: bytes = cast("Any", pa).compress(raw, codec=_CODEC, asbytes=True)
            self.put(len(raw).to_bytes(_SIZE_BYTES, "little") + body, self._records)
            self._blocks, self._size, self._records = [], 0, 0


@dataclass(frozen=True, slots=True)
class CachedSplit(SourceSplit):
    """A file, and what was read of it: whole blocks, and records of the next one."""

    file: CachedFile
    blocks: int = 0
    skip: int = 0

    def split_id(self) -> str:
        """Return the name of the file."""
        return self.file.name


class CacheEnumerator(SplitQueueEnumerator[CachedSplit, list[CachedSplit]]):
    """Assigns the files."""

    def snapshot_state(self, checkpoint_id: int) -> list[CachedSplit]:
        """Return the unassigned files."""
        del checkpoint_id
        return self.waiting_splits


class CacheSource(Source[Any, CachedSplit, list[CachedSplit]]):
    """The records of a cached stream.

    Args:
        url: The directory of what the program keeps.
        files: The files.
        type_info: The type of the stream.
    """

    def __init__(self, url: str, files: tuple[CachedFile, ...], type_info: TypeInformation | None) -> None:
        self._url = url
        self._files = files
        self._type_info = type_info

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the stream."""
        return self._type_info

    @property
    def holds_produced_type(self) -> bool:
        """Whether all records already have the representation of that type."""
        return True

    def create_enumerator(self, enum_context: SplitEnumeratorContext[CachedSplit]) -> CacheEnumerator:
        """Begin with all files."""
        return CacheEnumerator(enum_context, [CachedSplit(file) for file in self._files])

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[CachedSplit], checkpoint: list[CachedSplit]
    ) -> CacheEnumerator:
        """Continue with the unassigned files."""
        return CacheEnumerator(enum_context, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> CacheReader:
        """Make the reader."""
        return CacheReader(reader_context, open_storage(self._url, store_options()), self._type_info)


class CacheReader(SequentialSourceReader[Any, CachedSplit]):
    """Reads files of blocks.

    Args:
        context: The reader's context.
        storage: The directory.
        type_info: The type of the stream.
    """

    emits_new_records = True

    def __init__(self, context: SourceReaderContext, storage: FileStorage, type_info: TypeInformation | None) -> None:
        super().__init__(context)
        self._storage = storage
        self._layout = layout_of(type_info)

    def open_split(self, split: CachedSplit) -> SplitCursor[Any, CachedSplit]:
        """Read a file."""
        return _BlockCursor(self._storage, split, self._layout)


class _BlockCursor(SplitCursor[Any, CachedSplit]):
    def __init__(self, storage: FileStorage, split: CachedSplit, layout: Any) -> None:
        data = read_cached(storage, split.file)
        size = int.from_bytes(data[:_SIZE_BYTES], "little")
        raw: bytes = cast("Any", pa).decompress(memoryview(data)[_SIZE_BYTES:], size, codec=_CODEC, asbytes=True)
        self._blocks = decode(raw, list[bytes])
        self._split = split
        self._layout = layout
        self._batch: Batch | None = None

    def poll_next(self, output: SourceOutput[Any]) -> InputStatus:
        split = self._split
        if split.blocks == len(self._blocks):
            return InputStatus.END_OF_INPUT
        if self._batch is None:
            self._batch = decode_batch(self._blocks[split.blocks])
        batch = self._batch
        end = min(len(batch), split.skip + max(1, output.wanted))
        self._emit(batch if (split.skip, end) == (0, len(batch)) else batch.slice(split.skip, end), output)
        if end == len(batch):
            self._split, self._batch = replace(split, blocks=split.blocks + 1, skip=0), None
        else:
            self._split = replace(split, skip=end)
        return InputStatus.MORE_AVAILABLE

    def _emit(self, batch: Batch, output: SourceOutput[Any]) -> None:
        if isinstance(batch, ColumnBatch) and batch.layout is self._layout and output.takes_batches:
            output.collect_batch(batch.columns, batch.timestamps)
        else:
            rows = batch.rows()
            output.collect_all(rows.records, rows.timestamps)

    def snapshot(self) -> CachedSplit:
        return self._split
