"""How a sink reaches a cluster, and how it waits for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from penstock._shelf import show
from penstock.common.redaction import learn_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

_PORT: Final = 9200
_LONGEST_S: Final = 30.0
_HOST: Final = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>\[[0-9a-fA-F:.]+\]|[^\s/:@?#\[\]]+)(?::(?P<port>\d+))?/?"
)


class FlushBackoffType(Enum):
    """How long a sink waits before it sends again what the cluster could not take.

    Source: org.apache.flink.connector.elasticsearch.sink.FlushBackoffType.
    """

    CONSTANT = 0
    EXPONENTIAL = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class Backoff:
    """When a request is sent again.

    Args:
        kind: How the delay grows.
        max_retries: How often.
        delay_ms: The first delay, in milliseconds.
    """

    kind: FlushBackoffType = FlushBackoffType.EXPONENTIAL
    max_retries: int = 8
    delay_ms: int = 100

    def delays_s(self) -> Iterator[float]:
        """Yield the seconds to wait before each retry.

        Example:
            >>> list(Backoff(FlushBackoffType.EXPONENTIAL, 4, 100).delays_s())
            [0.1, 0.2, 0.4, 0.8]
        """
        if self.kind is FlushBackoffType.NONE:
            return
        for number in range(self.max_retries):
            factor = 2**number if self.kind is FlushBackoffType.EXPONENTIAL else 1
            yield min(self.delay_ms * factor / 1000, max(_LONGEST_S, self.delay_ms / 1000))


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Where a cluster is, who asks, and how long an answer may take."""

    #: Addresses without a path, such as ``http://localhost:9200``.
    hosts: tuple[str, ...] = ()
    prefix: str = ""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    #: A file of PEM certificates; None for those that the system trusts.
    certificates: str | None = None
    #: Milliseconds for a connection, for a part of an answer, and for a free connection.
    connect_ms: int = 10_000
    answer_ms: int = 60_000
    request_ms: int = 30_000

    def hide_secrets(self) -> None:
        """Let this process show the secrets in no text."""
        given = {"elasticsearch.password": self.password, "elasticsearch.api-key": self.api_key}
        learn_secrets({key: value for key, value in given.items() if value})


def address_of(host: str) -> str:
    """Return a host as the address that is asked.

    Raises:
        ValueError: It is no host, or has more than a scheme, a name and a port.

    Example:
        >>> address_of("localhost"), address_of("https://search.example.com:443")
        ('http://localhost:9200', 'https://search.example.com:443')
    """
    match = _HOST.fullmatch(host)
    if match is None:  # its text may have a password
        msg = (
            "A host is a name with a scheme and a port, such as 'https://search.example.com:9200'. A path is set by "
            "set_connection_path_prefix, credentials by set_connection_username and set_connection_password."
        )
        raise ValueError(msg)
    return f"{match['scheme'] or 'http'}://{match['host']}:{match['port'] or _PORT}"


show("penstock.datastream.connectors.elasticsearch", FlushBackoffType)
