"""The settings of the REST server: those of the first job of the process; later jobs must not contradict them."""

from __future__ import annotations

import ipaddress
import logging
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.processes.registry import default_directory
from penstock._engine.rest.access import AccessPolicy, read_access
from penstock._engine.rest.directories import DirectoryPolicy
from penstock._engine.rest.shared import SharedSettings
from penstock._engine.rest.tls import Tls, read_tls
from penstock.common import option_table
from penstock.common.redaction import Redaction
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.common.configuration import Configuration

_log = logging.getLogger(__name__)

_LOOPBACK: Final = "127.0.0.1"
#: Ports above the first one that are tried.
_NEXT_PORTS: Final = 100
#: Flink's reporter for Prometheus, and its default port.
_PROMETHEUS: Final = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
_PROMETHEUS_PORT: Final = "9249"


@dataclass(frozen=True, slots=True)
class BindAddress:
    """The address of a socket, and the keys that configure it."""

    address: str
    #: The ports in the order of the tries; 0 is any free port.
    ports: tuple[int, ...]
    address_key: str
    ports_key: str


@dataclass(frozen=True, slots=True)
class RestSettings:
    """The settings of a REST server: addresses, access, TLS, and how long outcomes are kept."""

    bind_address: BindAddress
    #: The address for metrics only; None without such a port.
    metrics_bind_address: BindAddress | None
    #: The host name in the URL for clients.
    address: str
    access: AccessPolicy
    directories: DirectoryPolicy
    #: None where it speaks plain HTTP.
    tls: Tls | None
    registry_directory: Path
    #: How long outcomes of operations, and ended jobs, are kept.
    store_ms: int
    job_store_ms: int
    #: The configuration for display; secrets are hidden.
    configuration: Mapping[str, str]
    #: The settings that further jobs of the process must not contradict.
    shared: SharedSettings

    @classmethod
    def read(cls, configuration: Configuration) -> RestSettings:
        """Read the settings.

        Raises:
            ConfigurationError: A key has an invalid value, or every host in the network could steer the job.
        """
        bind_address, metrics_bind_address = _rest_bind_address(configuration), _metrics_bind_address(configuration)
        address, tls = configuration.get(option_table.REST_ADDRESS), read_tls(configuration)
        hosts = _hosts(address, [each.address for each in (bind_address, metrics_bind_address) if each])
        access = read_access(configuration, hosts)
        for each, could in ((bind_address, "steer the job"), (metrics_bind_address, "read about the job")):
            if each is not None and not _is_loopback(each.address):
                _check_reached_by_others(each, could, access, configuration)
        directory = configuration.get(option_table.REST_REGISTRY_DIRECTORY)
        redaction = Redaction.of(configuration.to_dict())
        return cls(
            bind_address=bind_address,
            metrics_bind_address=metrics_bind_address,
            address=address or _shown_address(bind_address.address),
            access=access,
            directories=DirectoryPolicy.read(
                configuration,
                is_for_this_machine=_is_loopback(bind_address.address)
                and not configuration.get(option_table.REST_BEHIND_PROXY),
            ),
            tls=tls,
            registry_directory=Path(directory) if directory else default_directory(),
            store_ms=configuration.get(option_table.REST_STORE_DURATION).to_millis(),
            job_store_ms=configuration.get(option_table.JOB_STORE_EXPIRATION).to_millis(),
            configuration={key: redaction.value(key, value) for key, value in configuration.to_dict().items()},
            shared=SharedSettings(configuration),
        )

    def url(self, port: int) -> str:
        """Return the server's address with its port."""
        return self._url(self.address, port)

    def metrics_url(self, port: int) -> str:
        """Return the URL of the metrics on the port of their own."""
        return (
            self._url(
                _shown_address(self.metrics_bind_address.address if self.metrics_bind_address else self.address), port
            )
            + "/metrics"
        )

    def _url(self, address: str, port: int) -> str:
        host = f"[{address}]" if ":" in address else address
        return f"{'http' if self.tls is None else 'https'}://{host}:{port}"


def _check_reached_by_others(
    place: BindAddress, could: str, access: AccessPolicy, configuration: Configuration
) -> None:
    """Refuse an address that other machines can reach if there is no token, or no encryption."""
    key, proxy = option_table.REST_TOKEN.key, option_table.REST_BEHIND_PROXY
    if access.token is None:
        reason = f"any client that reaches that address could {could}; {key}: none is for loopback alone"
        raise ConfigurationError(place.address_key, place.address, reason)
    if not configuration.get(option_table.REST_TLS_ENABLED) and not configuration.get(proxy):
        reason = (
            f"the token would pass the network in plain text. Set {option_table.REST_TLS_ENABLED.key}: true with "
            f"{option_table.REST_TLS_KEYSTORE.key}, or {proxy.key}: true where a proxy with TLS stands before it"
        )
        raise ConfigurationError(place.address_key, place.address, reason)


def metrics_are_wanted(configuration: Configuration) -> bool:
    """Tell whether the configuration asks for a port for metrics, like that of Flink's reporter for Prometheus."""
    factory, ports = (
        configuration.get(each) for each in (option_table.PROMETHEUS_FACTORY, option_table.PROMETHEUS_PORT)
    )
    if factory is None and ports is None:
        return False
    if factory not in {None, _PROMETHEUS}:
        _log.warning(
            "%s = %s has no effect: there is %s, and /metrics of the REST server",
            *(option_table.PROMETHEUS_FACTORY.key, factory, _PROMETHEUS),
        )
        return False
    chosen = configuration.get(option_table.METRICS_REPORTERS)
    return chosen is None or "prom" in {name.strip() for name in chosen.split(",")}


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


def _hosts(address: str | None, bind_addresses: Sequence[str]) -> frozenset[str]:
    """Return the names that the Host header may have, in small letters."""
    names = {address, *bind_addresses}
    if not all(map(_is_loopback, bind_addresses)):
        names |= {socket.gethostname(), socket.getfqdn()}
    return frozenset(name.lower() for name in names if name)


def _rest_bind_address(configuration: Configuration) -> BindAddress:
    """Return the ports of `rest.bind-port`; else that of `rest.port`; else the default and the ones above it."""
    address = configuration.get(option_table.REST_BIND_ADDRESS) or _LOOPBACK
    address_key = option_table.REST_BIND_ADDRESS.key
    given, key = configuration.get(option_table.REST_BIND_PORT), option_table.REST_BIND_PORT.key
    if given is not None:
        return BindAddress(address, _ports(given, key), address_key, key)
    first, key = configuration.get(option_table.REST_PORT), option_table.REST_PORT.key
    ports = (first,) if configuration.contains_key(key) else tuple(range(first, first + _NEXT_PORTS + 1))
    return BindAddress(address, ports, address_key, key)


def _metrics_bind_address(configuration: Configuration) -> BindAddress | None:
    if not metrics_are_wanted(configuration):
        return None
    given = configuration.get(option_table.PROMETHEUS_PORT) or _PROMETHEUS_PORT
    address = configuration.get(option_table.PROMETHEUS_HOST) or configuration.get(option_table.REST_BIND_ADDRESS)
    key = option_table.PROMETHEUS_PORT.key
    return BindAddress(address or _LOOPBACK, _ports(given, key), option_table.PROMETHEUS_HOST.key, key)


def _ports(given: str, key: str) -> tuple[int, ...]:
    ports: list[int] = []
    for part in given.replace(" ", "").split(","):
        low, _, high = part.partition("-")
        ports += range(int(low), int(high or low) + 1)
    if not ports or not all(0 <= port <= 65535 for port in ports):
        raise ConfigurationError(key, given, "it has to name ports up to 65535")
    return tuple(ports)
