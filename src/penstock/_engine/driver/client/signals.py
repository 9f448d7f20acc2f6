"""Handles Ctrl-C and similar signals while the main thread waits for a job.

The first signal stops the job with a savepoint if a directory for it is configured, the next one cancels it, and the
last line says how to continue.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import termios
import threading
import time
from typing import TYPE_CHECKING, Final, NoReturn

from penstock._engine.driver.client.resumption import resumption
from penstock._engine.protocol.control import StopMode
from penstock.common.notebook import is_interactive
from penstock.common.process import report
from penstock.errors import JobCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Future
    from types import FrameType

    from penstock._engine.gateway.job_control import JobControl

#: The signals of Ctrl-C, of supervisors and of a closed terminal.
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: The longest wait for a lock in seconds. The kernel may deliver a signal to any thread, and Python runs the handler
#: when the main thread runs next, which a lock does not wake.
SIGNAL_POLL_S: Final = 0.2

#: Signals within this time count as one, because a supervisor may signal a process and then its group.
_TOGETHER_S: Final = 1.0


class Interruption:
    """The signals for a job, and the resulting savepoint or cancel.

    The first signal stops the job with a savepoint if ``execution.checkpointing.savepoint-dir`` is set, and else
    cancels it; a job that is already stopping continues to stop. The next one cancels a stopping job. A later one ends
    the process. Two signals within a second count as one.

    Args:
        job_name: The job.
        job: The control of the job.
        clock: Returns monotonic seconds.
    """

    def __init__(self, job_name: str, job: JobControl, clock: Callable[[], float] = time.monotonic) -> None:
        self._job_name, self._job = job_name, job
        self._clock = clock
        self._process = os.getpid()
        self._taken_at: float | None = None
        self._cancelled = False
        self._savepoint: Future[str] | None = None
        #: The first signal.
        self.number = 0
        #: Whether the job has ended because of it, so that the process ends as well.
        self.over = False

    @property
    def savepoint(self) -> str | None:
        """The savepoint that the job stopped with; None without one."""
        done = self._savepoint is not None and self._savepoint.done() and self._savepoint.exception() is None
        return self._savepoint.result() if done and self._savepoint is not None else None

    def where_stopped(self) -> str:
        """Return a line that says from where the stopped job can continue."""
        return (
            f"Job {self._job_name!r} has stopped. To continue, set execution.state-recovery.path to 'latest' or to "
            f"{self.savepoint}"
        )

    def where_cancelled(self) -> str:
        """Return a line that says from where the cancelled job can continue."""
        if self._job.checkpoint is None:
            return (
                f"Job {self._job_name!r} was cancelled and left no checkpoint: it starts from the beginning. "
                "Checkpoints are kept where execution.checkpointing.dir is set, from the end of the first epoch on."
            )
        return (
            f"Job {self._job_name!r} was cancelled. To continue from its last checkpoint, set "
            f"execution.state-recovery.path to 'latest' or to {self._job.checkpoint}"
        )

    def on_signal(self, number: int, _: FrameType | None) -> None:
        """Take a signal."""
        if os.getpid() != self._process:  # a child that the program has forked: the job is not its own
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        now = self._clock()
        # From here to the assignment there is no call, so no other signal's handler runs in between.
        if self._taken_at is not None and now - self._taken_at < _TOGETHER_S:
            return
        self._taken_at = now
        self.number = self.number or number
        if number == signal.SIGHUP:
            leave_closed_terminal()
        if self._cancelled and _is_for_cell(number):
            raise KeyboardInterrupt  # the job ends by itself; its process is to stay
        if self._cancelled or self.over:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif self._savepoint is None and (stopping := self._job.stopping) is not None:
            path, self._savepoint = stopping
            report(f"Job {self._job_name!r} is stopping already, into {path}; once more cancels it.")
            self._savepoint.add_done_callback(self._say_failure)
        elif self._savepoint is None and self._job.savepoint_directory is not None:
            report(f"Stopping job {self._job_name!r} with a savepoint; once more cancels it.")
            self._savepoint = self._job.savepoint(None, StopMode.SUSPEND)
            self._savepoint.add_done_callback(self._say_failure)
        else:
            then = "stops waiting for its end" if _is_for_cell(number) else "ends it at once"
            report(f"Cancelling job {self._job_name!r}; once more {then}.")
            self._cancelled = True
            self._job.cancel()

    def _say_failure(self, savepoint: Future[str]) -> None:
        """Say that a stop has failed, and tell the supervisor that the job runs on."""
        error = savepoint.exception()
        if error is None:
            return
        if self._job.view.ended is not None:
            report(f"The job did not stop with a savepoint, and has ended. {error}")
            return
        supervised = resumption()
        guard = "" if supervised is None else f" The program runs on, and {supervised.note_failed_stop()}."
        report(f"The job did not stop. {error}{guard} Once more cancels it.")


def leave_closed_terminal() -> None:
    """Detach from a terminal that was closed, so that printing to it stops no job."""
    for descriptor in (1, 2):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)


@contextlib.contextmanager
def ending_on_signals(interruption: Interruption) -> Generator[None]:
    """End a job if SIGINT, SIGTERM or SIGHUP arrives while the main thread waits for it.

    The process then exits as if the signal had ended it, and the last line says from where the job can continue. Where
    somebody types what it runs, as in a notebook, Ctrl-C and "interrupt" end the job and what was typed, and no more.
    Ignored signals, such as SIGHUP below ``nohup``, stay ignored. On other threads than the main one it does nothing.

    A signal for which the program has set a handler of its own is left to that handler.

    Args:
        interruption: What its signals do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in _ENDING if _is_free(signal.getsignal(number))]
    before = {number: signal.signal(number, interruption.on_signal) for number in heard}
    try:
        yield
        if interruption.savepoint is not None and interruption.number:
            _exit(interruption, interruption.where_stopped())
    except JobCancelledError:
        if not interruption.number:
            raise
        _exit(interruption, interruption.where_cancelled())
    finally:
        if not interruption.over:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def ending_the_start(job_name: str) -> Generator[None]:
    """End the process without a traceback if Ctrl-C comes while Spark starts for a job.

    A program that handles SIGINT itself gets the `KeyboardInterrupt`, and so does a cell of a notebook.

    Args:
        job_name: The job.
    """
    is_free = _is_free(signal.getsignal(signal.SIGINT))
    try:
        yield
    except KeyboardInterrupt:
        if not is_free or is_interactive():
            raise
        report(f"Job {job_name!r} was interrupted while Spark started; nothing of it has run.")
        raise SystemExit(128 + signal.SIGINT) from None


def _is_free(handler: object) -> bool:
    """Tell whether a signal has no handler other than Python's or Spark's; an ignored signal (SIG_IGN) is not free."""
    if handler in {signal.SIG_DFL, signal.default_int_handler}:
        return True
    is_ours = isinstance(getattr(handler, "__self__", None), Interruption)
    return is_ours or str(getattr(handler, "__module__", "")).startswith("pyspark.")


def _is_for_cell(number: int) -> bool:
    """Tell whether a signal is to end what a person has typed, and not the process."""
    return number == signal.SIGINT and is_interactive()


def _exit(interruption: Interruption, last_words: str) -> NoReturn:
    report(last_words)
    if _is_for_cell(interruption.number):
        interruption.number = 0  # who waits for the job once more gets its result
        raise KeyboardInterrupt from None
    interruption.over = True
    raise SystemExit(128 + interruption.number) from None
