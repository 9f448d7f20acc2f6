"""Finds a free port."""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import TYPE_CHECKING

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock._engine.rest.settings import BindAddress

_BACKLOG = 256


def listen(bind_address: BindAddress) -> socket.socket:
    """Return a socket that listens on the first free port.

    Raises:
        ConfigurationError: None is free, or the address is not one of this machine.
    """
    why = "there are no ports"
    for port in bind_address.ports:
        try:
            return _listening(bind_address.address, port)
        except socket.gaierror as error:
            reason = f"it is not an address: {error.strerror}"
            raise ConfigurationError(bind_address.address_key, bind_address.address, reason) from None
        except OSError as error:
            why = error.strerror or str(error)
    is_one = len(bind_address.ports) == 1
    ports = str(bind_address.ports[0]) if is_one else f"{bind_address.ports[0]}-{bind_address.ports[-1]}"
    nothing = "it cannot" if is_one else "none of them can"
    way_out = "free it, set another, or leave the key out to have any port that is free"
    raise ConfigurationError(
        bind_address.ports_key, ports, f"{nothing} be listened on at {bind_address.address} ({why}); {way_out}"
    )


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
