"""Output and clean-up in the user's process: lines on its standard streams, and functions at exit.

A line that cannot be written is not an error: the terminal may be closed, the disk full, the pipe unread. Only the
process that registered a function runs it at exit: a forked child inherits the list, but does not own the resources.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import select
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TextIO

from penstock._errors.text import sentences
from penstock.common.redaction import hiding, shown_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

P = ParamSpec("P")

_log = hiding(logging.getLogger("penstock"))

#: After this time a line is dropped, because its reader does not read.
_PATIENCE_MS: Final = 500
_STANDARD_ERROR: Final = 2


def report(text: str) -> None:
    """Write a line for people to standard error; it never raises, and never waits for a reader that has stopped.

    Args:
        text: The line; control characters are escaped.
    """
    stream = sys.stderr
    with contextlib.suppress(Exception):  # reporting must never fail
        descriptor = _descriptor(stream)
        if descriptor is None:
            stream.write(f"{sentences(text)}\n")
            stream.flush()
        else:
            line = f"{_take_line(stream)}{sentences(text)}\n"
            _write(descriptor, line.encode(stream.encoding or "utf-8", "backslashreplace"))


def tell(level: int, text: str, *, shown: bool) -> None:
    """Write a line to the log.

    Args:
        level: Its level.
        text: The line.
        shown: Whether it is written to standard error where the log does not show it there.
    """
    _log.log(level, "%s", text)
    if shown and not _shows(level):
        report(shown_text(text))


def _shows(level: int) -> bool:
    """Tell whether the log writes lines of a level to a standard stream."""
    if not _log.isEnabledFor(level):
        return False
    handlers: list[logging.Handler] = []
    asked: logging.Logger | None = logging.getLogger("penstock")
    while asked is not None:
        handlers += (one for one in asked.handlers if not getattr(one, "only_keeps", False))
        asked = asked.parent if asked.propagate else None
    if not handlers:  # then Python's handler of last resort writes it
        return logging.lastResort is not None and level >= logging.lastResort.level
    standard = (sys.stderr, sys.stdout, sys.__stderr__)
    return any(level >= one.level and getattr(one, "stream", None) in standard for one in handlers)


def print_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output; what its encoding lacks becomes ``?``, as in Java; surrogates are escaped."""
    stream, text = sys.stdout, "".join(f"{line}\n" for line in lines)
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = getattr(stream, "encoding", None) or "utf-8"
        plain = text.encode("utf-8", "backslashreplace").decode()
        stream.write(plain.encode(encoding, "replace").decode(encoding))
    stream.flush()


def _descriptor(stream: TextIO) -> int | None:
    """Return the number of the file that a stream writes to; None for a stream of a notebook or a test."""
    if type(stream).__module__.startswith("ipykernel."):  # its number is that of the log of the notebook's server
        return None
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def _take_line(stream: object) -> str:
    """Return what clears the line of a progress bar, which is drawn again below; rich stands before the stream then."""
    return "\r\x1b[2K" if type(stream).__module__ == "rich.file_proxy" else ""


def is_on_terminal() -> bool:
    """Tell whether reported lines go to a terminal."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, OSError, ValueError):  # there is none, or it was closed
        return False


def protect_standard_streams() -> None:
    """Keep the numbers of standard streams from becoming other files, and a full stream from changing the exit code.

    Closed streams are opened on the null device, because the next opened file would take their number.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    nowhere = Path(os.devnull)
    sys.stdout = sys.stdout or nowhere.open("w", encoding="utf-8")
    sys.stderr = sys.stderr or nowhere.open("w", encoding="utf-8")
    _protect_at_exit()


@cache
def _protect_at_exit() -> None:
    at_exit(_let_go_of_standard_error)


def _let_go_of_standard_error() -> None:
    """Redirect standard error to the null device, because the interpreter would retry at exit, and exit with 120."""
    stream = sys.stderr
    with contextlib.suppress(Exception):  # closed meanwhile, or no stream of the system
        descriptor = stream.fileno()
        try:
            if _can_be_written(descriptor):
                stream.flush()
                return
        except OSError:
            pass
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _can_be_written(descriptor: int) -> bool:
    if sys.platform == "win32":
        return True
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    return bool(poller.poll(_PATIENCE_MS))


def _write(descriptor: int, line: bytes) -> None:
    # Past the stream's own buffer: what could not be written would stay in it, and fail the exit of the process.
    left = memoryview(line)
    if sys.platform == "win32":
        os.write(descriptor, left)
        return
    while left and _can_be_written(descriptor):
        left = left[os.write(descriptor, left[: select.PIPE_BUF]) :]


def at_exit(function: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> Callable[[], None]:
    """Call a function when this process exits, but not when a forked child exits.

    Args:
        function: The function.
        args: Its arguments.
        kwargs: Its keyword arguments.

    Returns:
        The function for ``atexit.unregister``.
    """
    process = os.getpid()

    def run() -> None:
        if os.getpid() == process:
            function(*args, **kwargs)

    atexit.register(run)
    return run


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
