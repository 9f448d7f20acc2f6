"""The builder of Elasticsearch sinks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._api.connectors.sink import DeliveryGuarantee
from penstock._connectors.elasticsearch.emitter import ElasticsearchEmitter
from penstock._connectors.elasticsearch.failures import DeadLetters
from penstock._connectors.elasticsearch.options import Backoff, FlushBackoffType, address_of
from penstock._connectors.elasticsearch.sink import ElasticsearchSink, ElasticsearchSinkOptions
from penstock._shelf import show
from penstock.common.arguments import instance

if TYPE_CHECKING:
    from penstock._connectors.elasticsearch.failures import FailureHandler


class Elasticsearch7SinkBuilder:
    """Builds a sink for Elasticsearch 7 or OpenSearch; it needs hosts and an emitter.

    Elasticsearch 8 and 9 and OpenSearch 3 have the same requests, but have not been tried.

    Source: org.apache.flink.connector.elasticsearch.sink.Elasticsearch7SinkBuilder.

    Example:
        >>> from penstock.datastream.connectors.elasticsearch import Elasticsearch7SinkBuilder, ElasticsearchEmitter
        >>> sink = (
        ...     Elasticsearch7SinkBuilder()
        ...     .set_hosts(["localhost:9200"])
        ...     .set_emitter(ElasticsearchEmitter.static_index("people", "id"))
        ...     .build()
        ... )
    """

    def __init__(self) -> None:
        self._options = ElasticsearchSinkOptions()

    def set_emitter(self, emitter: ElasticsearchEmitter) -> Elasticsearch7SinkBuilder:
        """Set what makes documents of records.

        Args:
            emitter: The emitter.

        Raises:
            TypeError: It is no ElasticsearchEmitter.
        """
        otherwise = "ElasticsearchEmitter.from_function() makes one of a function"
        checked = instance("emitter", emitter, ElasticsearchEmitter, otherwise)
        self._options = replace(self._options, emitter=checked)
        return self

    def set_hosts(self, hosts: str | list[str]) -> Elasticsearch7SinkBuilder:
        """Set where the cluster is; where one host does not answer, the next one is asked.

        Args:
            hosts: Names, with ``https://`` in front for TLS, and with a port unless it is 9200.

        Raises:
            ValueError: One is no host, or there is none.
        """
        names = tuple(map(address_of, [hosts] if isinstance(hosts, str) else hosts))
        if not names:
            msg = "hosts must have at least one host."
            raise ValueError(msg)
        return self._connected(hosts=names)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Elasticsearch7SinkBuilder:
        """Set the delivery guarantee.

        Args:
            delivery_guarantee: NONE and AT_LEAST_ONCE are the same here: a checkpoint waits until all documents are
                sent or staged. EXACTLY_ONCE refuses documents with ids, which may be sent twice.

        Raises:
            TypeError: It is no DeliveryGuarantee.
        """
        guarantee = instance("delivery_guarantee", delivery_guarantee, DeliveryGuarantee)
        self._options = replace(self._options, guarantee=guarantee)
        return self

    def set_bulk_flush_max_actions(self, num_max_actions: int) -> Elasticsearch7SinkBuilder:
        """Set the most documents of one request.

        Args:
            num_max_actions: That number, 1000 by default; -1 for any.

        Raises:
            ValueError: It is neither positive nor -1.
        """
        return self._sending(max_actions=_limit("num_max_actions", num_max_actions))

    def set_bulk_flush_max_size_mb(self, max_size_mb: int) -> Elasticsearch7SinkBuilder:
        """Set the largest request; a larger document is sent alone.

        Args:
            max_size_mb: Its size in MiB, 5 by default; -1 for any.

        Raises:
            ValueError: It is neither positive nor -1.
        """
        limit = _limit("max_size_mb", max_size_mb)
        return self._sending(max_bytes=None if limit is None else limit << 20)

    def set_bulk_flush_interval(self, interval_millis: int) -> Elasticsearch7SinkBuilder:
        """Set how long documents with ids wait for more; checked with each block of records.

        Args:
            interval_millis: Milliseconds; -1, the default, until the request is full or the checkpoint is made.

        Raises:
            ValueError: It is neither positive nor -1.
        """
        self._options = replace(self._options, interval_ms=_limit("interval_millis", interval_millis))
        return self

    def set_bulk_flush_backoff_strategy(
        self, flush_backoff_type: FlushBackoffType, max_retries: int, delay_millis: int
    ) -> Elasticsearch7SinkBuilder:
        """Set how documents that the cluster could not take are sent again; if that is in vain, the job fails.

        By default exponential, 8 times, from 100 ms. In Flink the default is not to send them again.

        Args:
            flush_backoff_type: How the delay grows.
            max_retries: How often they are sent again without any of them being taken.
            delay_millis: The first delay, in milliseconds.

        Raises:
            TypeError: The type is no FlushBackoffType.
            ValueError: A number is negative.
        """
        instance("flush_backoff_type", flush_backoff_type, FlushBackoffType)
        if min(max_retries, delay_millis) < 0:
            msg = "max_retries and delay_millis must not be negative."
            raise ValueError(msg)
        return self._sending(backoff=Backoff(flush_backoff_type, max_retries, delay_millis))

    def set_failure_handler(self, handler: FailureHandler) -> Elasticsearch7SinkBuilder:
        """Set a function for documents that their index refuses; not in PyFlink. Without one they fail the job.

        Args:
            handler: Gets an :class:`ElasticsearchFailure`. What it returns is carried out in place of the document: an
                action with an id, or None. It runs in the tasks, and for documents without ids on the driver; after a
                failure of the job it may be called again.
        """
        return self._sending(handler=handler)

    def set_dead_letter_index(self, index: str) -> Elasticsearch7SinkBuilder:
        """Put documents that their index refuses into another one, with the reason; not in PyFlink.

        Args:
            index: That index. The fields of its documents are ``index``, ``id``, ``operation``, ``document`` (a text),
                ``status`` and ``reason``.
        """
        return self._sending(handler=DeadLetters(index))

    def set_connection_username(self, username: str) -> Elasticsearch7SinkBuilder:
        """Set the user.

        Args:
            username: The user.
        """
        return self._connected(username=username)

    def set_connection_password(self, password: str) -> Elasticsearch7SinkBuilder:
        """Set the user's password; it is hidden in all texts.

        Args:
            password: The password.
        """
        return self._connected(password=password)

    def set_connection_api_key(self, api_key: str) -> Elasticsearch7SinkBuilder:
        """Set an API key, in place of a user; not in PyFlink. It is hidden in all texts.

        Args:
            api_key: The key as it is shown when it is made, encoded, or as ``id:key``.
        """
        return self._connected(api_key=api_key)

    def set_connection_ca_certificates(self, path: str) -> Elasticsearch7SinkBuilder:
        """Set which certificates are trusted where hosts begin with ``https://``; not in PyFlink.

        Args:
            path: A file of PEM certificates, where the tasks and the driver run. By default the system's.
        """
        return self._connected(certificates=str(Path(path).absolute()))

    def set_connection_path_prefix(self, prefix: str) -> Elasticsearch7SinkBuilder:
        """Set what all paths begin with, for clusters behind a proxy.

        Args:
            prefix: The path.
        """
        return self._connected(prefix=f"/{prefix.strip('/')}".rstrip("/"))

    def set_connection_request_timeout(self, timeout: int) -> Elasticsearch7SinkBuilder:
        """Set how long a free connection is waited for.

        Args:
            timeout: Milliseconds, 30,000 by default.

        Raises:
            ValueError: It is not positive.
        """
        return self._connected(request_ms=_positive(timeout))

    def set_connection_timeout(self, timeout: int) -> Elasticsearch7SinkBuilder:
        """Set how long making a connection may take.

        Args:
            timeout: Milliseconds, 10,000 by default.

        Raises:
            ValueError: It is not positive.
        """
        return self._connected(connect_ms=_positive(timeout))

    def set_socket_timeout(self, timeout: int) -> Elasticsearch7SinkBuilder:
        """Set how long the cluster may be silent.

        Args:
            timeout: Milliseconds, 60,000 by default.

        Raises:
            ValueError: It is not positive.
        """
        return self._connected(answer_ms=_positive(timeout))

    def build(self) -> ElasticsearchSink:
        """Return the sink.

        Raises:
            ValueError: Something is missing, or does not fit together.
        """
        options = self._options
        connection = options.bulk.connection
        connection.hide_secrets()
        if options.emitter is None or not connection.hosts:
            msg = "The Elasticsearch sink needs an emitter and hosts: call set_emitter and set_hosts."
            raise ValueError(msg)
        if (connection.username is None) != (connection.password is None) or (
            connection.username is not None and connection.api_key is not None
        ):
            msg = "The Elasticsearch sink needs a user with a password, or an API key, or neither."
            raise ValueError(msg)
        if options.guarantee is DeliveryGuarantee.EXACTLY_ONCE and options.emitter.has_ids:
            msg = (
                "Documents with ids are written at least once: choose DeliveryGuarantee.AT_LEAST_ONCE, or "
                "leave the key field out."
            )
            raise ValueError(msg)
        return ElasticsearchSink(options)

    def _sending(self, **changes: Any) -> Elasticsearch7SinkBuilder:
        self._options = replace(self._options, bulk=replace(self._options.bulk, **changes))
        return self

    def _connected(self, **changes: Any) -> Elasticsearch7SinkBuilder:
        return self._sending(connection=replace(self._options.bulk.connection, **changes))


def _limit(name: str, value: int) -> int | None:
    """Return a limit; None for -1, which is none."""
    if value != -1 and value < 1:
        msg = f"{name} must be positive, or -1 for no limit."
        raise ValueError(msg)
    return None if value == -1 else value


def _positive(timeout: int) -> int:
    if timeout < 1:
        msg = "timeout must be a positive number of milliseconds."
        raise ValueError(msg)
    return timeout


show("penstock.datastream.connectors.elasticsearch", Elasticsearch7SinkBuilder)
