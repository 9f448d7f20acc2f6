"""The end of a program under Python's interpreter: a warning if no job ran, and errors with the program's own lines.

The first environment of a process hooks itself in here. Notebooks, debuggers and ``except`` see errors as they are.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._builders.pipeline import never_executed
from penstock._engine.protocol.tracebacks import without_library_lines
from penstock.common.process import report

if TYPE_CHECKING:
    from types import TracebackType

_log = logging.getLogger("penstock")


class Program:
    """The main program of this process.

    Args:
        name: Its display name.
        silent: Whether it may build jobs without executing one, as the tools do that run tests.
    """

    def __init__(self, name: str, *, silent: bool) -> None:
        self._name, self.is_silent = name, silent
        self._process = os.getpid()
        self._show, self._failed = sys.excepthook, False

    @staticmethod
    def of_this_process() -> Program:
        """Return the program that the interpreter runs now."""
        path = getattr(sys.modules.get("__main__"), "__file__", None)
        if path is None:
            is_read = hasattr(sys, "ps1") or bool(sys.flags.interactive)
            return Program("the program", silent=is_read or "pytest" in sys.modules)  # xdist's workers have no file
        tools = tuple(Path(prefix).resolve() for prefix in {sys.prefix, sys.base_prefix})
        file = Path(path).resolve()
        return Program(file.name, silent=any(map(file.is_relative_to, tools)))

    def on_error(self, kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
        """Show an error that ends the program as usual, but without Penstock's frames, which go to the log."""
        self._failed = True
        _log.debug("The program has failed", exc_info=error)
        with without_library_lines(error):
            self._show(kind, error, error.__traceback__)

    def on_exit(self) -> None:
        """Warn if operators were built and nothing was executed."""
        if self._failed or self.is_silent or os.getpid() != self._process or not never_executed():
            return
        if (processes := sys.modules.get("multiprocessing.process")) and processes.parent_process() is not None:
            return
        report(f"Nothing ran: {self._name} describes a job, but ends without a call of execute() or execute_async().")


_program: Program | None = None


def watch_program() -> None:
    """Hook into the end of this process, once."""
    global _program  # noqa: PLW0603 - it is about the process
    if _program is None:
        _program = Program.of_this_process()
        sys.excepthook = _program.on_error
        atexit.register(_program.on_exit)
