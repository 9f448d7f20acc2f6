"""Hands records to a producer, and learns which of them it could not deliver."""

from __future__ import annotations

import contextlib
import time
import warnings
from typing import TYPE_CHECKING, Any, Final, NoReturn

from penstock._connectors.kafka.clients import (
    REQUEST_S,
    UNKNOWN_TOPICS,
    Connection,
    connector_error,
    library,
    make_producer,
)
from penstock._connectors.kafka.properties import for_producer
from penstock.common.redaction import shown_text
from penstock.errors import KafkaConnectorError, KafkaRecordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._connectors.kafka.serializing import OutRecord
    from penstock.errors import PenstockError

#: Seconds that a full queue is waited for before the connection is looked at.
_PAUSE_S: Final = 0.1
#: librdkafka's default of `batch.size`.
_BATCH_BYTES: Final = 1_000_000
#: Errors of records that the client drops, or does not take, because their transaction has failed. The next call about
#: the transaction says why.
_OF_FAILED_TRANSACTION: Final = frozenset({"_PURGE_QUEUE", "_PURGE_INFLIGHT", "_STATE"})
#: Keys land where Java's default partitioner puts them.
_DEFAULTS: Final = {"partitioner": "murmur2_random", "linger.ms": "5", "queue.buffering.max.kbytes": "131072"}


class RecordProducer:
    """A producer, its connection and its failures.

    Args:
        properties: Of the client.
        what: What it is for, for messages.
        more: Further properties, which have the last word.
    """

    def __init__(self, properties: Mapping[str, str], what: str, **more: str) -> None:
        self._what = what
        self.connection = Connection(what)
        #: The first error of a record that could not be delivered, and its topic; one of a record that was dropped with
        #: its transaction only where there is no other.
        self._failure: tuple[Any, str] | None = None
        given = {**_DEFAULTS, **properties}
        # Delivered records are not told one by one, which would cost a call of Python for each.
        reports = {"delivery.report.only.error": True, "on_delivery": self._delivered}
        #: Whether a broker has ever taken records: only then is one that is away waited for.
        self._has_delivered = False
        self._settings = given, {**reports, **more}
        self._batch_bytes = int(for_producer(given).get("batch.size", _BATCH_BYTES))
        self.client: Any = make_producer(given, self.connection, **reports, **more)

    def needs_smaller_batches(self, most_bytes: int) -> bool:
        """Tell whether a broker would refuse some batches of this producer; it refuses all of their records then."""
        return most_bytes < self._batch_bytes

    def make_again(self, most_bytes: int) -> None:
        """Begin with a new client, whose batches are smaller; nothing may be queued.

        Args:
            most_bytes: The largest batch that the broker takes.
        """
        self.close()
        given, more = self._settings
        self._batch_bytes = most_bytes
        self.client = make_producer(given, self.connection, **more, **{"batch.size": str(most_bytes)})

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and (self._failure is None or self._failure[0].name() in _OF_FAILED_TRANSACTION):
            self._failure = error, str(message.topic())

    def send(self, records: Iterable[OutRecord]) -> None:
        """Queue records, and wait where the queue is full; those of a transaction that has failed are dropped.

        Raises:
            KafkaConnectorError: The client refuses one, or could not deliver an earlier one.
        """
        produce, client = self.client.produce, self.client
        for record in records:
            topic, value, key, timestamp, headers, partition = record
            arguments: dict[str, Any] = {}
            if timestamp is not None and timestamp >= 0:
                arguments["timestamp"] = timestamp
            if headers is not None:
                arguments["headers"] = list(headers)
            if partition is not None:
                arguments["partition"] = partition
            while True:
                try:
                    produce(topic, value, key, **arguments)
                except BufferError:
                    client.poll(_PAUSE_S)
                    self.check()
                except library().KafkaException as error:
                    if error.args[0].name() in _OF_FAILED_TRANSACTION:
                        self._failure = self._failure or (error.args[0], topic)
                        return
                    raise self._refusal(error.args[0], topic) from None
                else:
                    break
        client.poll(0)
        self.check()

    def _refusal(self, error: Any, topic: str) -> PenstockError:
        if error.name() in UNKNOWN_TOPICS:
            return connector_error(f"{self._what}, topic {topic}", error, self.connection)
        return KafkaRecordError(f"Writing a record into {topic}", shown_text(str(error.str())).removesuffix("."))

    def check(self) -> None:
        """Raise the first failure that is not the consequence of a transaction's.

        Raises:
            KafkaConnectorError: A record could not be delivered, or the broker refuses the connection.
        """
        if self._failure is not None and self._failure[0].name() not in _OF_FAILED_TRANSACTION:
            self._raise_failure(*self._failure)
        self.connection.check()

    def check_delivered(self) -> None:
        """Raise the first failure of any record.

        Raises:
            KafkaConnectorError: A record could not be delivered, or the broker refuses the connection.
        """
        self.check()
        if self._failure is not None:
            self._raise_failure(*self._failure)

    def _raise_failure(self, error: Any, topic: str) -> NoReturn:
        raise connector_error(f"{self._what}, topic {topic}", error, self.connection)

    def flush(self) -> None:
        """Wait until all records are delivered, as long as the client tries (`delivery.timeout.ms`).

        Raises:
            KafkaConnectorError: One could not be delivered, or no broker has ever answered.
        """
        deadline = time.monotonic() + REQUEST_S
        while self.client.flush(1.0):
            self.check()
            if not self._has_delivered and self.connection.why and time.monotonic() > deadline:
                raise KafkaConnectorError(
                    self._what, f"no broker has answered ({self.connection.why}); {self.connection.address}"
                )
        self.check_delivered()
        self._has_delivered = True

    def serve(self) -> None:
        """Serve the callbacks, which say why a call has failed; a fatal error is that of the call."""
        with contextlib.suppress(library().KafkaException):
            self.client.poll(0)

    def close(self) -> None:
        """Let go of the client, with what is queued."""
        client, self.client = self.client, None
        if client is not None:
            client.purge()
            with contextlib.suppress(library().KafkaException), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a fenced producer says so once more
                client.close()
