"""Runs a program in this process, as ``python script.py`` would, and tells how it ended by the exit code."""

from __future__ import annotations

import json
import os
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from penstock._engine.cli.exit_codes import exit_code_of
from penstock._engine.cli.output import say
from penstock.common.config_loading import OPTIONS_VARIABLE
from penstock.errors import PenstockError

_LIBRARY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Script:
    """A program with its arguments, and the settings that the command line gives it."""

    path: Path
    arguments: tuple[str, ...]
    settings: dict[str, str]

    def run(self) -> int:
        """Run the program to its end, and return the exit code.

        Raises:
            SystemExit: The program ended itself.
            KeyboardInterrupt: It was interrupted; the interpreter tells that as always.
        """
        os.environ[OPTIONS_VARIABLE] = json.dumps(self.settings)
        sys.argv = [str(self.path), *self.arguments]
        # Python has put the command's folder there, unless it was told to put nothing (-P).
        sys.path[: 0 if sys.flags.safe_path else 1] = [str(self.path.resolve().parent)]
        working_directory = str(Path.cwd())
        if working_directory not in sys.path:
            sys.path.append(working_directory)  # at the end: it must not hide modules that `python script.py` finds
        try:
            runpy.run_path(str(self.path), run_name="__main__")
        except Exception as error:  # noqa: BLE001 - what a program raises ends it, whatever it is
            shown = error.with_traceback(self._own_lines(error))
            _hide_library(error)
            sys.excepthook(type(shown), shown, shown.__traceback__)
            return exit_code_of(error)
        _tell_of_a_forgotten_execution(self.path)
        return 0

    def _own_lines(self, error: Exception) -> TracebackType | None:
        """Return a traceback that begins in the program; for an error of ours it ends in it, too."""
        lines: list[TracebackType] = []
        line = error.__traceback__
        while line is not None:
            file = line.tb_frame.f_code.co_filename
            if isinstance(error, PenstockError) and lines and Path(file).is_relative_to(_LIBRARY):
                break
            if lines or file == str(self.path):
                lines.append(line)
            line = line.tb_next
        shown = None
        for line in reversed(lines):
            shown = TracebackType(shown, line.tb_frame, line.tb_lasti, line.tb_lineno)
        return shown


def _hide_library(error: BaseException) -> None:
    """Take the lines of ours out of the tracebacks of our errors below an error: their text says it all."""
    cause = error.__cause__
    while cause is not None:
        if isinstance(cause, PenstockError) and _is_all_ours(cause.__traceback__):
            cause.__traceback__ = None
        cause = cause.__cause__


def _is_all_ours(line: TracebackType | None) -> bool:
    while line is not None:
        if not Path(line.tb_frame.f_code.co_filename).is_relative_to(_LIBRARY):
            return False
        line = line.tb_next
    return True


def _tell_of_a_forgotten_execution(program: Path) -> None:
    if "penstock.datastream" not in sys.modules:
        return
    from penstock.datastream._streams.pipeline import never_executed

    if never_executed():
        say(f"Nothing ran: {program.name} describes a job, but ends without a call of execute() or execute_async().")
