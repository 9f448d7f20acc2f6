"""The driver's other threads: one for epochs, one that starts others, and short-lived ones for all other work."""

from __future__ import annotations

import contextvars
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


#: Work that still runs at the end of a job gets this time.
_PATIENCE_S: Final = 10.0


class BackgroundExecutor(Protocol):
    """Runs work beside the main loop; the work handles its own errors."""

    def run(self, work: Callable[[], None]) -> None:
        """Run work that may take long."""
        ...

    def run_epoch(self, work: Callable[[], None]) -> None:
        """Run an epoch; all epochs run on one thread, because Spark keeps properties and a connection per thread."""
        ...

    def later(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Run work after a delay."""
        ...

    def close(self, *, wait: bool) -> None:
        """Accept no more work.

        Args:
            wait: Whether to wait some seconds for running work, such as deletions at the end of a job.
        """
        ...


class BackgroundThreads:
    """Real threads, which are daemons, so that the end of a program does not wait for a hanging commit.

    Args:
        name: A part of the threads' names.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._epochs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._timers: set[threading.Timer] = set()
        self._running: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._closed = False
        #: Threads to be started: `Thread.start` waits until they have begun, and the main loop must not.
        self._starts: SimpleQueue[threading.Thread | None] = SimpleQueue()
        self._starter = self._thread(self._start_threads, "starter")
        self._starter.start()
        self._thread(self._run_epochs, "epochs").start()

    def run(self, work: Callable[[], None]) -> None:
        """Run work on a thread of its own, in the context of this call."""
        context = contextvars.copy_context()

        def body() -> None:
            try:
                context.run(work)
            finally:
                with self._lock:
                    self._running.discard(thread)

        thread = self._thread(body, "background")
        with self._lock:
            self._running.add(thread)
            if not self._closed:
                self._starts.put(thread)
                return
        thread.start()

    def run_epoch(self, work: Callable[[], None]) -> None:
        """Run work on the thread of the epochs."""
        self._epochs.put(work)

    def later(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Run work on a thread of its own after a delay, in the context of this call."""
        context = contextvars.copy_context()

        def ring() -> None:
            with self._lock:
                self._timers.discard(timer)
            context.run(work)

        timer = threading.Timer(delay_ms / 1000, ring)
        timer.daemon = True
        timer.name = f"{self._name}-timer"
        with self._lock:
            if self._closed:
                return
            self._timers.add(timer)
            self._starts.put(timer)

    def close(self, *, wait: bool) -> None:
        """Accept no more work, and wait some seconds for running work."""
        with self._lock:
            self._closed = True
            timers, running = list(self._timers), list(self._running)
            self._starts.put(None)
        for timer in timers:
            timer.cancel()
        self._epochs.put(None)
        last = time.monotonic() + _PATIENCE_S
        for thread in [self._starter, *running] if wait else ():
            if thread.is_alive():  # and not yet to be started, if the system took all that time
                thread.join(max(0.0, last - time.monotonic()))

    def _start_threads(self) -> None:
        while (thread := self._starts.get()) is not None:
            thread.start()

    def _run_epochs(self) -> None:
        while (work := self._epochs.get()) is not None:
            work()

    def _thread(self, work: Callable[[], None], kind: str) -> threading.Thread:
        return threading.Thread(target=work, name=f"{self._name}-{kind}", daemon=True)
