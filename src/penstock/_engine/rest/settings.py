"""The settings of the REST server, read from the configuration of the first job that has one."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.gateway.registry import default_directory
from penstock.common import option_table
from penstock.common.configuration import shown_value
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.configuration import Configuration

_LOOPBACK: Final = "127.0.0.1"
#: Ports above the first one that are tried.
_NEXT_PORTS: Final = 100


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask."""

    #: Names in the Host header, in small letters, beside numeric addresses and localhost.
    hosts: frozenset[str] = frozenset()
    #: What clients have to send as a bearer token; None where they need none.
    token: str | None = None


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Where a REST server listens, for whom, and how long it remembers."""

    bind_address: str
    #: In the order in which they are tried; 0 is any free one.
    ports: tuple[int, ...]
    #: The name that clients use.
    address: str
    access: Access
    registry_directory: Path
    #: How long outcomes of operations, and ended jobs, can be asked for.
    store_ms: int
    job_store_ms: int
    #: For people: what is secret is hidden.
    configuration: Mapping[str, str]

    @classmethod
    def read(cls, configuration: Configuration) -> RestSettings:
        """Read the settings.

        Raises:
            ConfigurationError: A key has a value that it cannot have, or anybody in the network could steer the job.
        """
        bind_address = configuration.get(option_table.REST_BIND_ADDRESS) or _LOOPBACK
        token = configuration.get(option_table.REST_TOKEN)
        if token is None and not _is_loopback(bind_address):
            reason = "whoever reaches that address could steer the job; set penstock.rest.token as well"
            raise ConfigurationError(option_table.REST_BIND_ADDRESS.key, bind_address, reason)
        address = configuration.get(option_table.REST_ADDRESS)
        directory = configuration.get(option_table.REST_REGISTRY_DIRECTORY)
        return cls(
            bind_address=bind_address,
            ports=_ports(configuration),
            address=address or _shown_address(bind_address),
            access=Access(_hosts(address, bind_address), token),
            registry_directory=Path(directory) if directory else default_directory(),
            store_ms=configuration.get(option_table.REST_STORE_DURATION).to_millis(),
            job_store_ms=configuration.get(option_table.JOB_STORE_EXPIRATION).to_millis(),
            configuration={key: shown_value(key, value) for key, value in configuration.to_dict().items()},
        )

    def url(self, port: int) -> str:
        """Return the server's address with its port."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{port}"


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


def _shown_address(bind_address: str) -> str:
    try:
        everywhere = ipaddress.ip_address(bind_address).is_unspecified
    except ValueError:
        everywhere = False
    return socket.gethostname() if everywhere else bind_address


def _hosts(address: str | None, bind_address: str) -> frozenset[str]:
    """Return the names that the Host header may have, in small letters."""
    names = {address, bind_address}
    if not _is_loopback(bind_address):
        names |= {socket.gethostname(), socket.getfqdn()}
    return frozenset(name.lower() for name in names if name)


def _ports(configuration: Configuration) -> tuple[int, ...]:
    """Return the ports to try: those of `rest.bind-port`, or `rest.port` and the ones above it."""
    given = configuration.get(option_table.REST_BIND_PORT)
    if given is None:
        first = configuration.get(option_table.REST_PORT)
        return (0,) if first == 0 else tuple(range(first, min(first + _NEXT_PORTS, 65535) + 1))
    ports: list[int] = []
    for part in given.replace(" ", "").split(","):
        low, _, high = part.partition("-")
        ports += range(int(low), int(high or low) + 1)
    if not ports or not all(0 <= port <= 65535 for port in ports):
        raise ConfigurationError(option_table.REST_BIND_PORT.key, given, "it has to name ports up to 65535")
    return tuple(ports)
