"""The event loop of a worker: one thread of its own, on which the coroutines of all async functions run.

It begins with the first call, in the process that makes it, and lasts as long as the process: calls go on between two
epochs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from queue import Empty
from typing import TYPE_CHECKING, Any

from penstock._engine.protocol.clocks import passed_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from queue import SimpleQueue


class WorkerLoop:
    """Runs callbacks and coroutines on the loop; its methods may be called on any other thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def now_ms(self) -> float:
        """Return the time by which waiting is measured."""
        return passed_ms()

    def run(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a callback on the loop, soon."""
        self._running().call_soon_threadsafe(callback, *arguments)

    def complete(self, coroutine: Coroutine[Any, Any, None], limit_ms: float) -> None:
        """Run a coroutine on the loop and wait for its end, at most for some milliseconds."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._running())
        with contextlib.suppress(TimeoutError):
            future.result(limit_ms / 1000)

    def wait(self, answers: SimpleQueue[Any], limit_ms: float) -> Any:
        """Return the next item of a queue that callbacks fill; None when there was none for some milliseconds."""
        try:
            return answers.get(timeout=limit_ms / 1000)
        except Empty:
            return None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():  # a forked process has no threads
                self._process, self._loop = os.getpid(), asyncio.new_event_loop()
                threading.Thread(target=_run, args=(self._loop,), name="penstock-async", daemon=True).start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


WORKER_LOOP = WorkerLoop()
