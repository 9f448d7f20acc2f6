"""TLS handshakes, limited in number and duration.

asyncio alone would allow a minute for each handshake, and as many handshakes as the process has descriptors, which its
jobs need.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

TIMEOUT_S: Final = 10.0
#: The maximum number of handshakes at the same time; an honest client needs milliseconds for one.
MAX_HANDSHAKES: Final = 64


class Handshakes:
    """Performs the handshakes of clients, and then passes each connection to another protocol.

    Args:
        context: The server's certificate, and the requirements for clients.
        protocol: Makes the protocol behind TLS.
    """

    def __init__(self, context: ssl.SSLContext, protocol: Callable[..., asyncio.Protocol]) -> None:
        self._context = context
        self._protocol = protocol
        self._waiting: dict[asyncio.Transport, asyncio.Task[None]] = {}

    def __call__(self, **options: object) -> asyncio.Protocol:
        """Return a protocol for a new connection; it takes the options of the protocol behind TLS."""
        return _Handshake(self, self._protocol(**options))

    def begin(self, transport: asyncio.Transport, handshake: _Handshake) -> None:
        """Begin a handshake; if there are too many, close the connection whose handshake began first."""
        transport.pause_reading()  # until TLS reads itself
        if len(self._waiting) >= MAX_HANDSHAKES:
            next(iter(self._waiting)).abort()
        self._waiting[transport] = asyncio.get_running_loop().create_task(self._shake(transport, handshake))

    async def _shake(self, transport: asyncio.Transport, handshake: _Handshake) -> None:
        try:
            with contextlib.suppress(OSError):  # no TLS, or too late: asyncio has closed it
                secured = await asyncio.get_running_loop().start_tls(
                    transport, handshake, self._context, server_side=True, ssl_handshake_timeout=TIMEOUT_S
                )
                if secured is not None:
                    handshake.hand_over(secured)
        finally:
            self._waiting.pop(transport, None)


class _Handshake(asyncio.Protocol):
    """One connection during its handshake; keeps the data that arrives right after it."""

    def __init__(self, all_of_them: Handshakes, protocol: asyncio.Protocol) -> None:
        self._all = all_of_them
        self._protocol = protocol
        self._early = bytearray()
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._all.begin(transport, self)

    def data_received(self, data: bytes) -> None:
        """Keep it for the protocol behind."""
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the data of a closed connection."""
        self._is_lost = True

    def hand_over(self, secured: asyncio.Transport) -> None:
        """Pass the connection to the protocol behind TLS."""
        if self._is_lost:
            return
        secured.set_protocol(self._protocol)
        self._protocol.connection_made(secured)
        if self._early:
            self._protocol.data_received(bytes(self._early))
