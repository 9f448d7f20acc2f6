"""Files as source and as sink (``pyflink.datastream.connectors.file_system``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._connectors.files.compaction import FileCompactor, FileCompactStrategy
from penstock._connectors.files.file_sink import FileSink
from penstock._connectors.files.file_source import (
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
)
from penstock._connectors.files.policies import (
    BucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    PartFileInfo,
    RollingPolicy,
)
from penstock._formats.file_format import BulkFormat, FileFormat, StreamFormat
from penstock._formats.parts import FilePart, InputFile

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileFormat",
    "FilePart",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "InputFile",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "PartFileInfo",
    "RollingPolicy",
    "StreamFormat",
]

explain(__name__)
