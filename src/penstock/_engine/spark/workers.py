"""Closes the open functions of Spark's Python workers at the end of a job, and at the end of a worker.

Called by the epoch runner, on the driver and in tasks. Decision 4 has the reasons.
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

#: The time in which functions have to close; slower ones are closed at the end of their worker.
_PATIENCE_S: Final = 10
#: The longest time that each of the last tasks waits for the others to start, so that they use different workers.
_TOGETHER_S: Final = 0.1
_LOOK_S: Final = 0.002

_leave: Final = os._exit
_worker: int | None = None
#: The number of modules when this worker last froze its objects for the collector.
_modules = 0


@contextlib.contextmanager
def closing_tasks(context: Any, run_id: str) -> Generator[None]:
    """Cancel the Spark job of the block when functions take too long to close."""
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
    """Interrupt functions that take too long to close in a task; code in C is not interrupted."""
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
def with_others(meeting: Path | None, place: int, slots: int) -> Generator[None]:
    """Keep a task running until the other tasks of its Spark job on this host have begun.

    Args:
        meeting: A directory that the tasks of this host share; None where there can be none.
        place: The number of the task.
        slots: The number of tasks.
    """
    started = time.monotonic()
    if meeting is not None:
        with contextlib.suppress(OSError):
            meeting.mkdir(mode=0o700, exist_ok=True)
            (meeting / str(place)).touch()
    yield
    while time.monotonic() - started < _TOGETHER_S and not (meeting is not None and _all_here(meeting, slots)):
        time.sleep(_LOOK_S)


def _all_here(meeting: Path, slots: int) -> bool:
    """Return whether all tasks on this host have begun."""
    try:
        return len(list(meeting.iterdir())) >= slots
    except OSError:
        return False


def close_at_exit() -> None:
    """Make this worker close its functions when Spark ends it.

    The worker then calls ``os._exit``, which runs no exit handlers, so this function replaces that name.
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
    """Exclude the objects of loaded modules from Python's collector.

    PySpark runs a full collection after each task, while the next task may be waiting for the worker: 20 ms for the
    50,000 objects of our modules alone, and more with the user's.
    """
    global _modules  # noqa: PLW0603 - a worker is a process
    if len(sys.modules) > _modules:
        _modules = len(sys.modules)
        gc.freeze()
