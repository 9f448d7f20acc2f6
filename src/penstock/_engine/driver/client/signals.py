"""Ctrl-C while the main thread waits for a job: the job takes the signal, and the last line says how to go on."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from penstock._engine.driver.client.interruption import say
from penstock.errors import JobCancelledError

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock._engine.driver.client.interruption import Interruption
    from penstock._engine.driver.driver import JobDriver

#: Ctrl-C, supervisors, a terminal that is closed.
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_on_signals(driver: JobDriver) -> Generator[None]:
    """End a job when SIGINT, SIGTERM or SIGHUP arrives while the main thread waits for it.

    The process then exits as if the signal had ended it, and the last line says where the job can go on from. Signals
    that the process ignores, as SIGHUP below ``nohup``, stay ignored. In any other thread than the main one nothing
    changes.

    Args:
        driver: The job.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interruption = driver.interruption
    heard = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interruption.on_signal) for number in heard}
    try:
        yield
        if interruption.savepoint is not None:
            _exit(
                interruption,
                f"Job {driver.job_name!r} has stopped. To go on, set execution.state-recovery.path to 'latest' or to "
                f"{interruption.savepoint}",
            )
    except JobCancelledError:
        if not interruption.number:
            raise
        _exit(interruption, _how_to_go_on(driver))
    finally:
        if not interruption.over:
            for number, handler in before.items():
                signal.signal(number, handler)


def _exit(interruption: Interruption, last_words: str) -> NoReturn:
    interruption.over = True
    say(last_words)
    raise SystemExit(128 + interruption.number) from None


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
