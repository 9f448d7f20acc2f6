"""Ctrl-C: the first one ends the job in good order, a savepoint included where one has a place to go."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock._engine.protocol.control import Stop
from penstock.errors import JobCancelledError

if TYPE_CHECKING:
    from collections.abc import Generator
    from concurrent.futures import Future
    from types import FrameType

    from penstock._engine.driver.driver import JobDriver


class Interruption:
    """The signals that a job got so far, and what came of them.

    The first one stops the job with a savepoint where ``execution.checkpointing.savepoint-dir`` is set, and else
    cancels it. The next one cancels a job that was to stop. Whatever comes then ends the process.

    Args:
        driver: The job.
    """

    def __init__(self, driver: JobDriver) -> None:
        self._driver = driver
        self._cancelled = False
        self._savepoint: Future[str] | None = None
        #: The first signal.
        self.number = 0

    @property
    def savepoint(self) -> str | None:
        """The savepoint that the job stopped with, None when it did not."""
        done = self._savepoint is not None and self._savepoint.done() and self._savepoint.exception() is None
        return self._savepoint.result() if done and self._savepoint is not None else None

    def on_signal(self, number: int, _: FrameType | None) -> None:
        """Take a signal."""
        name = self._driver.job_name
        if self._cancelled:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif self._savepoint is None and self._driver.savepoint_directory is not None:
            _say(f"Stopping job {name!r} with a savepoint; once more cancels it.")
            self._savepoint = self._driver.savepoint(None, Stop.SUSPEND)
            self._savepoint.add_done_callback(_say_failure)
        else:
            _say(f"Cancelling job {name!r}; once more ends it at once.")
            self._cancelled = True
            self._driver.cancel()
        self.number = self.number or number


@contextmanager
def ending_on_signals(driver: JobDriver) -> Generator[None]:
    """End a job when SIGINT or SIGTERM arrives while the main thread waits for it.

    The process then exits as if the signal had ended it, and the last line says where the job can go on from. In any
    other thread than the main one nothing changes.

    Args:
        driver: The job.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interruption = driver.interruption
    before = {number: signal.signal(number, interruption.on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except JobCancelledError:
        if not interruption.number:
            raise
        _say(_how_to_go_on(driver))
        raise SystemExit(128 + interruption.number) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if interruption.savepoint is not None:
        _say(
            f"Job {driver.job_name!r} has stopped. To go on, set execution.state-recovery.path to 'latest' or to "
            f"{interruption.savepoint}"
        )
        raise SystemExit(128 + interruption.number)


def _how_to_go_on(driver: JobDriver) -> str:
    if driver.checkpoint is None:
        return (
            f"Job {driver.job_name!r} was cancelled and left no checkpoint: it starts from the beginning. Checkpoints "
            "are kept where execution.checkpointing.dir is set, from the end of the first epoch on."
        )
    return (
        f"Job {driver.job_name!r} was cancelled. To go on from its last checkpoint, set execution.state-recovery.path "
        f"to 'latest' or to {driver.checkpoint}"
    )


def _say_failure(savepoint: Future[str]) -> None:
    error = savepoint.exception()
    if error is not None:
        _say(f"The job did not stop. {error} Once more cancels it.")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
