"""Tells Ctrl-C from a KeyboardInterrupt that user code raises by itself, and holds it back where it would do harm.

An error of a user's function is a failure of its operator, whatever its class; Ctrl-C ends the process that it is for.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType


class _Noted:
    """Whether SIGINT has come since the process began to note it."""

    came = False


@contextmanager
def noting_interrupts() -> Generator[None]:
    """Note each SIGINT until the block ends; its handler acts as before.

    Signals reach Python on the main thread alone, so it does nothing on others.
    """
    before = signal.getsignal(signal.SIGINT)
    if not _is_main() or not callable(before):
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        _Noted.came = True
        before(number, frame)

    _Noted.came = False
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        _Noted.came = False
        # A generator that nobody ends is ended by the collector, on any thread and at any time.
        if signal.getsignal(signal.SIGINT) is note and _is_main():
            signal.signal(signal.SIGINT, before)


@contextmanager
def holding_interrupts() -> Generator[None]:
    """Hold SIGINT back until the block ends without an error; its handler, which the block may replace, acts then.

    A second one acts at once. Where SIGINT is ignored, and on other threads than the main one, it does nothing.
    """
    before = signal.getsignal(signal.SIGINT)
    if not _is_main() or not callable(before):
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)
        if len(held) > 1:
            before(number, frame)

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        signal.raise_signal(signal.SIGINT)


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is Ctrl-C, which ends the process, and not one that user code has raised by itself."""
    return isinstance(error, KeyboardInterrupt) and _Noted.came and _is_main()


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
