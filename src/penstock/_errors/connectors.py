"""Errors of connectors whose client is not installed, of Kafka, and of tables."""

from __future__ import annotations

from penstock._errors.program import JobGraphError
from penstock._errors.root import PenstockError, declared
from penstock._errors.run import JobRunError


@declared
class MissingExtraError(PenstockError, ImportError):
    """A connector's client library is not installed, or does not load."""

    connector: str  #: the connector, such as ``PostgreSQL``
    extra: str  #: the extra of Penstock that brings it
    reason: str  #: what Python said

    def __str__(self) -> str:
        return (
            f"The {self.connector} connector needs its client library: {self.reason.removesuffix('.')}. Install "
            f"penstock[{self.extra}], in the environment of the tasks as well."
        )


@declared
class KafkaPropertyError(JobGraphError, ValueError):
    """A property of a Kafka source or sink cannot be used."""

    property: str  #: its key
    reason: str  #: what is wrong with it, and what to do, a clause without a full stop

    def __str__(self) -> str:
        return f"The Kafka property {self.property} cannot be used: {self.reason}."


@declared
class KafkaConnectorError(JobRunError):
    """Kafka does not answer, or refuses a request."""

    what: str  #: what was to be done, such as ``Reading the partitions of orders``
    reason: str  #: what went wrong, a clause without a full stop

    def __str__(self) -> str:
        return f"{self.what} failed: {self.reason}."


class KafkaTopicError(KafkaConnectorError):
    """A topic or a partition does not exist, or no longer."""


class KafkaOffsetError(KafkaConnectorError):
    """The position from which a partition is to be read is not in its log; a restart does not help."""


class KafkaRecordError(KafkaConnectorError):
    """A record cannot be deserialized, or cannot be written."""


class KafkaTransactionError(KafkaConnectorError):
    """A transaction cannot be made, or its timeout is not allowed by the broker."""


@declared
class LakeTableError(JobRunError):
    """A table of Delta Lake or Iceberg does not exist, or cannot be read or written."""

    what: str  #: what was to be done, such as ``Reading the Delta table /data/items``
    reason: str  #: what went wrong, and what to do, a clause without a full stop

    def __str__(self) -> str:
        return f"{self.what} failed: {self.reason}."


class UnsupportedTableError(LakeTableError):
    """A table has a feature or columns that its connector does not support, perhaps since it was changed."""


class ExpiredSnapshotError(LakeTableError):
    """A source that follows a table has not read snapshots before they expired; a restart does not help."""
