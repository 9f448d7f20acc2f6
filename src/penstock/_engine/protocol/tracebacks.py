"""The user's own lines in a traceback: what people are shown of an error, and what of it crosses a process boundary.

Used by tasks, which tell the driver of errors, and where a program's error is printed. Pickling an exception drops its
traceback and the errors behind it (``raise … from``); here they travel along.
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
#: Where an error only passes through on its way between two lines of ours.
_BETWEEN: Final = re.compile(r"/concurrent/futures/|/(?:threading|contextlib)\.py$|/site-packages/(?:pyspark|py4j)/")
#: A table of lines that gives none to any instruction (each byte stands for eight of them).
_NOWHERE: Final = b"\xff" * 8

#: File, line and function.
Line = tuple[str, int, str]


def own_lines(trace: TracebackType | None) -> list[TracebackType]:
    """Return the entries of a traceback without Penstock's and those of libraries between them."""
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
    """Return a traceback of entries of others, which stay as they are."""
    trace = None
    for line in reversed(lines):
        trace = TracebackType(trace, line.tb_frame, line.tb_lasti, line.tb_lineno)
    return trace


@contextmanager
def without_library_lines(error: BaseException) -> Generator[None]:
    """Remove Penstock's own lines from its errors and their causes until the block ends.

    Errors of the program's own stay as they are, and so does an `InternalError`: a report of it needs its lines.
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
    """Yield the errors of a chain of causes that are Penstock's, or the cause of one that is."""
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
        """Tell pickle how the error is made again."""
        return _arrived, self._parts(frozenset())

    def _parts(self, above: frozenset[int]) -> tuple[Any, ...]:
        error = self._error
        lines = [
            (line.tb_frame.f_code.co_filename, line.tb_lineno, line.tb_frame.f_code.co_name)
            for line in own_lines(error.__traceback__)
        ]
        above |= {id(error)}
        behind = [
            None if other is None or id(other) in above else SerializedThrowable(other)._parts(above)
            for other in (error.__cause__, None if error.__suppress_context__ else error.__context__)
        ]
        return error, lines, *behind


def _arrived(error: BaseException, lines: list[Line], cause: Any, context: Any) -> BaseException:
    error.__traceback__ = _rebuilt(lines)
    error.__context__ = None if context is None else _arrived(*context)
    if cause is not None:
        error.__cause__ = _arrived(*cause)
    return error


def _rebuilt(lines: list[Line]) -> TracebackType | None:
    """Return a traceback that names lines; debuggers find their code, but no variables."""
    trace = None
    for file, number, function in reversed(lines):
        trace = TracebackType(trace, _frame(file, function), 0, number)
    return trace


def _frame(file: str, function: str) -> FrameType:
    """Return a frame that has ended, of no more than a name."""
    code: CodeType = compile("frame = this()", file, "exec")
    # Without lines of its own no part of the user's line is marked as the one that raised.
    code = code.replace(co_name=function, co_qualname=function, co_linetable=_NOWHERE)
    names: dict[str, Any] = {"this": lambda: sys._getframe(1)}
    exec(code, names)  # noqa: S102 - the one way to a frame with another file's name
    return names["frame"]
