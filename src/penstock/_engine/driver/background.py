"""The driver's other threads: one for epochs, short-lived ones for all else."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Background(Protocol):
    """Runs work beside the main loop; work takes care of its own errors."""

    def run(self, work: Callable[[], None]) -> None:
        """Run something that may take its time."""
        ...

    def run_epoch(self, work: Callable[[], None]) -> None:
        """Run an epoch; all of them run on one thread, because Spark keeps properties and a connection for each."""
        ...

    def later(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Run something after a time."""
        ...

    def close(self) -> None:
        """Take no more work, and do not wait for what runs."""
        ...


class Threads:
    """Real threads. They are daemons: a program that ends does not wait for a commit that hangs.

    Args:
        name: Stands in the threads' names.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._epochs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._timers: set[threading.Timer] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._start(self._run_epochs, "epochs")

    def run(self, work: Callable[[], None]) -> None:
        """Run something on a thread of its own."""
        self._start(work, "background")

    def run_epoch(self, work: Callable[[], None]) -> None:
        """Run something on the thread of the epochs."""
        self._epochs.put(work)

    def later(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Run something on a thread of its own after a time."""

        def ring() -> None:
            with self._lock:
                self._timers.discard(timer)
            work()

        timer = threading.Timer(delay_ms / 1000, ring)
        timer.daemon = True
        timer.name = f"{self._name}-timer"
        with self._lock:
            if self._closed:
                return
            self._timers.add(timer)
        timer.start()

    def close(self) -> None:
        """Take no more work, and do not wait for what runs."""
        with self._lock:
            self._closed = True
            timers = list(self._timers)
        for timer in timers:
            timer.cancel()
        self._epochs.put(None)

    def _run_epochs(self) -> None:
        while (work := self._epochs.get()) is not None:
            work()

    def _start(self, work: Callable[[], None], kind: str) -> None:
        threading.Thread(target=work, name=f"{self._name}-{kind}", daemon=True).start()
