"""Clients that mean harm, each a thread of the process that attacks; what a server did to them is counted."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from tests.hostile.hostile_requests import Hostile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A server that has neither answered nor closed the connection by then hangs.
PATIENCE_S: Final = 20
FLOOD_THREADS: Final = 16
SLOW_CLIENTS: Final = 300
BODY_BYTES: Final = 100 << 20
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


@dataclass
class Seen:
    """What came of it; each thread adds to it."""

    #: By status code; 0 stands for a connection that was closed without an answer.
    answers: Counter[int] = field(default_factory=Counter[int])
    #: What was sent where the server broke, or never answered.
    broken: list[bytes] = field(default_factory=list[bytes])
    #: Seconds that each request of a good client took.
    good: list[float] = field(default_factory=list[float])
    connections: int = 0


class Attack:
    """All of them at once, as long as the ``with`` lasts.

    Args:
        address: The server, "host:port".
        job_id: A job that it has.
        rate: Malformed requests a second.
        seed: Of what they are.
    """

    def __init__(self, address: str, job_id: str, rate: int, seed: int) -> None:
        host, port = address.rsplit(":", 1)
        self._address = host, int(port)
        self._job_id, self._rate, self._seed = job_id, rate, seed
        self._over = threading.Event()
        self._lock = threading.Lock()
        floods = [lambda number=number: self._flood(number) for number in range(FLOOD_THREADS)]
        others = (self._trickle, self._large_body, self._large_chunks, self._good_client)
        self._threads = [threading.Thread(target=self._attack, args=(each,)) for each in (*floods, *others)]
        self._errors: list[BaseException] = []
        self.seen = Seen()

    def __enter__(self) -> Self:
        self._start = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _attack(self, client: Callable[[], None]) -> None:
        try:
            client()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread of the test
            self._errors.append(error)

    def _connection(self) -> socket.socket:
        return socket.create_connection(self._address, timeout=PATIENCE_S)

    def _flood(self, number: int) -> None:
        hostile = Hostile(self._seed + number, self._job_id)
        turn = self._start + number / self._rate
        while not self._over.wait(max(0.0, turn - time.monotonic())):
            turn += FLOOD_THREADS / self._rate
            request = hostile.next()
            self._note(request, self._answer(lambda connection, sent=request: connection.sendall(sent)))

    def _answer(self, send: Callable[[socket.socket], object]) -> bytes | None:
        """Send something and return what came back until the server closed; None where it did not."""
        parts: list[bytes] = []
        with self._connection() as connection:
            try:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    send(connection)
                while part := connection.recv(1 << 16):
                    parts.append(part)
            except ConnectionResetError:
                pass
            except TimeoutError:
                return None
        return b"".join(parts)

    def _note(self, request: bytes, answer: bytes | None) -> None:
        codes = [int(code) for code in _STATUS.findall(answer or b"")]
        with self._lock:
            self.seen.connections += 1
            self.seen.answers.update(codes or [0])
            if answer is None or any(code >= 500 for code in codes):
                self.seen.broken.append(request[:300])

    def _trickle(self) -> None:
        """Keep many connections open: some say nothing, some say what they want byte by byte."""
        head = f"GET /jobs/overview HTTP/1.1\r\nHost: localhost\r\nX: {'x' * 10_000}".encode()
        with contextlib.ExitStack() as undo:
            open_ones: list[tuple[socket.socket, Iterator[int]]] = []
            while not self._over.wait(0.2):
                for connection, rest in list(open_ones):
                    try:
                        if len(open_ones) % 2:
                            connection.send(bytes([next(rest)]))
                        connection.settimeout(0)
                        closed = connection.recv(100) == b""
                    except BlockingIOError:
                        closed = False
                    except OSError:
                        closed = True
                    if closed:
                        connection.close()
                        open_ones.remove((connection, rest))
                missing = range(min(20, SLOW_CLIENTS - len(open_ones)))
                open_ones += [(undo.enter_context(self._connection()), iter(head)) for _ in missing]

    def _large_body(self) -> None:
        head = f"POST /jobs/{self._job_id}/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
        self._send_forever(head.encode(), b" " * (1 << 16))

    def _large_chunks(self) -> None:
        head = f"POST /jobs/{self._job_id}/stop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._send_forever(head.encode(), b"10000\r\n" + b" " * (1 << 16) + b"\r\n")

    def _send_forever(self, head: bytes, part: bytes) -> None:
        def send(connection: socket.socket) -> None:
            connection.sendall(head)
            for _ in range(BODY_BYTES // (1 << 16)):
                connection.sendall(part)

        while not self._over.wait(0.5):
            self._note(head, self._answer(send))

    def _good_client(self) -> None:
        """Ask as anybody might, each time anew, and be answered."""
        request = b"GET /v1/jobs/overview HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        while not self._over.wait(0.25):
            begin = time.monotonic()
            answer = self._answer(lambda connection: connection.sendall(request))
            self.seen.good.append(time.monotonic() - begin)
            assert answer is not None
            jobs = json.loads(answer.partition(b"\r\n\r\n")[2])["jobs"]
            assert [(job["jid"], job["state"]) for job in jobs] == [(self._job_id, "RUNNING")]
