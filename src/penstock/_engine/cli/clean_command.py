"""The command ``penstock clean``: lists the leftovers of dead jobs, and removes them on request."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock._engine.cli.config_command import configured, configured_storage
from penstock._engine.cli.options import SecondsType, existing_directories, json_option, script_option, settings_option
from penstock._engine.cli.output import (
    count_text,
    duration_text,
    print_json,
    print_table,
    say,
    size_text,
    waiting,
)
from penstock._engine.processes.exit_codes import ExitCode
from penstock._engine.processes.registry import JobRegistry, default_directory
from penstock._engine.protocol.clocks import time_text
from penstock.common import batch_options, option_table

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.savepoints.survey import LeftoverPlaces, Removal, Survey


@click.command
@click.option("--remove", is_flag=True, help="Remove what is found; without it, nothing is changed.")
@click.option(
    "--checkpoint-dir",
    multiple=True,
    metavar="DIRECTORY",
    callback=existing_directories,
    help="Directories of checkpoints; `execution.checkpointing.dir` of the configuration without it.",
)
@click.option(
    "--savepoint-dir",
    multiple=True,
    metavar="DIRECTORY",
    callback=existing_directories,
    help="Directories of savepoints; `execution.checkpointing.savepoint-dir` of the configuration without it.",
)
@click.option(
    "--sink-dir",
    multiple=True,
    metavar="DIRECTORY",
    callback=existing_directories,
    help="Folders that file sinks write to.",
)
@click.option(
    "--ended-job",
    multiple=True,
    metavar="ID",
    help="A job that will not be resumed, although its chain does not say that it has ended: a killed one.",
)
@click.option(
    "--retained",
    is_flag=True,
    help="Also checkpoints that earlier runs of an ended job have left, and its last run did not continue from.",
)
@click.option(
    "--local/--no-local",
    default=None,
    help="Also temporary directories of this user's dead processes on this machine, of any job. Without either option "
    "they are shown, and --remove leaves them.",
)
@click.option(
    "--min-age",
    type=SecondsType(),
    default="1 h",
    show_default=True,
    metavar="DURATION",
    help="Leave alone what was touched within this time.",
)
@click.option(
    "--older-than",
    type=SecondsType(),
    default="7 d",
    show_default=True,
    metavar="DURATION",
    help="Results and events of a batch job that was lost with its driver, and not resumed within this time.",
)
@script_option
@settings_option
@json_option
def clean(
    *,
    remove: bool,
    checkpoint_dir: tuple[str, ...],
    savepoint_dir: tuple[str, ...],
    sink_dir: tuple[str, ...],
    ended_job: tuple[str, ...],
    retained: bool,
    local: bool | None,
    min_age: int,
    older_than: int,
    script: Path | None,
    settings: tuple[tuple[str, str], ...],
    as_json: bool,
) -> int:
    """Show what dead jobs left behind, or remove it.

    Nothing is listed that a job which runs, or can be resumed, may need. Each file comes with the reason why it is
    dead. Several directories: give the option several times.
    """
    from penstock._engine.savepoints.leftovers import find_leftovers, remove_leftovers
    from penstock._engine.savepoints.survey import LeftoverKind, LeftoverPlaces

    values = configured(script, settings)
    places = LeftoverPlaces(
        checkpoint_directories=checkpoint_dir or _known(values[option_table.CHECKPOINT_DIRECTORY.key]),
        savepoint_directories=savepoint_dir or _known(values[option_table.SAVEPOINT_DIRECTORY.key]),
        sink_directories=sink_dir,
        ended_jobs=frozenset(ended_job),
        retained=retained,
        batch_directories=_known(values[batch_options.HA_STORAGE.key]),
        running_jobs=frozenset(entry.job_id for entry in JobRegistry(default_directory()).entries()),
        local=local is not False,
        options=tuple(configured_storage(script, settings).items()),
    )
    with waiting("Looking for leftovers"):
        survey = find_leftovers(places, min_age_ms=1000 * min_age, abandoned_age_ms=1000 * older_than)
    removal = None
    asked = [one for one in survey.leftovers if local or one.kind is not LeftoverKind.LOCAL_DIRECTORY]
    if remove:
        with waiting(f"Removing {count_text(len(asked), 'leftover')}"):
            removal = remove_leftovers(asked, dict(places.options))
    if as_json:
        print_json({"survey": asdict(survey), "removal": None if removal is None else asdict(removal)})
    else:
        _show(survey, removal, kept=len(survey.leftovers) - len(asked))
        _say_what_was_not_seen(places, min_age)
    return ExitCode.FAILED if removal is not None and removal.failed else ExitCode.OK


def _known(directory: str | None) -> tuple[str, ...]:
    return () if directory is None else (directory,)


def _say_what_was_not_seen(places: LeftoverPlaces, min_age: int) -> None:
    """Say where nobody has looked: a clean answer is none about places that were not given."""
    if not places.checkpoint_directories:
        say(
            "No directory of checkpoints was looked into, so leftovers of jobs may be there: name it with "
            "--checkpoint-dir, or set execution.checkpointing.dir."
        )
    if min_age:
        say(f"What was touched within {duration_text(1000 * min_age)} was not looked at (--min-age).")


def _show(survey: Survey, removal: Removal | None, *, kept: int) -> None:
    if survey.leftovers:
        rows = (
            (one.kind, size_text(one.bytes), time_text(one.modified_ms), one.path, one.reason)
            for one in survey.leftovers
        )
        print_table(("KIND", "SIZE", "CHANGED", "PATH", "WHY IT IS DEAD"), rows)
    for unclear in survey.unclear:
        say(f"Left alone: {unclear.path}: {unclear.reason}.")
    found, size = count_text(len(survey.leftovers), "leftover"), size_text(survey.bytes)
    if not survey.leftovers:
        say("Nothing is left over.")
    elif removal is None:
        say(f"{found}, {size}. To remove them: the same with --remove.")
    else:
        for leftover, reason in removal.failed:
            say(f"Not removed: {leftover.path}: {reason}.")
        removed = count_text(len(removal.removed), "leftover")
        say(f"Removed {removed}, {size_text(sum(one.bytes for one in removal.removed))}.")
    if kept:
        say(
            f"{count_text(kept, 'leftover')} of dead processes on this machine, perhaps of other jobs than those "
            "above: penstock clean --local --remove removes them."
        )
    if os.environ.get("SPARK_MASTER", "local").partition("[")[0] != "local":
        say(
            "The hosts of the cluster have state of their own: what killed executors left there is removed by the next "
            "job of the same user on that host, or by `penstock clean --remove` there, with its SPARK_LOCAL_DIRS."
        )
