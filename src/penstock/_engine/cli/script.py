"""Runs a program in this process, as ``python script.py`` would, and maps its end to an exit code."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.cli.output import say
from penstock._engine.processes.exit_codes import ExitCode, exit_code_of
from penstock._engine.processes.given_up import take_given_up
from penstock._engine.protocol.tracebacks import without_library_lines
from penstock.common.config_loading import OPTIONS_VARIABLE
from penstock.common.redaction import shown_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


@dataclass(frozen=True, slots=True)
class UserProgram:
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
        os.environ.update(settings_environment(self.settings))
        sys.argv = [str(self.path), *self.arguments]
        # Python has put the command's folder there, unless it was told to put nothing (-P).
        sys.path[: 0 if sys.flags.safe_path else 1] = [str(self.path.resolve().parent)]
        working_directory = str(Path.cwd())
        if working_directory not in sys.path:
            sys.path.append(working_directory)  # at the end: it must not hide modules that `python script.py` finds
        try:
            runpy.run_path(str(self.path), run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                _tell_losses()
                raise
        except Exception as error:  # noqa: BLE001 - what a program raises ends it, whatever it is
            error.__traceback__ = self._from_the_program_on(error.__traceback__)
            with without_library_lines(error):
                _show(error)
            _tell_losses()
            return exit_code_of(error)
        return ExitCode.GIVEN_UP if _tell_losses() else ExitCode.OK

    def _from_the_program_on(self, trace: TracebackType | None) -> TracebackType | None:
        """Return a traceback from the program's first frame on; unchanged if it has no frame of the program."""
        line = trace
        while line is not None:
            if line.tb_frame.f_code.co_filename == str(self.path):
                return line
            line = line.tb_next
        return trace


def settings_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variable with the settings of the command line; other users can read arguments."""
    return {OPTIONS_VARIABLE: json.dumps(settings)}


def _show(error: Exception) -> None:
    """Print the program's exception like the interpreter, with secrets hidden, because the output may be a file."""
    text = "".join(traceback.format_exception(error))
    if (shown := shown_text(text)) == text:
        sys.excepthook(type(error), error, error.__traceback__)
        return
    with contextlib.suppress(OSError):  # standard error is full or closed: the exit code still tells the result
        sys.stderr.write(shown)


def _tell_losses() -> bool:
    """Print the losses of finished jobs of the program, and return whether there are any."""
    lines = take_given_up()
    for line in lines:
        say(f"penstock: {line}")
    if lines:
        say("penstock: These records are in no output. A start from a checkpoint before them makes them again.")
    return bool(lines)
