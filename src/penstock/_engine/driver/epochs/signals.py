"""Ends a running epoch early, for what waits for its end: a request, a failure, a split, a reader's event.

Each worker that reads, or has failed, has a connection (`protocol.epoch_signals`). What readers and enumerators want
ends an epoch when it has lasted for some time, because each epoch has its price; a request ends it at once, and so does
a function that fails, because the epoch is void then.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Final

from penstock._engine.protocol.epoch_signals import ENDS, FAILS, KNOWS, SIGNAL_BYTES, WANTS, new_nonce, signal

#: Each connection is a descriptor of the driver, which often has 1,024. A worker beyond these is sent away, and what it
#: reads for an epoch is not cut short.
_MOST_WORKERS: Final = 512
#: Seconds after which a connection that has not shown that it knows the secret makes room for another one.
_STRANGE_S: Final = 10.0
#: Seconds to wait where no connection can be taken: the process has no descriptor left.
_FULL_S: Final = 0.1

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Worker:
    """A connection; `theirs` is the number that the other side has made up, once it has shown that it knows the key."""

    connection: socket.socket
    ours: bytes = field(default_factory=new_nonce)
    theirs: bytes | None = None
    seen: bytes = b""
    since_s: float = field(default_factory=time.monotonic)


class EpochSignals:
    """The driver's end of the connections of a run.

    Args:
        listener: Listens for workers.
        host: The address of this host at which workers reach it.
        key: A secret of the run.
    """

    def __init__(self, listener: socket.socket, host: str, key: bytes) -> None:
        self._listener, self._key = listener, key
        #: Host and port, for the workers.
        self.address = f"{host.strip('[]')}:{listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._workers: set[_Worker] = set()
        self._strangers: list[_Worker] = []
        #: The running epoch, "" if none runs; whether workers know that it ends; whether something waits for its end.
        self._epoch, self._ended, self._wanted = "", False, False
        #: When it may end for what is wanted.
        self._due_s = 0.0
        self._closed = False
        self._woken, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._selector = selectors.DefaultSelector()
        threading.Thread(target=self._serve, name="penstock-epoch-signals", daemon=True).start()

    # ------------------------------------------------------------------------------------------- what the driver calls

    def begin(self, epoch: str, least_ms: float = 0) -> None:
        """Note that an epoch begins.

        Args:
            epoch: Its name.
            least_ms: How long it lasts at least unless a request or a failure ends it.
        """
        with self._lock:
            self._epoch, self._ended, self._wanted = epoch, False, False
            self._due_s = time.monotonic() + least_ms / 1_000

    def over(self) -> None:
        """Note that no epoch runs."""
        self.begin("")

    def end(self) -> None:
        """End the running epoch now."""
        with self._lock:
            self._end()

    def want(self) -> None:
        """End the running epoch as soon as it has lasted long enough."""
        with self._lock:
            self._wanted = bool(self._epoch)
        self._wake_up()

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        self._wake_up()

    def _end(self) -> None:
        if not self._epoch or self._ended:
            return
        self._ended = True
        for worker in self._workers:
            self._tell(worker)

    def _tell(self, worker: _Worker) -> None:
        assert worker.theirs is not None
        with contextlib.suppress(OSError):  # one that is gone is noticed when it is read
            worker.connection.send(signal(ENDS, self._epoch, worker.theirs, self._key))

    # --------------------------------------------------------------------------------------------- what the thread does

    def _wake_up(self) -> None:
        with contextlib.suppress(OSError):
            self._wake.send(b"w")

    def _serve(self) -> None:
        self._listener.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        while not self._closed:
            for key, _ in self._selector.select(self._end_if_due()):
                if key.fileobj is self._woken:
                    self._woken.recv(4096)
                elif key.data is None:
                    self._accept()
                elif not self._read(key.data):
                    self._drop(key.data)
        self._selector.close()
        for worker in (*self._workers, *self._strangers):
            worker.connection.close()
        for own in (self._listener, self._woken, self._wake):
            own.close()

    def _end_if_due(self) -> float | None:
        """End the epoch if something waits for its end and it has lasted long enough.

        Returns:
            The seconds until it has; None if there is nothing to wait for.
        """
        with self._lock:
            if not self._wanted or self._ended:
                return None
            left_s = self._due_s - time.monotonic()
            if left_s > 0:
                return left_s
            self._end()
            return None

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:
            time.sleep(_FULL_S)
            return
        worker = _Worker(connection)
        connection.setblocking(False)
        if len(self._workers) + len(self._strangers) >= _MOST_WORKERS:
            if not self._strangers or worker.since_s - self._strangers[0].since_s < _STRANGE_S:
                connection.close()
                return
            self._drop(self._strangers[0])
        self._strangers.append(worker)
        self._selector.register(connection, selectors.EVENT_READ, worker)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.send(worker.ours)

    def _read(self, worker: _Worker) -> bool:
        """Read from a connection, and return whether it stays open."""
        try:
            found = worker.connection.recv(2 * SIGNAL_BYTES - len(worker.seen))
        except BlockingIOError:
            return True
        except OSError:
            return False
        worker.seen += found
        if worker.theirs is None:
            return bool(found) and self._introduced(worker)
        with self._lock:
            wants, fails = (signal(kind, self._epoch, worker.ours, self._key) for kind in (WANTS, FAILS))
            while len(worker.seen) >= SIGNAL_BYTES:
                message, worker.seen = worker.seen[:SIGNAL_BYTES], worker.seen[SIGNAL_BYTES:]
                self._wanted = self._wanted or (bool(self._epoch) and compare_digest(message, wants))
                if compare_digest(message, fails):
                    self._end()
        return bool(found)

    def _introduced(self, worker: _Worker) -> bool:
        """Accept a worker that has shown that it knows the key, and return whether its connection stays open."""
        if len(worker.seen) < 2 * SIGNAL_BYTES:
            return True
        theirs, shown = worker.seen[:SIGNAL_BYTES], worker.seen[SIGNAL_BYTES:]
        if not compare_digest(shown, signal(KNOWS, "", worker.ours, self._key)):
            return False
        worker.theirs, worker.seen = theirs, b""
        self._strangers.remove(worker)
        with self._lock:
            self._workers.add(worker)
            if self._ended:
                self._tell(worker)
        return True

    def _drop(self, worker: _Worker) -> None:
        if worker.connection.fileno() < 0:  # it has made room for another one
            return
        self._selector.unregister(worker.connection)
        with self._lock:
            self._workers.discard(worker)
        worker.connection.close()  # no other thread tells it anything any more
        if worker in self._strangers:
            self._strangers.remove(worker)


def listen(host: str, bind: str, key: bytes) -> EpochSignals | None:
    """Listen for the workers of a run; None where that cannot be done, so that epochs have their usual length.

    Args:
        host: The address of this host at which workers reach the driver; "" where they do not.
        bind: The address to listen at.
        key: A secret of the run.
    """
    if not host:
        return None
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    both = bind.strip("[]") == "::" and socket.has_dualstack_ipv6()
    try:
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(
                socket.create_server((bind.strip("[]"), 0), family=family, dualstack_ipv6=both)
            )
            signals = EpochSignals(listener, host, key)
            stack.pop_all()
    except OSError as error:
        _log.info("Requests and splits wait for the end of an epoch, as no port can be had at %s: %s", bind, error)
        return None
    return signals
