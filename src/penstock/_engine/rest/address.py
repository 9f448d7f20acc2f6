"""Finding a port that is free."""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import TYPE_CHECKING

from penstock.common import option_table
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock._engine.rest.settings import RestSettings

_BACKLOG = 256


def listen(settings: RestSettings) -> socket.socket:
    """Return a socket that listens on the first free port.

    Raises:
        ConfigurationError: None is free, or the address is not one of this machine.
    """
    why = "there are no ports"
    for port in settings.ports:
        try:
            return _listening(settings.bind_address, port)
        except socket.gaierror as error:
            reason = f"it is not an address: {error.strerror}"
            raise ConfigurationError(option_table.REST_BIND_ADDRESS.key, settings.bind_address, reason) from None
        except OSError as error:
            why = error.strerror or str(error)
    ports = f"{settings.ports[0]}-{settings.ports[-1]}"
    reason = f"none of them can be listened on at {settings.bind_address} ({why})"
    raise ConfigurationError(option_table.REST_BIND_PORT.key, ports, reason)


def _listening(address: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
    with contextlib.ExitStack() as undo:
        # Only where the protocol is named does asyncio switch Nagle's algorithm off, which holds an answer's body back
        # until the client has acknowledged the head: after 40 ms.
        found = undo.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
        if sys.platform != "win32":  # a port of a server that has just ended is free again at once
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
        found.listen(_BACKLOG)
        undo.pop_all()
        return found
