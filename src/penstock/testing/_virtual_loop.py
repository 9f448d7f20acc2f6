"""An event loop whose time a test moves: coroutines sleep and time out in no time, always in the same order."""

from __future__ import annotations

import asyncio
from queue import Empty
from typing import TYPE_CHECKING, Any

from penstock._engine.operators.async_functions.event_loop import WorkerLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from queue import SimpleQueue


class VirtualLoop(WorkerLoop):
    """Takes the place of a worker's loop; it runs when its time moves, or when an operator waits."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._events: Any = asyncio.SelectorEventLoop()
        self._events.time = lambda: self._now_s

    def begin_use(self) -> None:
        """The test ends it."""

    def end_use(self) -> None:
        """The test ends it."""

    def now_ms(self) -> float:
        return self._now_s * 1000

    def run(self, callback: Callable[..., object], *arguments: Any) -> None:
        self._events.call_soon(callback, *arguments)
        self._turn()

    def complete(self, coroutine: Coroutine[Any, Any, None], limit_ms: float) -> None:
        self._events.run_until_complete(coroutine)

    def wait(self, answers: SimpleQueue[Any], limit_ms: float) -> Any:
        until_s = self._now_s + limit_ms / 1000
        while True:
            self._turn()
            try:
                return answers.get_nowait()
            except Empty:
                if self._now_s >= until_s:
                    return None
                self._now_s = min([until_s, *self._timers()])

    def pass_ms(self, by_ms: float) -> None:
        """Let some time pass."""
        until_s = self._now_s + by_ms / 1000
        self._turn()
        while timers := [when for when in self._timers() if when <= until_s]:
            self._now_s = max(self._now_s, min(timers))
            self._turn()
        self._now_s = until_s
        self._turn()

    def close(self) -> None:
        """End the loop, with all that still runs on it."""
        for task in asyncio.all_tasks(self._events):
            task.cancel()
        self._turn()
        self._events.close()

    def _timers(self) -> list[float]:
        return [handle.when() for handle in self._events._scheduled if not handle.cancelled()]

    def _turn(self) -> None:
        """Run what can run now."""
        while True:
            self._events.call_soon(self._events.stop)
            self._events.run_forever()
            due = any(when <= self._now_s for when in self._timers())
            if not self._events._ready and not due:
                return
