"""The entry point of the ``penstock`` command: its commands and its exit code."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, cast

import click

from penstock import __version__
from penstock._engine.cli.clean_command import clean
from penstock._engine.cli.config_command import show_config
from penstock._engine.cli.demo_command import demo
from penstock._engine.cli.doctor_command import doctor
from penstock._engine.cli.history_command import history
from penstock._engine.cli.job_commands import cancel, checkpoint, dashboard, info, list_jobs, stop, take_savepoint
from penstock._engine.cli.output import say
from penstock._engine.cli.port_command import port
from penstock._engine.cli.run_command import run
from penstock._engine.cli.savepoint_commands import dispose_savepoint, inspect_savepoint, sign_savepoint
from penstock._engine.cli.script import UserProgram
from penstock._engine.processes.exit_codes import SIGNALLED, ExitCode, exit_code_of
from penstock.common.process import protect_standard_streams
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Errors of standard output: its reader has ended, its disk is full, its terminal was closed.
_LOST = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_SHELLS = ("bash", "zsh", "fish")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="penstock", message="%(prog)s %(version)s")
def cli() -> None:
    """Run DataStream jobs, and see, stop and resume them."""


@click.group
def savepoint() -> None:
    """Take, read, sign and dispose savepoints."""


@click.command
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> int:
    """Print the completion script of a shell.

    Put `eval "$(penstock completion bash)"` into `~/.bashrc`, the same with `zsh` into `~/.zshrc`, and for fish
    `penstock completion fish | source` into `~/.config/fish/config.fish`.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "penstock", "_PENSTOCK_COMPLETE").source())
    return ExitCode.OK


for command in (take_savepoint, inspect_savepoint, dispose_savepoint, sign_savepoint):
    savepoint.add_command(command)
for command in (
    run,
    list_jobs,
    info,
    dashboard,
    history,
    stop,
    savepoint,
    checkpoint,
    cancel,
    clean,
    show_config,
    doctor,
    demo,
    port,
    completion,
):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code.

    Args:
        arguments: The words after the command's name; the process's own by default.
    """
    protect_standard_streams()
    try:
        result = cast("int | UserProgram | None", cli.main(arguments, prog_name="penstock", standalone_mode=False))
        sys.stdout.flush()  # else it would fail at the exit of the process, where it cannot be handled
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.ctx.get_help() if error.ctx else error.format_message())
        return ExitCode.USAGE
    except click.Abort:
        say("penstock: interrupted.")
        return SIGNALLED + 2
    except click.ClickException as error:
        return _tell(error)
    except PenstockError as error:
        say(f"penstock: {error}")
        return exit_code_of(error)
    except OSError as error:
        if error.filename is not None or error.errno not in _LOST:
            raise
        _let_go_of_output()
        if error.errno != errno.EPIPE:  # the reader has ended
            say(f"penstock: standard output cannot be written to: {error.strerror}.")
        return ExitCode.FAILED
    # The program runs outside of click, which would take its interruptions for ours.
    return result.run() if isinstance(result, UserProgram) else result or ExitCode.OK


def _let_go_of_output() -> None:
    """Redirect the rest of the output to the null device, because the interpreter writes it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _tell(error: click.ClickException) -> int:
    """Print the error of a call, in one line."""
    context = getattr(error, "ctx", None)
    text = error.format_message()
    if isinstance(error, click.UsageError) and context is not None:
        text = f"{text} Try '{context.command_path} --help'."
    say(f"penstock: {text}")
    return error.exit_code
