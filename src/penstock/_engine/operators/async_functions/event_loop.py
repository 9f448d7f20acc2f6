"""The event loop of a worker: a thread that runs the coroutines of all async functions.

It runs as long as operators use it. Operators are kept between epochs, so their calls continue between epochs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from queue import Empty
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.protocol.clocks import passed_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from queue import SimpleQueue

#: The longest wait for the end of the loop, which a blocking coroutine delays.
_END_S: Final = 1.0


class WorkerLoop:
    """Runs callbacks and coroutines on the loop; its methods may be called on any other thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        self._users = 0

    def now_ms(self) -> float:
        """Return the time of the loop's monotonic clock."""
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
        """Wait for the next item of a queue that callbacks fill; return None after a timeout in milliseconds."""
        try:
            return answers.get(timeout=limit_ms / 1000)
        except Empty:
            return None

    def begin_use(self) -> None:
        """Note one more user, which has to end its use."""
        with self._lock:
            if self._process != os.getpid():  # a forked process has no threads
                self._process, self._users, self._loop = os.getpid(), 0, None
            self._users += 1

    def end_use(self) -> None:
        """Note the end of a user and of its calls; the last user ends the loop."""
        with self._lock:
            self._users -= 1
            if self._users or self._loop is None or self._thread is None or self._process != os.getpid():
                return
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_END_S)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="penstock-async", daemon=True)
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


WORKER_LOOP = WorkerLoop()
