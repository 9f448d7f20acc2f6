"""Keeps a program running: starts it, starts it again after a crash, and stops when it has ended for good.

The jobs of the program go on from their newest checkpoints: each process finds in a file which jobs the ones before it
have started (`driver.resumption`). Signals that end a program are passed on, and then its end is final.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.cli.exit_codes import SIGNALLED, ExitCode
from penstock._engine.cli.output import say
from penstock.common.config_loading import RESUME_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from types import FrameType

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Signals by which somebody ends a process on purpose; any other one is a crash.
_ENDING = frozenset({*_PASSED_ON, signal.SIGQUIT})
#: Those that a shell or a container may tell by an exit code above 128; a program may have such codes of its own.
_CRASHES = frozenset({signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


class RestartLimit:
    """How often a program may be started again within some time.

    Args:
        restarts: That often.
        window_s: Within so many seconds.
    """

    def __init__(self, restarts: int, window_s: int) -> None:
        self.restarts, self.window_s = restarts, window_s
        self._times: deque[float] = deque()

    def allows(self, now_s: float) -> bool:
        """Take note of a restart, and tell whether it may be."""
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
    """
    if code < 0:
        return -code in _ENDING
    return code != ExitCode.TEMPORARY and code - SIGNALLED not in _CRASHES


class Supervisor:
    """Keeps one program running.

    Args:
        command: Starts the program.
        limit: How often it may be started again.
        delay_s: Seconds before each of these.
        clock: Seconds that pass.
    """

    def __init__(
        self,
        command: Sequence[str],
        limit: RestartLimit,
        delay_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = list(command)
        self._limit = limit
        self._delay_s = delay_s
        self._clock = clock
        self._child: subprocess.Popen[bytes] | None = None
        #: The last signal that was to end the program, and one that came before there was a process to have it.
        self._signal = self._pending = 0
        self._wake_reader, self._wake_writer = os.pipe()

    def run(self) -> int:
        """Run the program until it has ended for good or breaks down too often, and return its exit code."""
        with tempfile.TemporaryDirectory(prefix="penstock-supervise-") as place, self._passing_signals_on():
            environment = {**os.environ, RESUME_VARIABLE: str(Path(place) / "jobs.json")}
            while True:
                code = self._run_once(environment)
                if self._signal or is_final(code):
                    break
                if not self._limit.allows(self._clock()):
                    say(
                        f"The program {_ending(code)}. It has been started again {self._limit.restarts} times within "
                        f"{self._limit.window_s} s, which is the limit (--max-restarts)."
                    )
                    break
                say(f"The program {_ending(code)}; it starts again and goes on from the newest checkpoint.")
                if self._interrupted_while_waiting():
                    break
            return SIGNALLED - code if code < 0 else code

    def _run_once(self, environment: dict[str, str]) -> int:
        # A process group of its own: Ctrl-C reaches the program through this process alone, once.
        self._child = child = subprocess.Popen(self._command, env=environment, process_group=0)
        if self._pending:
            child.send_signal(self._pending)
        try:
            return child.wait()
        finally:
            self._child = None

    def _interrupted_while_waiting(self) -> bool:
        """Wait before a restart, and tell whether a signal came meanwhile."""
        select.select([self._wake_reader], [], [], self._delay_s)
        return bool(self._signal)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._signal = number
        os.write(self._wake_writer, b"!")
        if self._child is None:
            self._pending = number
        else:
            self._child.send_signal(number)

    @contextmanager
    def _passing_signals_on(self) -> Generator[None]:
        before = {number: signal.signal(number, self._on_signal) for number in _PASSED_ON}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._wake_reader)
            os.close(self._wake_writer)


def _ending(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
