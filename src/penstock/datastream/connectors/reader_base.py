"""Base classes for a source's reader; the driver's side is :mod:`penstock.datastream.connectors.enumerator_base`.

Two bases. :class:`SequentialSourceReader` reads split after split on the engine's thread: for sources that never keep
it waiting. :class:`SourceReaderBase` lets threads fetch: each :class:`SplitReader` is driven by a fetcher of the
:class:`SplitFetcherManager`, batches wait in its queue, and a :class:`RecordEmitter` turns their elements into records
while the split's state moves along.
"""

from __future__ import annotations

from penstock._api.connectors.reader_base.fetching import (
    RecordsWithSplitIds,
    SplitFetcherManager,
    SplitReader,
)
from penstock._api.connectors.reader_base.sequential import SequentialSourceReader, SplitCursor
from penstock._api.connectors.reader_base.threaded import RecordEmitter, RecordEvaluator, SourceReaderBase

__all__ = [
    "RecordEmitter",
    "RecordEvaluator",
    "RecordsWithSplitIds",
    "SequentialSourceReader",
    "SourceReaderBase",
    "SplitCursor",
    "SplitFetcherManager",
    "SplitReader",
]
