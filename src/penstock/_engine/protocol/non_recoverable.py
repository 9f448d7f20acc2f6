"""Recognizes errors that a restart cannot resolve, in a task or on the driver.

A restarted job reads the same records from the same checkpoint with the same program. So these errors end the job at
once, without the restart strategy:

- mistakes of the program: all `JobGraphError`s, such as unsupported state or functions, a state declared as another
  kind, or a key without an encoding; a partitioner that returns no subtask; invalid times and fields; values that
  cannot be pickled, or are too large, for a checkpoint; and missing names: an attribute of an object of Penstock, or a
  module;
- state whose classes have changed, damaged checkpoints, and files of a checkpoint, or temporary ones, that are gone;
- input files that have changed since the job found them, and files of cached streams that are gone;
- tables that cannot be used as the program asks, and replication slots without the changes to be read next;
- a note that a supervised program's next process would need, and cannot be written;
- commits of which nobody knows any more whether they were done;
- another driver that has taken the job over;
- bugs that Penstock finds in itself, and a JVM that is gone.

Any other error of user code may be temporary, such as a server that does not answer; the restart strategy decides.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import (
    AccumulatorSizeError,
    AggregationError,
    CachedStreamError,
    CommitOutcomeUnknownError,
    CorruptCheckpointError,
    DriverCodeError,
    FencedError,
    InternalError,
    JobGraphError,
    LostCommittableError,
    MissingTimestampError,
    PartitionError,
    ReplicationSlotError,
    SourceFileChangedError,
    SparkGoneError,
    StagedFileError,
    StateClassError,
    SupervisionNoteError,
    TableError,
    TemporaryCheckpointsError,
    TimestampError,
    UnpicklableAccumulatorError,
    UnpicklableStateError,
    UnreadableOutputError,
    UnstableKeyError,
)

_NON_RECOVERABLE: Final = (
    AccumulatorSizeError,
    AggregationError,
    CommitOutcomeUnknownError,
    CorruptCheckpointError,
    FencedError,
    InternalError,
    JobGraphError,
    CachedStreamError,
    LostCommittableError,
    MissingTimestampError,
    PartitionError,
    ReplicationSlotError,
    SourceFileChangedError,
    SparkGoneError,
    StagedFileError,
    StateClassError,
    SupervisionNoteError,
    TableError,
    TemporaryCheckpointsError,
    TimestampError,
    UnpicklableAccumulatorError,
    UnpicklableStateError,
    UnstableKeyError,
)


def is_non_recoverable(error: BaseException) -> bool:
    """Return whether a restart would end with the same error.

    Args:
        error: The error; for an error that wraps another one, its cause counts.
    """
    if isinstance(error, (DriverCodeError, UnreadableOutputError)):
        return error.__cause__ is not None and is_non_recoverable(error.__cause__)
    if isinstance(error, _NON_RECOVERABLE):  # some of them are attribute or import errors, too
        return True
    match error:
        case AttributeError():
            return _is_ours(type(error.obj).__module__)
        case ImportError():
            return _is_ours(error.name or "")
        case _:
            return False


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "penstock"
