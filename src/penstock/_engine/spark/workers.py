"""Spark's Python workers when a job ends, and when they end themselves: the functions that they keep open get closed.

Called by the epoch runner, on the driver and in tasks. Why it takes this: decision 4.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

#: Functions that take longer to close than this are left to the end of their worker.
_PATIENCE_S: Final = 10
#: Each of the last tasks stays until it sees that Spark has started the others, in other workers, or for so long.
_TOGETHER_S: Final = 0.1
_LOOK_S: Final = 0.002

_leave: Final = os._exit
_worker: int | None = None
#: How many modules there were when this worker last put objects out of the collector's sight.
_modules = 0


@contextlib.contextmanager
def closing_tasks(context: Any, run_id: str) -> Generator[None]:
    """Have the Spark job that runs within end when functions take too long to close, wherever they hang."""
    group = f"penstock-release-{run_id}"
    context.setJobGroup(group, "closing functions", interruptOnCancel=False)
    timer = threading.Timer(_PATIENCE_S + 2, context.cancelJobGroup, (group,))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def patience() -> Generator[None]:
    """Interrupt in a task what takes too long to close; what a function does in C is not interrupted."""
    before = signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S, 1)  # later ones have one second each
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _interrupt(*_: Any) -> NoReturn:
    msg = f"functions have {_PATIENCE_S} s to close at the end of a job"
    raise TimeoutError(msg)


@contextlib.contextmanager
def with_others(meeting: Path, place: int, slots: int) -> Generator[None]:
    """Have a task stay until the others of its Spark job have begun, as far as they can be seen from this host.

    Args:
        meeting: A directory of the driver's; on other hosts it is not there.
        place: The number of the task.
        slots: How many there are.
    """
    started = time.monotonic()
    with contextlib.suppress(OSError):
        (meeting / str(place)).touch()
    yield
    while time.monotonic() - started < _TOGETHER_S and not _all_here(meeting, slots):
        time.sleep(_LOOK_S)


def _all_here(meeting: Path, slots: int) -> bool:
    """Tell whether all tasks of a release have begun, as far as they can be seen from this host."""
    try:
        return len(list(meeting.iterdir())) >= slots
    except OSError:
        return False


def close_at_exit() -> None:
    """Have this worker close its functions when Spark lets it go.

    It leaves by ``os._exit`` then, which calls no exit handlers, so this stands in for that name.
    """
    global _worker  # noqa: PLW0603 - a worker is a process
    if _worker != os.getpid():
        _worker = os.getpid()
        os._exit = _close_and_leave


def _close_and_leave(status: int) -> NoReturn:
    from penstock._engine.runtime.worker_cache import CACHE

    if os.getpid() == _worker:  # not a process that a function of the user's has forked
        CACHE.close()
    _leave(status)


def spare_modules() -> None:
    """Have Python's collector pass over what modules consist of, once they are loaded.

    PySpark has it look at everything after each task, while the next task may be waiting for the worker: 20 ms for the
    50,000 objects of our modules alone, and more with those of the user's.
    """
    global _modules  # noqa: PLW0603 - a worker is a process
    if len(sys.modules) > _modules:
        _modules = len(sys.modules)
        gc.freeze()
