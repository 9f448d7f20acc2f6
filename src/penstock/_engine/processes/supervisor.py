"""Keeps a program running: starts it, starts it again after a crash, and stops when it has ended for good.

The jobs of the program continue from their newest checkpoints: each process finds the jobs of earlier processes in a
note (`processes.supervision_note`). Signals that end a program are passed on, and then its end is final.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock._engine.processes.exit_codes import SIGNALLED, ExitCode
from penstock._engine.processes.supervision_note import STOP_FAILED, Supervision
from penstock._engine.processes.user_directories import is_usual
from penstock._engine.protocol import clocks
from penstock.common.config_loading import RESUME_VARIABLE
from penstock.common.process import report

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from types import FrameType

    from penstock._engine.processes.supervision_note import NotedJob

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Signals that end a process on purpose; any other one is a crash.
_ENDING = frozenset({*_PASSED_ON, signal.SIGQUIT})
#: The longest pause in seconds before a program is started whose checkpoints were missing.
_LONGEST_PAUSE_S = 300.0
#: The signals that a shell or a container may report by an exit code above 128; a program may use such codes itself.
_CRASHES = frozenset({signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


class RestartLimit:
    """The maximum number of restarts of a program within some time.

    Args:
        restarts: The maximum number.
        window_s: The time in seconds.
    """

    def __init__(self, restarts: int, window_s: int) -> None:
        self.restarts, self.window_s = restarts, window_s
        self._times: deque[float] = deque()

    def allows(self, now_s: float) -> bool:
        """Note a restart, and tell whether it is allowed."""
        while self._times and now_s - self._times[0] >= self.window_s:
            self._times.popleft()
        if len(self._times) >= self.restarts:
            return False
        self._times.append(now_s)
        return True


def is_final(code: int) -> bool:
    """Tell whether a program has ended for good.

    Args:
        code: Its exit code; a signal that killed it as a negative number, or plus 128 as a shell has it.

    Example:
        >>> is_final(0), is_final(1), is_final(ExitCode.TEMPORARY), is_final(-9), is_final(137), is_final(143)
        (True, True, False, False, False, True)

    A program whose checkpoints are missing has not ended, but they have to come back before it is started.
    """
    if code < 0:
        return -code in _ENDING
    return code not in {ExitCode.TEMPORARY, ExitCode.MISSING} and code - SIGNALLED not in _CRASHES


def pause_before(missing: int, delay_s: float) -> float:
    """Return the pause before a start in seconds.

    Args:
        missing: How often in a row the program has ended because its checkpoints were missing.
        delay_s: The usual pause.

    Example:
        >>> [pause_before(missing, 1.0) for missing in (0, 1, 2, 8, 9, 1000)]
        [1.0, 2.0, 4.0, 256.0, 300.0, 300.0]
    """
    longest_s = max(_LONGEST_PAUSE_S, delay_s)
    return min(max(1.0, delay_s) * 2 ** min(missing, 16), longest_s) if missing else delay_s


class Supervisor:
    """Keeps one program running.

    Args:
        command: Starts the program.
        limit: The limit of restarts.
        delay_s: The delay before each restart in seconds.
        environment: Variables of the program beside those of this process.
        clock: Seconds that pass.
    """

    def __init__(
        self,
        command: Sequence[str],
        limit: RestartLimit,
        delay_s: float,
        *,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command, self._environment = list(command), environment or {}
        self._limit = limit
        self._delay_s = delay_s
        self._clock = clock
        self._child: subprocess.Popen[bytes] | None = None
        #: Whether a process has a terminating signal to end by, and a signal that arrived while no process ran.
        self._delivered = False
        self._pending = 0
        #: A pipe, open while it runs.
        self._wake_reader = self._wake_writer = -1

    def run(self) -> int:
        """Run the program until it has ended for good or breaks down too often, and return its exit code.

        Raises:
            LocalDirectoryError: The note of its jobs cannot be written.
            SupervisionNoteError: That note was lost or damaged, so that its jobs could not continue.
        """
        with Supervision() as supervision, self._passing_signals_on():
            if not is_usual(supervision.note.path):
                _tell(
                    "There is no home directory to write to, so the note of the program's jobs is a temporary file, "
                    f"{supervision.note.path}. XDG_STATE_HOME can name a directory that is not cleaned."
                )
            return self._run(supervision)

    def _run(self, supervision: Supervision) -> int:
        missing = 0  # so many times in a row
        while True:
            code = self._run_once(supervision)
            shown = SIGNALLED - code if code < 0 else code
            if self._delivered and not is_final(code):
                _tell(
                    f"The program {_ending(code)} after it was told to end, so it is not started again. Its jobs "
                    "continue from their newest checkpoints with -s latest."
                )
            elif not self._delivered and is_final(code) and code:
                _tell(f"The program {_ending(code)}, which is the end: it is not started again.")
            if self._delivered or is_final(code):
                return shown
            jobs = supervision.note.read()
            missing = missing + 1 if code == ExitCode.MISSING else 0
            if missing and not jobs:
                return shown  # its first start has found nothing, so there is nothing to guard
            if not missing and not self._limit.allows(self._clock()):
                _tell(
                    f"The program {_ending(code)}. Its restarts within {self._limit.window_s} s have reached the limit "
                    f"of {self._limit.restarts} (--max-restarts), so it is not started again. Its jobs continue from "
                    "their newest checkpoints with -s latest."
                )
                return shown
            if not self._pending:
                self._wait(code, missing, jobs.values())
            if self._pending:
                name = signal.Signals(self._pending).name
                _tell(
                    f"Ended by {name} between two processes: the program, which {_ending(code)}, is not started again. "
                    "Its jobs continue from their newest checkpoints with -s latest."
                )
                return SIGNALLED + self._pending
            supervision.note.read()  # during the delay a cleaner may have deleted the note

    def _wait(self, code: int, missing: int, jobs: Iterable[NotedJob]) -> None:
        """Wait before the next start: longer each time for checkpoints to come back."""
        pause_s = pause_before(missing, self._delay_s)
        if missing:
            _tell(
                f"The program {_ending(code)}: the checkpoints of its jobs are not where they were (see above). It "
                f"does not start them fresh; it looks again in {pause_s:.0f} s."
            )
        else:
            _tell(f"The program {_ending(code)}; it starts again{_going_on(jobs)}.")
        select.select([self._wake_reader], [], [], pause_s)

    def _run_once(self, supervision: Supervision) -> int:
        environment = {**os.environ, **self._environment, RESUME_VARIABLE: str(supervision.note.path)}
        # A process group of its own: Ctrl-C reaches the program through this process alone, once.
        self._child = child = subprocess.Popen(
            self._command, env=environment, process_group=0, pass_fds=(supervision.lock,)
        )
        if self._pending:  # the signal arrived while the process was starting
            self._deliver(child, self._pending)
            self._pending = 0
        try:
            return child.wait()
        finally:
            self._child = None

    def _deliver(self, child: subprocess.Popen[bytes], number: int) -> None:
        self._delivered = True
        child.send_signal(number)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._child is None:
            self._pending = number
            os.write(self._wake_writer, b"!")
        else:
            self._deliver(self._child, number)

    def _on_failed_stop(self, *_: object) -> None:
        """Guard a program again that was to stop, and could not."""
        if self._delivered and self._child is not None:
            self._delivered = False
            _tell(
                f"The program was told to end, and a job of it did not stop: it runs on (process {self._child.pid}), "
                "and is guarded still, as before the signal."
            )

    @contextmanager
    def _passing_signals_on(self) -> Generator[None]:
        self._wake_reader, self._wake_writer = os.pipe()
        handlers = {**dict.fromkeys(map(int, _PASSED_ON), self._on_signal), STOP_FAILED: self._on_failed_stop}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._wake_reader)
            os.close(self._wake_writer)


def _tell(text: str) -> None:
    """Print a line with the time of day."""
    report(f"{clocks.time_text(clocks.now_ms())} {text}")


def _ending(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _going_on(jobs: Iterable[NotedJob]) -> str:
    """Return a text on how the program's jobs continue after the restart."""
    going = [job for job in jobs if not job.has_ended]
    anew = [f"{job.job_name!r}" for job in going if not job.is_kept]
    if anew:
        return f"; {', '.join(anew)} starts fresh, because execution.checkpointing.dir is not set"
    return " and continues from the newest checkpoint" if going else ", and no job of it was under way"
