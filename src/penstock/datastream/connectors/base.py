"""Sources and sinks as interfaces: FLIP-27 and Sink V2 in Python (``pyflink.datastream.connectors.base``).

The two mirror each other. A :class:`Source` makes a :class:`SplitEnumerator` on the driver, which hands out splits, and
a :class:`SourceReader` in each task, which emits records. A :class:`Sink` makes a :class:`SinkWriter` in each task,
which stages records, and a :class:`Committer` on the driver, which publishes them. What you write is an abstract class;
what the engine hands you (``…Context``, ``CommitRequest``) is a protocol, its facts properties and its actions methods.

Four promises hold for all of it:

1. One epoch of the engine is one checkpoint. Readers and writers may be recreated at any epoch, in any process, from
   the last accepted snapshot; enumerators and committers live on the driver and are recreated when it restarts.
2. An epoch may be tried several times, even at the same time. Only one attempt is accepted; only its snapshot and
   what it staged counts. Names of staged things therefore hold the ``attempt_token``.
3. A commit comes after its checkpoint is durable and is repeated after a crash: it must be idempotent.
4. ``close()`` comes at a normal end and after an error, possibly twice; kill -9 calls nothing.
"""

from __future__ import annotations

from penstock._absent import explain
from penstock._api.connectors.committer import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    GlobalCommitter,
    SupportsGlobalCommitter,
)
from penstock._api.connectors.function_source import FunctionSource
from penstock._api.connectors.reader import (
    InputStatus,
    ReaderOutput,
    SourceOutput,
    SourceReader,
    SourceReaderContext,
)
from penstock._api.connectors.serializer import PickleSerializer, SimpleVersionedSerializer
from penstock._api.connectors.sink import (
    BatchContext,
    CommittingSinkWriter,
    DeliveryGuarantee,
    Sink,
    SinkWriter,
    SinkWriterContext,
    StatefulSinkWriter,
    SupportsCommitter,
    SupportsWriterState,
    WriterInitContext,
)
from penstock._api.connectors.source import (
    Boundedness,
    ReaderInfo,
    Source,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitsAssignment,
)
from penstock._api.connectors.split import SourceEvent, SourceSplit
from penstock._api.connectors.topology import (
    CheckpointFunction,
    CommittableWithLineage,
    StreamTransformer,
    SupportsPostCommitTopology,
    SupportsPreCommitTopology,
    SupportsPreprocessing,
)
from penstock._api.connectors.transactional import CheckpointTransaction, TransactionalSink

__all__ = [
    "BatchContext",
    "Boundedness",
    "CheckpointFunction",
    "CheckpointTransaction",
    "CommitRequest",
    "CommittableWithLineage",
    "Committer",
    "CommitterInitContext",
    "CommittingSinkWriter",
    "DeliveryGuarantee",
    "FunctionSource",
    "GlobalCommitter",
    "InputStatus",
    "PickleSerializer",
    "ReaderInfo",
    "ReaderOutput",
    "SimpleVersionedSerializer",
    "Sink",
    "SinkWriter",
    "SinkWriterContext",
    "Source",
    "SourceEvent",
    "SourceOutput",
    "SourceReader",
    "SourceReaderContext",
    "SourceSplit",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "SplitsAssignment",
    "StatefulSinkWriter",
    "StreamTransformer",
    "SupportsCommitter",
    "SupportsGlobalCommitter",
    "SupportsPostCommitTopology",
    "SupportsPreCommitTopology",
    "SupportsPreprocessing",
    "SupportsWriterState",
    "TransactionalSink",
    "WriterInitContext",
]

explain(__name__)
