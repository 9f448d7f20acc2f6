"""A worker's connection to the driver while epochs run, see `protocol.epoch_signals`.

No message is waited for unless the epoch is void.
"""

from __future__ import annotations

import socket
import time
from hmac import compare_digest
from typing import Final

from penstock._engine.protocol.epoch_signals import ENDS, FAILS, KNOWS, SIGNAL_BYTES, WANTS, new_nonce, signal
from penstock._engine.runtime.flow import Pace

#: Seconds between two looks at the connection.
_LOOK_S: Final = 0.01
#: Seconds until a worker that has lost the driver, or could not reach it, tries again.
_AGAIN_S: Final = 10.0
#: Seconds for which a task whose function has failed waits for the driver at most.
_FAILURE_S: Final = 1.0


class DriverLink:
    """A worker's end of the connection; where the driver does not answer, epochs have their usual length.

    Args:
        address: Host and port of the driver.
        key: A secret of the run.
    """

    def __init__(self, address: str, key: bytes) -> None:
        host, _, port = address.rpartition(":")
        self._address, self._key = (host, int(port)), key
        self._socket: socket.socket | None = None
        self._failed_at: float | None = None
        self._pace = Pace(_LOOK_S)
        #: The epoch; whether the driver was told that something waits for its end, and has said that it ends.
        self._epoch, self._has_asked, self._is_over = "", False, False
        self.close()

    def begin(self, epoch: str) -> None:
        """Turn to an epoch, of which this may be another task, and connect if there is no connection."""
        if epoch != self._epoch:
            self._epoch, self._has_asked, self._is_over = epoch, False, False
        if self._socket is None and (self._failed_at is None or time.monotonic() - self._failed_at >= _AGAIN_S):
            try:
                family, kind, protocol, _, place = socket.getaddrinfo(*self._address, type=socket.SOCK_STREAM)[0]
                self._socket = socket.socket(family, kind, protocol)
                self._socket.setblocking(False)
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                self._socket.connect(place)
            except BlockingIOError:
                pass
            except OSError:
                self._lose()

    def ends(self, *, wants: bool) -> bool:
        """Tell whether the epoch is to end now.

        Args:
            wants: Whether something waits for the end of the epoch, which is told once.
        """
        if not self._is_over and self._socket is not None and (self._pace.is_due() or (wants and not self._has_asked)):
            try:
                self._look(self._socket, wants=wants)
            except BlockingIOError:
                pass
            except OSError:
                self._lose()
        return self._is_over

    def fails(self) -> None:
        """Tell the driver that the epoch is void; a worker may be about to connect for this, and waits for that."""
        if self._socket is None:
            return
        try:
            self._socket.settimeout(_FAILURE_S)
            self._socket.sendall(signal(FAILS, self._epoch, self._introduced(self._socket), self._key))
            self._socket.setblocking(False)
        except OSError:
            self._lose()

    def _look(self, connection: socket.socket, *, wants: bool) -> None:
        theirs = self._introduced(connection)
        if wants and not self._has_asked:
            connection.sendall(signal(WANTS, self._epoch, theirs, self._key))
            self._has_asked = True
        expected = signal(ENDS, self._epoch, self._ours, self._key)
        while not self._is_over:  # what is of an earlier epoch does not count any more
            self._is_over = compare_digest(self._read(connection), expected)

    def _introduced(self, connection: socket.socket) -> bytes:
        """Return the number that the driver has made up, once it has been shown that this worker knows the key."""
        if self._theirs is None:
            self._theirs = self._read(connection)
            connection.sendall(self._ours + signal(KNOWS, "", self._theirs, self._key))
        return self._theirs

    def _read(self, connection: socket.socket) -> bytes:
        """Return the next message.

        Raises:
            BlockingIOError: It is not there yet.
            OSError: The connection has ended.
        """
        while len(self._seen) < SIGNAL_BYTES:
            found = connection.recv(SIGNAL_BYTES - len(self._seen))
            if not found:
                raise ConnectionResetError
            self._seen += found
        message, self._seen = self._seen, b""
        return message

    def _lose(self) -> None:
        self.close()
        self._failed_at = time.monotonic()

    def close(self) -> None:
        """Close the connection; the next epoch opens another one."""
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()
        self._ours, self._theirs, self._seen = new_nonce(), None, b""
