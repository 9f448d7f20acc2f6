"""Makes the clients of confluent-kafka, and turns their errors into Penstock's."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from penstock._connectors.kafka.properties import for_consumer, for_either, for_producer, require_servers
from penstock.common.libraries import library_of
from penstock.common.redaction import hiding, shown_text
from penstock.errors import KafkaConnectorError, KafkaPropertyError, KafkaTopicError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = hiding(logging.getLogger("penstock.kafka"))

#: Seconds that a request may take which the job waits for.
REQUEST_S: Final = 30.0
#: Seconds that one of several tries takes at most.
_LONGEST_TRY_S: Final = 10.0
#: Errors about topics that do not exist, and about these and partitions.
UNKNOWN_TOPICS: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_ID"})
UNKNOWN_PLACES: Final = UNKNOWN_TOPICS | {"_UNKNOWN_PARTITION"}
_MISSING: Final = "the topic was deleted or never made"
#: Errors of brokers that are away.
AWAY: Final = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT"})
#: Errors of a connection that another try does not mend.
_REFUSALS: Final = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL")


def library() -> Any:
    """Return the module ``confluent_kafka``.

    Raises:
        MissingExtraError: It is not installed, or too old.
    """
    return library_of("kafka")


def admin_library() -> Any:
    """Return the module ``confluent_kafka.admin``.

    Raises:
        MissingExtraError: It is not installed, or too old.
    """
    library()
    from confluent_kafka import admin

    return admin


class Connection:
    """Notes what a client says about its connections, by its callback of errors.

    Args:
        what: What the client is for, for messages.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        #: Where the client looks for brokers, and what is to be checked where none answers.
        self.address = ""
        self._last = ""
        #: Why the broker refuses the connection; empty while it does not.
        self._refused = ""
        #: Which topic or partition is missing; a consumer tells it here only, and not by its messages.
        self._missing = ""

    def is_made(self, properties: Mapping[str, Any]) -> None:
        """Take where the client looks for brokers."""
        servers, protocol = properties["bootstrap.servers"], properties.get("security.protocol", "PLAINTEXT")
        self.address = f"check bootstrap.servers, {servers}, and security.protocol, {protocol}"

    def failed(self, error: Any) -> None:
        """Take an error of the client; librdkafka tries again by itself."""
        text = shown_text(str(error.str()))
        if error.name() in _REFUSALS:
            self._refused = text
        if error.name() in UNKNOWN_PLACES:
            self._missing = text
        if text != self._last:
            _log.warning("%s: %s", self._what, text)
            if not self._last or error.name() != "_ALL_BROKERS_DOWN":  # it has no reason, which comes before it
                self._last = text

    @property
    def why(self) -> str:
        """The last thing that went wrong; empty when nothing did."""
        return self._refused or self._last

    def check(self) -> None:
        """Raise if the broker refuses this client or has no such topic, because it would try for ever.

        Raises:
            KafkaConnectorError: It refuses.
            KafkaTopicError: A topic or a partition is missing.
        """
        if self._refused:
            raise KafkaConnectorError(self._what, f"the broker refuses the connection: {self._refused}")
        if self._missing:
            raise KafkaTopicError(self._what, f"{self._missing}; {_MISSING}")


class Tries:
    """Tries of a request, short at first, so that a refusal is soon told.

    Args:
        seconds: How long there are more of them; the first one is always made.
    """

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        #: How many seconds this try may take.
        self.timeout_s = 1.0

    def go_on(self) -> bool:
        """Tell whether there is another try."""
        self.timeout_s = min(2 * self.timeout_s, _LONGEST_TRY_S)
        return time.monotonic() < self._deadline


def make_consumer(properties: Mapping[str, str], connection: Connection, **more: Any) -> Any:
    """Return a consumer.

    Raises:
        KafkaPropertyError: librdkafka does not take a property.
    """
    return _make(library().Consumer, {**for_consumer(properties), **more}, connection)


def make_producer(properties: Mapping[str, str], connection: Connection, **more: Any) -> Any:
    """Return a producer.

    Raises:
        KafkaPropertyError: librdkafka does not take a property.
    """
    return _make(library().Producer, {**for_producer(properties), **more}, connection)


def make_admin(properties: Mapping[str, str], connection: Connection) -> Any:
    """Return an admin client.

    Raises:
        KafkaPropertyError: librdkafka does not take a property.
    """
    return _make(admin_library().AdminClient, for_either(properties), connection)


def _make(kind: Callable[..., Any], properties: dict[str, Any], connection: Connection) -> Any:
    require_servers(properties)
    connection.is_made(properties)
    settings: dict[str, Any] = {**properties, "error_cb": connection.failed, "log_level": "2"}
    try:
        return kind(settings)
    except library().KafkaException as error:
        text = shown_text(str(error.args[0].str()))
        key = next((key for key in properties if f'"{key}"' in text), "")
        raise KafkaPropertyError(key or "(several)", f"librdkafka says: {text.removesuffix('.')}") from None


def connector_error(what: str, error: Any, connection: Connection | None = None) -> KafkaConnectorError:
    """Return the error about a failed request.

    Args:
        what: What was to be done.
        error: The KafkaException, or its KafkaError.
        connection: What the client's connections say.
    """
    cause: Any = error.args[0] if isinstance(error, Exception) and error.args else error
    text, name = str(cause), ""
    if hasattr(cause, "name"):
        text, name = str(cause.str()), str(cause.name())
    reason = shown_text(text).removesuffix(".") or name
    if connection is not None and connection.why and connection.why not in reason:
        reason = f"{reason} ({connection.why.removesuffix('.')})"
    if name in UNKNOWN_PLACES:
        return KafkaTopicError(what, f"{reason}; {_MISSING}")
    if name in AWAY and connection is not None:
        reason = f"{reason}; {connection.address}"
    return KafkaConnectorError(what, reason)
