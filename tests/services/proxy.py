"""A TCP proxy in front of a server, that refuses requests, and loses, tears or holds back answers as it is told."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_ANSWER_BYTES = 65_536
#: What a proxy of a cloud says when it has lost an answer itself: clients ask again.
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
#: What a server says that has failed, though it may have done what it was asked.
FAILED = UNAVAILABLE.replace(b"503 Service Unavailable", b"500 Internal Server Error")


class Proxy:
    """Passes on what it gets, connection by connection.

    A request that a test singles out reaches the server, which does what it says; in place of the answer the connection
    is cut, or the client gets another answer. A request is told by the beginning of its head, so one connection carries
    one request: the server is told to close it.

    Args:
        port: Of the server, on this machine.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._loses: Callable[[str], bool] = lambda _: False
        self._instead = b""
        self._refuses: Callable[[str], bool] = lambda _: False
        self._tears: Callable[[str], bool] = lambda _: False
        self._holds: Callable[[str], bool] = lambda _: False
        self._held_s = 0.0
        self._closed = threading.Event()
        #: The request lines of which the answer was lost.
        self.lost: list[str] = []
        #: Those that the server has never got.
        self.refused: list[str] = []
        #: Those of which the client got half of the answer.
        self.torn: list[str] = []
        #: Those of which the answer was held back.
        self.held: list[str] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        with contextlib.suppress(OSError):  # some systems refuse it for a listening socket, and wake `accept` anyway
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lose(self, choose: Callable[[str], bool], instead: bytes = b"") -> None:
        """Lose the answers to requests whose head is chosen; the client may get something instead."""
        self._loses, self._instead = choose, instead

    def refuse(self, choose: Callable[[str], bool]) -> None:
        """Answer requests whose head is chosen by 503, and keep them from the server."""
        self._refuses = choose

    def tear(self, choose: Callable[[str], bool]) -> None:
        """Cut the connection in the middle of the answers to requests whose head is chosen."""
        self._tears = choose

    def hold(self, choose: Callable[[str], bool], seconds: float) -> None:
        """Hold back the answers to requests whose head is chosen; the server has long done what they say."""
        self._holds, self._held_s = choose, seconds

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server)) as server, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                if not (data := client.recv(_ANSWER_BYTES)):
                    return
                head += data
            first, _, rest = head.partition(b"\r\n")
            text = head.partition(b"\r\n\r\n")[0].decode("latin-1")
            if self._refuses(text):
                self.refused.append(first.decode())
                client.sendall(UNAVAILABLE)
                client.shutdown(socket.SHUT_WR)
                while client.recv(_ANSWER_BYTES):  # else what it still sends would reset the connection
                    pass
                return
            server.sendall(first + b"\r\nConnection: close\r\n" + rest)
            threading.Thread(target=_pump, args=(client, server), daemon=True).start()
            if self._loses(text):
                while server.recv(_ANSWER_BYTES):  # to its end: then the server has done it
                    pass
                self.lost.append(first.decode())
                client.sendall(self._instead)
            elif self._tears(text):
                self.torn.append(first.decode())
                answer = b"".join(iter(lambda: server.recv(_ANSWER_BYTES), b""))
                client.sendall(answer[: len(answer) - max(1, len(answer.partition(b"\r\n\r\n")[2]) // 2)])
            else:
                if self._holds(text):
                    self.held.append(first.decode())
                    self._closed.wait(self._held_s)
                _pump(server, client)
            client.shutdown(socket.SHUT_RDWR)  # though the other thread still reads from it


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_ANSWER_BYTES):
            target.sendall(data)
