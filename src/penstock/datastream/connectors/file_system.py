"""Files as source and as sink (``pyflink.datastream.connectors.file_system``)."""

from __future__ import annotations

from penstock.datastream.connectors._file_system.formats import BulkFormat, FileFormat, StreamFormat
from penstock.datastream.connectors._file_system.parts import FilePart, InputFile
from penstock.datastream.connectors._file_system.policies import (
    BucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    PartFileInfo,
    RollingPolicy,
)
from penstock.datastream.connectors._file_system.sink import FileSink
from penstock.datastream.connectors._file_system.source import (
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
)

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
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

# Pickles and messages name the public module, so that the private ones may move.
for _name in __all__:
    globals()[_name].__module__ = __name__
