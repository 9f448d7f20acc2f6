"""Clients that mean harm, in a process of their own; what they sent and what a server did about it is counted.

Usage: python -m tests.hostile.attack HOST:PORT JOB_ID RATE REQUESTS SEED; prints what came of it as a line of JSON.

It lasts until its standard input ends and so many requests were sent, however slow the machine is. It attacks this
machine alone, with so many threads and connections as stand below, and ends by itself.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import signal
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.hostile.hostile_requests import Hostile, Shot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A server that has neither answered nor closed the connection by then hangs.
PATIENCE_S: Final = 20
#: Threads that send on connections that are kept, on new ones, and the share of requests that the former send.
KEPT_THREADS: Final = 32
FRESH_THREADS: Final = 12
KEPT_SHARE: Final = 0.6
SLOW_CLIENTS: Final = 300
BODY_BYTES: Final = 100 << 20
#: The limits of an attack: its duration, and its requests per second.
MOST_SECONDS: Final = 120
MOST_RATE: Final = 2_000
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_CLOSES = re.compile(rb"(?i)\r\nconnection: *close")


@dataclass
class Seen:
    """What came of it; each thread adds to it."""

    #: Requests by kind.
    sent: Counter[str] = field(default_factory=Counter[str])
    #: By kind and status code; 0 stands for a connection that was closed without an answer.
    answers: dict[str, Counter[int]] = field(default_factory=dict[str, Counter[int]])
    #: What was sent where the server broke, or never answered.
    broken: list[str] = field(default_factory=list[str])
    connections: int = 0
    #: How long it lasted, and the processor time of this process.
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Attack:
    """All of them at once.

    Args:
        address: The server, "host:port".
        job_id: A job that it has.
        rate: Requests a second.
        seed: Of what they are.
    """

    def __init__(self, address: str, job_id: str, rate: float, seed: int) -> None:
        host, port = address.rsplit(":", 1)
        assert ipaddress.ip_address(host).is_loopback, "this machine alone is attacked"
        self._address = host, int(port)
        self._job_id, self._rate, self._seed = job_id, min(rate, MOST_RATE), seed
        self._over = threading.Event()
        self._lock = threading.Lock()
        kept = [lambda number=number: self._flood_kept(number) for number in range(KEPT_THREADS)]
        fresh = [lambda number=number: self._flood_fresh(number) for number in range(FRESH_THREADS)]
        others = (self._trickle, self._large_body, self._large_chunks)
        self._threads = [threading.Thread(target=self._attack, args=(each,)) for each in (*kept, *fresh, *others)]
        self._errors: list[BaseException] = []
        self.seen = Seen()

    def run(self, requests: int, is_enough: threading.Event) -> Seen:
        """Attack until it is enough and so many requests were sent."""
        self._start = time.monotonic()
        for thread in self._threads:
            thread.start()
        is_enough.wait(MOST_SECONDS)
        while self._sent() < requests and time.monotonic() < self._start + MOST_SECONDS and not self._over.wait(0.1):
            pass
        self._over.set()
        self.seen.seconds = time.monotonic() - self._start
        self.seen.cpu_seconds = time.process_time()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]
        return self.seen

    def _sent(self) -> int:
        with self._lock:
            return sum(self.seen.sent.values())

    def _attack(self, client: Callable[[], None]) -> None:
        try:
            client()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that runs them
            self._errors.append(error)
            self._over.set()

    def _connection(self) -> socket.socket:
        return socket.create_connection(self._address, timeout=PATIENCE_S)

    def _turns(self, number: int, threads: int, share: float) -> Iterator[Callable[[Shot], None]]:
        """Wait for one turn after the other; what a turn is given says how long the next one has to wait."""
        a_second = self._rate * share / threads
        turn = self._start + number / threads / a_second

        def sent(shot: Shot) -> None:
            nonlocal turn
            turn += shot.requests / a_second

        while not self._over.wait(max(0.0, turn - time.monotonic())):
            yield sent

    def _flood_kept(self, number: int) -> None:
        """Send one request after the other on one connection, and read each answer."""
        hostile, connection = Hostile(self._seed + number, self._job_id), None
        for sent in self._turns(number, KEPT_THREADS, KEPT_SHARE):
            shot = hostile.kept()
            sent(shot)
            if connection is None:
                connection = self._connection()
                self._count_connection()
            answer = _one_answer(connection, shot.data)
            self._note(shot, answer)
            if not answer or _CLOSES.search(answer):
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _flood_fresh(self, number: int) -> None:
        """Send on connections that the server is to close."""
        hostile = Hostile(self._seed - 1 - number, self._job_id)
        for sent in self._turns(number, FRESH_THREADS, 1 - KEPT_SHARE):
            shot = hostile.alone()
            sent(shot)

            def send(connection: socket.socket, shot: Shot = shot) -> None:
                connection.sendall(shot.data)
                if shot.ends:
                    connection.shutdown(socket.SHUT_WR)

            self._note(shot, self._answers(send))

    def _answers(self, send: Callable[[socket.socket], object]) -> bytes | None:
        """Send something and return what came back until the server closed; None where it did not."""
        parts: list[bytes] = []
        with self._connection() as connection:
            self._count_connection()
            try:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    send(connection)
                while part := connection.recv(1 << 16):
                    parts.append(part)
            except OSError as error:
                if isinstance(error, TimeoutError):
                    return None
        return b"".join(parts)

    def _count_connection(self) -> None:
        with self._lock:
            self.seen.connections += 1

    def _note(self, shot: Shot, answer: bytes | None) -> None:
        codes = [int(code) for code in _STATUS.findall(answer or b"")]
        with self._lock:
            self.seen.sent[shot.kind] += shot.requests
            self.seen.answers.setdefault(shot.kind, Counter()).update(codes or [0])
            if answer is None or any(code >= 500 for code in codes):
                self.seen.broken.append(repr(shot.data[:300]))

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
        self._send_forever(Shot("100 MB", head.encode()), b" " * (1 << 16))

    def _large_chunks(self) -> None:
        head = f"POST /jobs/{self._job_id}/stop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._send_forever(Shot("100 MB in chunks", head.encode()), b"10000\r\n" + b" " * (1 << 16) + b"\r\n")

    def _send_forever(self, shot: Shot, part: bytes) -> None:
        def send(connection: socket.socket) -> None:
            connection.sendall(shot.data)
            for _ in range(BODY_BYTES // (1 << 16)):
                connection.sendall(part)

        while not self._over.wait(0.5):
            self._note(shot, self._answers(send))


def _one_answer(connection: socket.socket, request: bytes) -> bytes | None:
    """Send a request and return its answer, empty where the server closed, None where it does not answer."""
    answer = b""
    try:
        connection.sendall(request)
        while not _is_whole(answer) and (part := connection.recv(1 << 16)):
            answer += part
    except TimeoutError:
        return None
    except OSError:  # the server has refused the request and closed before it had read all of it
        return answer
    return answer


def _is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return bool(end) and length is not None and len(body) >= int(length.group(1))


def main(address: str, job_id: str, rate: str, requests: str, seed: str) -> None:
    signal.alarm(MOST_SECONDS + 3 * PATIENCE_S)  # it ends, whatever happens
    is_enough = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_enough.set()), daemon=True).start()
    print(json.dumps(vars(Attack(address, job_id, float(rate), int(seed)).run(int(requests), is_enough))))


if __name__ == "__main__":
    main(*sys.argv[1:])
