"""The user's own lines of a traceback: for display, and to send an error to another process.

Tasks use it to send errors to the driver, and the program to print its error. Pickling an exception drops its traceback
and its causes (``raise … from``); this module keeps them.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

import penstock
from penstock.errors import InternalError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

_LIBRARY: Final = f"{Path(penstock.__file__).parent}/"
#: Files that an error only passes through between two lines of Penstock.
_BETWEEN: Final = re.compile(r"/concurrent/futures/|/(?:threading|contextlib)\.py$|/site-packages/(?:pyspark|py4j)/")
#: A line table without a line for any instruction (each byte covers eight instructions).
_NOWHERE: Final = b"\xff" * 8

#: File, line and function.
Line = tuple[str, int, str]


def own_lines(trace: TracebackType | None) -> list[TracebackType]:
    """Return the entries of a traceback without Penstock's, and without libraries' entries between them."""
    found: list[TracebackType] = []
    in_library = False
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        in_library = file.startswith(_LIBRARY) or (in_library and _BETWEEN.search(file) is not None)
        if not in_library:
            found.append(trace)
        trace = trace.tb_next
    return found


def linked(lines: list[TracebackType]) -> TracebackType | None:
    """Return a new traceback of some entries; the entries are not changed."""
    trace = None
    for line in reversed(lines):
        trace = TracebackType(trace, line.tb_frame, line.tb_lasti, line.tb_lineno)
    return trace


@contextmanager
def without_library_lines(error: BaseException) -> Generator[None]:
    """Remove Penstock's own lines from its errors and their causes until the block ends.

    The program's own errors are not changed, nor is an `InternalError`: a report of it needs its lines.
    """
    hidden = [(each, each.__traceback__) for each in _ours(error)]
    for each, trace in hidden:
        each.__traceback__ = linked(own_lines(trace))
    try:
        yield
    finally:
        for each, trace in hidden:
            each.__traceback__ = trace


def _ours(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a chain of causes that are Penstock's, or the cause of such an error."""
    waiting, seen = [(error, False)], {id(error)}
    while waiting:
        each, below = waiting.pop()
        below = below or isinstance(each, PenstockError)
        if below and not isinstance(each, InternalError):
            yield each
        group = cast("tuple[BaseException, ...]", getattr(each, "exceptions", ()))
        for other in (each.__cause__, each.__context__, *group):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                waiting.append((other, below))


class SerializedThrowable:
    """Pickles an error with the user's lines of its traceback and with its causes; unpickling gives the error itself.

    Args:
        error: The error.
    """

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Callable[..., BaseException], tuple[Any, ...]]:
        """Tell pickle how to rebuild the error."""
        return _arrived, self._parts(frozenset())

    def _parts(self, above: frozenset[int]) -> tuple[Any, ...]:
        error = self._error
        lines = [
            (line.tb_frame.f_code.co_filename, line.tb_lineno, line.tb_frame.f_code.co_name)
            for line in own_lines(error.__traceback__)
        ]
        above |= {id(error)}
        causes = [
            None if other is None or id(other) in above else SerializedThrowable(other)._parts(above)
            for other in (error.__cause__, None if error.__suppress_context__ else error.__context__)
        ]
        return error, lines, *causes


def _arrived(error: BaseException, lines: list[Line], cause: Any, context: Any) -> BaseException:
    error.__traceback__ = _rebuilt(lines)
    error.__context__ = None if context is None else _arrived(*context)
    if cause is not None:
        error.__cause__ = _arrived(*cause)
    return error


def _rebuilt(lines: list[Line]) -> TracebackType | None:
    """Return a traceback of lines; debuggers find their code, but no variables."""
    trace = None
    for file, number, function in reversed(lines):
        trace = TracebackType(trace, _frame(file, function), 0, number)
    return trace


def _frame(file: str, function: str) -> FrameType:
    """Return an ended frame that has only a file and a name."""
    code: CodeType = compile("frame = this()", file, "exec")
    # Without lines of its own no part of the user's line is marked as the one that raised.
    code = code.replace(co_name=function, co_qualname=function, co_linetable=_NOWHERE)
    names: dict[str, Any] = {"this": lambda: sys._getframe(1)}
    exec(code, names)  # noqa: S102 - the one way to a frame with another file's name
    return names["frame"]
