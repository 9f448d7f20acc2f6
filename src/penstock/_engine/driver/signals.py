"""Ctrl-C: the first one cancels the job cleanly, the second ends the process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.errors import JobCancelledError

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

    from penstock._engine.driver.driver import JobDriver


@contextmanager
def cancelling_on_signals(driver: JobDriver) -> Generator[None]:
    """Cancel a job when SIGINT or SIGTERM arrives while the main thread waits for it.

    The process then exits as if the signal had ended it, and the last line says where the job can go on from. In any
    other thread than the main one nothing changes.

    Args:
        driver: The job.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken: list[int] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        if taken:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        taken.append(number)
        _say(f"Cancelling job {driver.job_name!r}; once more ends it at once.")
        driver.cancel()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except JobCancelledError:
        if not taken:
            raise
        _say(_how_to_go_on(driver))
        raise SystemExit(128 + taken[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
