"""Every error that a user of Penstock may catch; the base class says what the caller has to do.

    PenstockError
    ├── JobGraphError                   fix the program: known before the job starts
    │   ├── AccumulatorTypeError            accumulators of two classes under one name
    │   ├── ConfigurationError              a configuration key has an invalid value
    │   │   └── UnknownKeyError                 a key that is probably misspelt
    │   ├── ConfigurationFileError          a config.yaml that cannot be read
    │   ├── DeclaredTypeError               a value that does not fit the type declared for it
    │   ├── DuplicateUidError               two operators carry the same uid
    │   ├── EmptyJobError                   nothing to execute
    │   ├── ForwardParallelismError         forward() between different parallelisms
    │   ├── KafkaPropertyError              a client property of Kafka that cannot be used
    │   ├── KeyEncodingError                a key without a canonical encoding
    │   ├── KeyRequiredError                an operation on a stream without keys that needs keys
    │   ├── PathError                       a path or URL is invalid, or probably a mistake
    │   ├── StateDescriptorError            a state declared as another kind than it was written as
    │   ├── UncopyableRecordError           a record that can neither be pickled nor copied
    │   ├── UndigestibleFunctionError       a function of which no later run could tell that it is the same
    │   ├── UnpicklableFunctionError        a function that cannot travel to the tasks
    │   └── UnsupportedOperationError       a PyFlink call that has no meaning here
    │       ├── AbsentAttributeError            an attribute of PyFlink that Penstock lacks; also an AttributeError
    │       └── AbsentImportError               a name of PyFlink that Penstock lacks; also an ImportError
    ├── RestoreError                    fix the start: the state to start from
    │   ├── ChangedProgramError             a batch job with another program than it has begun with
    │   ├── CheckpointClaimedError          a checkpoint that another job has claimed
    │   ├── CheckpointStorageError          the checkpoint directory cannot be used
    │   ├── CorruptCheckpointError          a file of a checkpoint is damaged or gone
    │   │   ├── SignatureError                  it is not signed with the key that is configured
    │   │   └── UnsupportedFormatError          it is in a format of another version of Penstock
    │   ├── ExposedCheckpointError          other users can change the files that the job starts from
    │   ├── FinishedOperatorError           an operator before a finished one may still send records
    │   ├── JobRunningError                 the job runs already, and is not to be taken over
    │   ├── LocalStateError                 the local directory for keyed state cannot be used
    │   ├── MaxParallelismError             keyed state was written with another number of key groups
    │   ├── MixedChainError                 operators that run as one have finished to different extents
    │   ├── MovedOperatorError              an operator without a uid may have changed places with another
    │   ├── NoCheckpointError               nothing to continue from
    │   │   ├── MissingRecordsError         the job has run before, and its directory does not know of it
    │   │   └── MovedCheckpointError        what the job continues from is not where it was
    │   ├── OtherOperatorError              state of an operator whose uid another kind has now
    │   ├── ParallelismLimitError           more subtasks than keyed state has key groups
    │   ├── RepeatedJobError                a second job that would be the first one of its program
    │   ├── SavepointChangeError            a savepoint that cannot be written, changed or deleted
    │   ├── StateClassError                 state of a class that was removed or has changed
    │   ├── SupervisionNoteError            the note of a supervised program's jobs is gone or damaged
    │   ├── TemporaryCheckpointsError       the temporary checkpoints of a running job were removed
    │   ├── UnclaimedStateError             state of an operator that the job does not have
    │   ├── UndeliveredResultsError         a finished job's collected results are gone
    │   ├── UnknownStateError               state that a savepoint does not have
    │   └── UntrustedClassError             a savepoint has values of a class that the reader did not allow
    ├── SparkSetupError                 fix the machine: Spark cannot start here
    │   ├── LocalDirectoryError             a local directory cannot be used, or its disk is full
    │   ├── LoopbackError                   processes of this machine cannot reach each other
    │   ├── PySparkVersionError             PySpark or Spark has an unsupported version
    │   ├── SparkLaunchError                the JVM ended while it was starting
    │   ├── UnsuitableClusterError          hosts of a cluster lack what the job needs
    │   │   └── UnsuitableHostError         one that came while the job ran does
    │   ├── UnsupportedJavaError            no Java that this Spark runs on
    │   └── WorkerPythonError               the Python of a session's tasks does not have Penstock
    ├── JobRunError                     look into the run: the job was under way
    │   ├── AccumulatorSizeError            accumulators too large for the checkpoints that hold them
    │   ├── AggregationError                a field that sum, min or max cannot take
    │   ├── BatchColumnsError               a batch of columns does not match its declaration
    │   ├── CheckpointExpiredError          the tasks of a checkpoint made no progress for too long
    │   ├── CheckpointRequestError          a requested checkpoint could not be made
    │   ├── DamagedBlockError               a block from another task cannot be read
    │   ├── DatabaseError                   a database does not answer, or refuses a statement
    │   │   └── DatabaseConnectionError         it cannot be reached, or a connection to it was lost
    │   ├── CommitOutcomeUnknownError       nobody knows any more whether something was committed
    │   ├── DriverCodeError                 an enumerator or a committer failed on the driver
    │   │   └── CommitFailedError               a committer cannot publish what a checkpoint holds
    │   ├── ElasticsearchConnectorError     Elasticsearch does not answer, or refuses a request
    │   │   └── ElasticsearchDocumentError      a record that is no document, or that its index refuses
    │   ├── EpochCancelledError             an epoch was interrupted on purpose
    │   ├── EpochInfrastructureError        Spark lost an epoch; it is run again
    │   ├── ExecutorLostError               Spark lost an executor; the job runs on
    │   ├── FencedError                     another driver has taken the job over
    │   ├── FieldError                      a record without a field that the program names
    │   ├── FunctionResultError             a function, a trigger or the like returned what it cannot return
    │   ├── JobCancelledError               the job was cancelled
    │   ├── JobStoppedError                 the job was stopped where its whole result is needed
    │   ├── JobExecutionError               the job failed, mostly in a user's function
    │   ├── KafkaConnectorError             Kafka does not answer, or refuses a request
    │   │   ├── KafkaOffsetError                the position in a partition is not in its log
    │   │   ├── KafkaRecordError                a record that cannot be deserialized, or not be written
    │   │   ├── KafkaTopicError                 a topic or a partition does not exist, or no longer
    │   │   └── KafkaTransactionError           a transaction cannot be made
    │   ├── CachedStreamError                 what a program kept of a stream is gone or damaged
    │   ├── LakeTableError                  a table of Delta Lake or Iceberg cannot be read or written
    │   │   ├── ExpiredSnapshotError            snapshots that were to be read have expired
    │   │   └── UnsupportedTableError           it has something that its connector does not support
    │   ├── LostCommittableError            staged data of a sink is gone before it was published
    │   ├── LostResultError                 a stored result of a batch job is missing or damaged
    │   ├── MessageFormatError              a message that is not what its schema describes
    │   ├── MissingTimestampError           a record without a timestamp in an operator of event time
    │   ├── PartitionError                  a custom partitioner named a subtask that does not exist
    │   ├── RecordFieldError                a record has a field that its file has no column for
    │   ├── RecordValueError                a record has a value that its column cannot hold unchanged
    │   ├── ReplicationSlotError            a replication slot lacks the changes that a source would read next
    │   ├── SavepointError                  a requested savepoint could not be written
    │   │   ├── StopIncompleteError             the savepoint was written, and the job failed after it
    │   │   └── StopTimeoutError                the job did not stop in time, and was cancelled
    │   ├── SinkFileError                   an output file cannot be written or published
    │   │   ├── BucketNameError                 a bucket has an invalid name
    │   │   └── StagedFileError             an unfinished file of a checkpoint is missing
    │   ├── SourceFileError                 an input file is gone or cannot be read
    │   │   ├── SourceFileChangedError          the file has changed since the job found it
    │   │   └── SourceFileGoneError             the file no longer exists
    │   ├── SortOrderError                  values of a sorted partition that cannot be compared
    │   ├── SortSpillError                  the local disk has no room for a sort of a batch job
    │   ├── SparkGoneError                  Spark's JVM has ended; only another start helps
    │   │   └── SparkStoppedError           its cluster has dropped the application
    │   ├── SplitFetchError                 a source's reader could not fetch
    │   ├── StaleAttemptError               a task that outlived its attempt stopped itself
    │   ├── TableError                      a table that cannot be read or written as the program asks
    │   ├── TaskRetriedError                Spark ran a task again; the job runs on
    │   ├── TimestampError                  a timestamp, a watermark or a timer is no integer of 64 bits
    │   ├── UnpicklableAccumulatorError     an accumulator that cannot be written to a checkpoint
    │   ├── UnpicklableStateError           a value in keyed state that cannot be written to a checkpoint
    │   ├── UnreadableOutputError           printed or collected output cannot be read back
    │   └── UnstableKeyError                a key selector gave two keys for one record
    ├── CommandError                    fix the call: the command penstock failed
    │   ├── CommandTimeoutError             the operation takes longer than the timeout, and continues
    │   ├── JobRestartingError        a supervised job has no process at this moment
    │   ├── JobNotFoundError                no running job, or more than one, matches
    │   ├── JobRequestError                 a running job refused the request, or failed to perform it
    │   └── JobUnreachableError             no server answers at a job's address
    ├── MissingExtraError               install the extra: a connector's client library; also an ImportError
    ├── RetryableError                  wait: the same call may succeed later
    └── InternalError                   report: a bug in Penstock

Every class hands its arguments to ``super().__init__`` and builds its text in ``__str__``, so an error that crosses a
process boundary arrives with its type, its attributes and its text. ``__cause__`` does not travel (Python drops it).
The classes themselves are in ``penstock._errors``, one module for each thing to do, and import nothing of Penstock.
"""

from __future__ import annotations

from penstock._errors.command import (
    CommandError,
    CommandTimeoutError,
    JobNotFoundError,
    JobRequestError,
    JobRestartingError,
    JobUnreachableError,
)
from penstock._errors.connectors import (
    ExpiredSnapshotError,
    KafkaConnectorError,
    KafkaOffsetError,
    KafkaPropertyError,
    KafkaRecordError,
    KafkaTopicError,
    KafkaTransactionError,
    LakeTableError,
    MissingExtraError,
    UnsupportedTableError,
)
from penstock._errors.databases import (
    DatabaseConnectionError,
    DatabaseError,
    ReplicationSlotError,
    TableError,
)
from penstock._errors.files import (
    BucketNameError,
    CachedStreamError,
    LostCommittableError,
    RecordFieldError,
    RecordValueError,
    SinkFileError,
    SourceFileChangedError,
    SourceFileError,
    SourceFileGoneError,
    StagedFileError,
)
from penstock._errors.machine import (
    LocalDirectoryError,
    LoopbackError,
    PySparkVersionError,
    SparkLaunchError,
    SparkSetupError,
    UnsuitableClusterError,
    UnsuitableHostError,
    UnsupportedJavaError,
    WorkerPythonError,
)
from penstock._errors.program import (
    AbsentAttributeError,
    AbsentImportError,
    AccumulatorTypeError,
    ConfigurationError,
    ConfigurationFileError,
    DeclaredTypeError,
    DuplicateUidError,
    EmptyJobError,
    ForwardParallelismError,
    JobGraphError,
    KeyEncodingError,
    KeyRequiredError,
    PathError,
    StateDescriptorError,
    UncopyableRecordError,
    UndigestibleFunctionError,
    UnknownKeyError,
    UnpicklableFunctionError,
    UnsupportedOperationError,
)
from penstock._errors.records import (
    AggregationError,
    FieldError,
    FunctionResultError,
    MessageFormatError,
    MissingTimestampError,
    SortOrderError,
    TimestampError,
)
from penstock._errors.root import InternalError, PenstockError, RetryableError
from penstock._errors.run import (
    AccumulatorSizeError,
    BatchColumnsError,
    CheckpointExpiredError,
    CheckpointRequestError,
    CommitFailedError,
    CommitOutcomeUnknownError,
    DamagedBlockError,
    DriverCodeError,
    EpochCancelledError,
    EpochInfrastructureError,
    ExecutorLostError,
    FailureLocation,
    FencedError,
    JobCancelledError,
    JobExecutionError,
    JobRunError,
    JobStoppedError,
    LostResultError,
    PartitionError,
    SavepointError,
    SortSpillError,
    SparkGoneError,
    SparkStoppedError,
    SplitFetchError,
    StaleAttemptError,
    StopIncompleteError,
    StopTimeoutError,
    TaskRetriedError,
    UnpicklableAccumulatorError,
    UnpicklableStateError,
    UnreadableOutputError,
    UnstableKeyError,
)
from penstock._errors.search import ElasticsearchConnectorError, ElasticsearchDocumentError
from penstock._errors.start import (
    ChangedProgramError,
    CheckpointClaimedError,
    CheckpointStorageError,
    CorruptCheckpointError,
    ExposedCheckpointError,
    FinishedOperatorError,
    JobRunningError,
    LocalStateError,
    MaxParallelismError,
    MissingRecordsError,
    MixedChainError,
    MovedCheckpointError,
    MovedOperatorError,
    NoCheckpointError,
    OtherOperatorError,
    ParallelismLimitError,
    RepeatedJobError,
    RestoreError,
    SavepointChangeError,
    SignatureError,
    StateClassError,
    SupervisionNoteError,
    TemporaryCheckpointsError,
    UnclaimedStateError,
    UndeliveredResultsError,
    UnknownStateError,
    UnsupportedFormatError,
    UntrustedClassError,
)

__all__ = [
    "AbsentAttributeError",
    "AbsentImportError",
    "AccumulatorSizeError",
    "AccumulatorTypeError",
    "AggregationError",
    "BatchColumnsError",
    "BucketNameError",
    "CachedStreamError",
    "ChangedProgramError",
    "CheckpointClaimedError",
    "CheckpointExpiredError",
    "CheckpointRequestError",
    "CheckpointStorageError",
    "CommandError",
    "CommandTimeoutError",
    "CommitFailedError",
    "CommitOutcomeUnknownError",
    "ConfigurationError",
    "ConfigurationFileError",
    "CorruptCheckpointError",
    "DamagedBlockError",
    "DatabaseConnectionError",
    "DatabaseError",
    "DeclaredTypeError",
    "DriverCodeError",
    "DuplicateUidError",
    "ElasticsearchConnectorError",
    "ElasticsearchDocumentError",
    "EmptyJobError",
    "EpochCancelledError",
    "EpochInfrastructureError",
    "ExecutorLostError",
    "ExpiredSnapshotError",
    "ExposedCheckpointError",
    "FailureLocation",
    "FencedError",
    "FieldError",
    "FinishedOperatorError",
    "ForwardParallelismError",
    "FunctionResultError",
    "InternalError",
    "JobCancelledError",
    "JobExecutionError",
    "JobGraphError",
    "JobNotFoundError",
    "JobRequestError",
    "JobRestartingError",
    "JobRunError",
    "JobRunningError",
    "JobStoppedError",
    "JobUnreachableError",
    "KafkaConnectorError",
    "KafkaOffsetError",
    "KafkaPropertyError",
    "KafkaRecordError",
    "KafkaTopicError",
    "KafkaTransactionError",
    "KeyEncodingError",
    "KeyRequiredError",
    "LakeTableError",
    "LocalDirectoryError",
    "LocalStateError",
    "LoopbackError",
    "LostCommittableError",
    "LostResultError",
    "MaxParallelismError",
    "MessageFormatError",
    "MissingExtraError",
    "MissingRecordsError",
    "MissingTimestampError",
    "MixedChainError",
    "MovedCheckpointError",
    "MovedOperatorError",
    "NoCheckpointError",
    "OtherOperatorError",
    "ParallelismLimitError",
    "PartitionError",
    "PathError",
    "PenstockError",
    "PySparkVersionError",
    "RecordFieldError",
    "RecordValueError",
    "RepeatedJobError",
    "ReplicationSlotError",
    "RestoreError",
    "RetryableError",
    "SavepointChangeError",
    "SavepointError",
    "SignatureError",
    "SinkFileError",
    "SortOrderError",
    "SortSpillError",
    "SourceFileChangedError",
    "SourceFileError",
    "SourceFileGoneError",
    "SparkGoneError",
    "SparkLaunchError",
    "SparkSetupError",
    "SparkStoppedError",
    "SplitFetchError",
    "StagedFileError",
    "StaleAttemptError",
    "StateClassError",
    "StateDescriptorError",
    "StopIncompleteError",
    "StopTimeoutError",
    "SupervisionNoteError",
    "TableError",
    "TaskRetriedError",
    "TemporaryCheckpointsError",
    "TimestampError",
    "UnclaimedStateError",
    "UncopyableRecordError",
    "UndeliveredResultsError",
    "UndigestibleFunctionError",
    "UnknownKeyError",
    "UnknownStateError",
    "UnpicklableAccumulatorError",
    "UnpicklableFunctionError",
    "UnpicklableStateError",
    "UnreadableOutputError",
    "UnstableKeyError",
    "UnsuitableClusterError",
    "UnsuitableHostError",
    "UnsupportedFormatError",
    "UnsupportedJavaError",
    "UnsupportedOperationError",
    "UnsupportedTableError",
    "UntrustedClassError",
    "WorkerPythonError",
]

# Pickles and messages name the public module, so that the private ones may move.
for _name in __all__:
    globals()[_name].__module__ = __name__
