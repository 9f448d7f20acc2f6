"""The command ``penstock run``: a program with settings, in this process, detached from it or supervised by it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock._engine.cli.config_command import configured
from penstock._engine.cli.options import (
    SecondsType,
    checked_settings,
    json_option,
    settings_option,
)
from penstock._engine.cli.output import print_facts, print_json, say, waiting
from penstock._engine.cli.script import UserProgram, settings_environment
from penstock._engine.processes.exit_codes import SIGNALLED, ExitCode
from penstock._engine.processes.log_limit import keep_own_log_small
from penstock.common import option_table
from penstock.common.config_loading import command_line_settings

if TYPE_CHECKING:
    from penstock._engine.processes.detached import DetachedProgram

_CLAIM_MODES = ("NO_CLAIM", "CLAIM")


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("script", type=click.Path(exists=True, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
@settings_option
@click.option(
    "-s",
    "--from-savepoint",
    metavar="PATH",
    help="Start from a savepoint or checkpoint; `latest`: from the job's newest checkpoint, which must be there.",
)
@click.option(
    "--allow-first-start",
    is_flag=True,
    help="With `-s latest`: begin a job of which the checkpoint directory has no record.",
)
@click.option(
    "-n",
    "--allow-non-restored-state",
    is_flag=True,
    help="Drop state of operators that the job does not have.",
)
@click.option(
    "--committable",
    "committables",
    multiple=True,
    metavar="ID=ACTION",
    help="What becomes of a committable that cannot be committed: publish, skip, give-up, or give-up:FILE for its "
    "records.",
)
@click.option(
    "--claim-mode",
    type=click.Choice(_CLAIM_MODES, case_sensitive=False),
    metavar="|".join(_CLAIM_MODES),
    help="Whether the job owns, and so deletes, what it is started from.",
)
@click.option(
    "-p", "--parallelism", metavar="N", help="Subtasks of each operator for which the program does not say how many."
)
@click.option(
    "--no-takeover", is_flag=True, help="Start nothing where the job runs already; without it, it is taken over."
)
@click.option("--progress", is_flag=True, help="Show a line with records, epochs and checkpoints in the terminal.")
@click.option(
    "-d",
    "--detached",
    is_flag=True,
    help="Start the program in a process and session of its own, and print its job once that runs.",
)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where a detached program writes what it prints; a file of its own below `~/.local/state/penstock/logs` "
    "without it.",
)
@click.option(
    "--supervise",
    is_flag=True,
    help="Start the program again from its newest checkpoint after a crash, until it ends for good.",
)
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    metavar="N",
    default=10,
    show_default=True,
    help="With --supervise: give up when more restarts than this would fall into one --restart-window.",
)
@click.option(
    "--restart-window", type=SecondsType(), default="10 min", show_default=True, metavar="DURATION", help="See above."
)
@click.option(
    "--restart-delay",
    type=SecondsType(),
    default="1 s",
    show_default=True,
    metavar="DURATION",
    help="With --supervise: the time before each restart.",
)
@click.option(
    "--settings-of-environment",
    "inherits",
    is_flag=True,
    hidden=True,
    help="Take the settings from the environment; for processes that this command starts.",
)
@json_option
def run(
    script: Path,
    arguments: tuple[str, ...],
    *,
    settings: tuple[tuple[str, str], ...],
    from_savepoint: str | None,
    allow_first_start: bool,
    allow_non_restored_state: bool,
    committables: tuple[str, ...],
    claim_mode: str | None,
    parallelism: str | None,
    no_takeover: bool,
    progress: bool,
    detached: bool,
    log_file: Path | None,
    supervise: bool,
    max_restarts: int,
    restart_window: int,
    restart_delay: int,
    inherits: bool,
    as_json: bool,
) -> int | UserProgram:
    """Run a program.

    Words after SCRIPT are the program's own. Without -d and --supervise it runs as `python SCRIPT` would, and its
    exit code is passed on.
    """
    if script.is_dir() and not (script / "__main__.py").exists():
        raise click.BadParameter(f"{str(script)!r} is a folder without a __main__.py.", param_hint="'SCRIPT'")
    first_start = "true" if allow_first_start else None
    if from_savepoint == option_table.LATEST and not (allow_first_start or inherits):
        # Whoever asks for it here knows of an earlier run, unless the configuration has the key.
        first_start = configured(script, settings)[option_table.ALLOW_FIRST_START.key] or "false"
    given_short = (
        (option_table.RECOVERY_PATH, from_savepoint),
        (option_table.ALLOW_FIRST_START, first_start),
        (option_table.IGNORE_UNCLAIMED_STATE, "true" if allow_non_restored_state else None),
        (option_table.COMMITTABLES, ";".join(committables) or None),
        (option_table.RECOVERY_CLAIM_MODE, claim_mode and claim_mode.upper()),
        (option_table.PARALLELISM, parallelism),
        (option_table.TAKEOVER, "false" if no_takeover else None),
        (option_table.PROGRESS_ENABLED, "true" if progress else None),
    )
    short = [(option.key, value) for option, value in given_short if value is not None]
    keep_own_log_small()
    given = _inherited_settings() if inherits else checked_settings(settings, *short)
    if not detached and (as_json or log_file is not None):
        raise click.UsageError("--json and --log-file go with --detached.")
    if detached:
        from penstock._engine.processes.detached import start_detached

        extra = ("--supervise", *_supervision(max_restarts, restart_window, restart_delay)) if supervise else ()
        command = _command(script, arguments, extra)
        with waiting(f"Starting {script.name}"):
            program = start_detached(command, settings_environment(given), script, log_file)
        return _show_detached(program, script, as_json=as_json)
    if supervise:
        from penstock._engine.processes.supervisor import RestartLimit, Supervisor

        limit = RestartLimit(max_restarts, restart_window)
        command = _command(script, arguments)
        return Supervisor(command, limit, restart_delay, environment=settings_environment(given)).run()
    return UserProgram(script, arguments, given)


def _show_detached(program: DetachedProgram, script: Path, *, as_json: bool) -> int:
    """Print the job of a detached program, or how it ended without one; return the exit code."""
    job, code = program.job, program.code
    if code is not None:
        say(f"penstock: {script.name} ended before a job of it ran, with code {code}. Its last lines ({program.log}):")
        say(program.last_lines())
        return SIGNALLED - code if code < 0 else code
    if as_json:
        found = None if job is None else {"id": job.job_id, "name": job.name, "address": job.address}
        print_json({"pid": program.pid, "log": str(program.log), "job": found})
    else:
        facts: list[tuple[str, object]] = [("Process", program.pid), ("Log", program.log)]
        if job is not None:
            facts = [("Job", f"{job.name} ({job.job_id})"), ("Address", job.address), *facts]
        print_facts(facts)
    if job is None:
        from penstock._engine.processes.detached import PATIENCE_S

        say(
            f"{script.name} runs, but had no job that could be asked within {PATIENCE_S:.0f} s. `penstock list` shows "
            "it as soon as there is one; what the program prints is in the log."
        )
    return ExitCode.OK


def _supervision(max_restarts: int, restart_window: int, restart_delay: int) -> tuple[str, ...]:
    return (
        f"--max-restarts={max_restarts}",
        f"--restart-window={restart_window}",
        f"--restart-delay={restart_delay}",
    )


def _inherited_settings() -> dict[str, str]:
    """Return the settings of the command that started this process."""
    return {key: setting.value for key, setting in command_line_settings(os.environ).items()}


def _command(script: Path, arguments: tuple[str, ...], extra: tuple[str, ...] = ()) -> list[str]:
    """Return the command that runs the program in another process, which finds its settings in its environment."""
    # -P: a module in the working directory must not hide one that the command needs.
    return [
        sys.executable,
        "-P",
        "-m",
        "penstock",
        "run",
        "--settings-of-environment",
        *extra,
        "--",
        str(script),
        *arguments,
    ]
