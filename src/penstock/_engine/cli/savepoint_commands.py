"""The commands about savepoints in storage; they contact no job and unpickle nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock._engine.cli.config_command import configured, configured_storage
from penstock._engine.cli.options import existing_directories, json_option, script_option, settings_option
from penstock._engine.cli.output import (
    count_text,
    print_facts,
    print_json,
    print_table,
    say,
    size_text,
    waiting,
)
from penstock._engine.processes.exit_codes import ExitCode
from penstock._engine.protocol.clocks import time_text
from penstock.common import option_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock._engine.savepoints.inspection import OperatorInfo, SavepointInfo


@click.command("inspect")
@click.argument("path", type=click.Path())
@click.option("--verify", is_flag=True, help="Read all files and compare them with their checksums.")
@click.option("--count-keys", is_flag=True, help="Count keys also where that means reading all of them.")
@script_option
@settings_option
@json_option
def inspect_savepoint(
    path: str,
    *,
    verify: bool,
    count_keys: bool,
    script: Path | None,
    settings: tuple[tuple[str, str], ...],
    as_json: bool,
) -> int:
    """Show what is in a savepoint or checkpoint.

    PATH is its directory, local or in an object store. The user's classes are not needed.
    """
    from penstock._engine.savepoints.inspection import inspect

    with waiting(f"Reading {path}"):
        options = configured_storage(script, settings)
        info = inspect(path, verify=verify, count_keys=count_keys, options=options)
    if as_json:
        print_json(asdict(info))
    else:
        _show(info)
    return ExitCode.OK


@click.command("dispose")
@click.argument("path", type=click.Path())
@click.option(
    "--checkpoint-dir",
    multiple=True,
    metavar="DIRECTORY",
    callback=existing_directories,
    help="Where jobs keep checkpoints that may continue from it; `execution.checkpointing.dir` of the configuration "
    "without it. May be given several times.",
)
@click.option(
    "--no-job-waits",
    is_flag=True,
    help="No job continues from it: needed where that cannot be known, and without effect where a job is known to.",
)
@script_option
@settings_option
@json_option
def dispose_savepoint(
    path: str,
    *,
    checkpoint_dir: tuple[str, ...],
    no_job_waits: bool,
    script: Path | None,
    settings: tuple[tuple[str, str], ...],
    as_json: bool,
) -> int:
    """Delete a savepoint.

    Refuses a checkpoint, a savepoint that a job continues from next, and a directory with other files in it. A job that
    was stopped into it has left a note in it, so that its checkpoints are found.
    """
    from penstock._engine.savepoints.disposal import dispose

    known = configured(script, settings)[option_table.CHECKPOINT_DIRECTORY.key]
    with waiting(f"Deleting {path}"):
        directories = checkpoint_dir or (() if known is None else (known,))
        options = configured_storage(script, settings)
        done = dispose(path, directories, options, no_job_waits=no_job_waits)
    if as_json:
        print_json(asdict(done))
    else:
        say(f"Deleted {done.path}: {count_text(done.files, 'file')}, {size_text(done.bytes)}.")
    return ExitCode.OK


@click.command("sign")
@click.argument("path", type=click.Path())
@script_option
@settings_option
@json_option
def sign_savepoint(path: str, *, script: Path | None, settings: tuple[tuple[str, str], ...], as_json: bool) -> int:
    """Sign a savepoint or checkpoint as it is, with the key of the configuration.

    For savepoints from before there was a key, or of another user: their writer is trusted from then on.
    """
    from penstock._engine.savepoints.signing import sign

    with waiting(f"Signing {path}"):
        done = sign(path, configured_storage(script, settings))
    if as_json:
        print_json(asdict(done))
    else:
        job = f"checkpoint {done.checkpoint_id} of job {done.job_name!r} ({done.job_id})"
        say(f"Signed {done.path}: {job}, {count_text(done.files, 'file')}.")
    return ExitCode.OK


def _show(info: SavepointInfo) -> None:
    facts: list[tuple[str, object]] = [
        ("Path", info.path),
        ("Kind", info.kind),
        ("Job", f"{info.job_name} ({info.job_id})"),
        ("Checkpoint", info.checkpoint_id),
        ("Made", f"{time_text(info.created_ms)} by Penstock {info.penstock_version}, format {info.format_version}"),
        (
            "State",
            f"{size_text(info.bytes)} in {count_text(info.files, 'file')}{', verified' if info.verified else ''}",
        ),
    ]
    later = (("Follows", info.parent), ("Stopped into", info.savepoint), ("Reason", info.reason))
    print_facts([*facts, *((name, value) for name, value in later if value)])
    if info.operators:
        click.echo()
        columns = (
            "OPERATOR",
            "UID",
            "PARALLELISM",
            "STATE",
            "KIND",
            "KEYS",
            "ITEMS OR VALUE",
            "ENTRIES IN FILES",
            "SIZE",
        )
        print_table(columns, (row for operator in info.operators for row in _rows(operator)))
        if any(state.keys is None for operator in info.operators for state in operator.keyed_states):
            say("Files have an entry for each change, so a key may have several. --count-keys reads and counts them.")
    if info.committables:
        click.echo()
        rows = (
            (one.id, one.uid, one.checkpoint_id, one.subtask, one.retries, size_text(one.bytes), one.contents)
            for one in info.committables
        )
        print_table(("TO COMMIT", "SINK", "CHECKPOINT", "SUBTASK", "RETRIES", "SIZE", "CONTENTS"), rows)
        say("They were to be committed when this was made. A start from here commits those that are not committed yet.")


def _rows(operator: OperatorInfo) -> Iterator[tuple[object, ...]]:
    """Yield a line for an operator, and one for each of its states."""
    head = (operator.name, operator.uid, f"{operator.parallelism} of {operator.max_parallelism}")
    notes = [
        f"{count} {what}"
        for count, what in (
            (operator.finished_subtasks, "finished"),
            (operator.drained_subtasks, "drained"),
            (operator.pending_committables, "committables to commit"),
            (operator.committed_committables, "committables to pass on"),
        )
        if count
    ]
    if operator.source is not None:
        notes.append(f"{sum(operator.source.reader_splits) + operator.source.undelivered_splits} splits")
    yield (*head, ", ".join(notes) or "-", "", "", "", "", size_text(operator.bytes))
    for state in operator.keyed_states:
        keys = "not counted" if state.keys is None else f"{state.keys:,}"
        yield "", "", "", state.name, state.kind, keys, "", f"{state.entries:,}", size_text(state.bytes)
    for state in operator.operator_states:
        ended = f" ({state.finished_items:,} left by finished subtasks)" if state.finished_items else ""
        yield "", "", "", state.name, state.mode, "", f"{state.items:,}{ended}", "", ""
    for accumulator in operator.accumulators:
        yield "", "", "", accumulator.name, accumulator.type, "", accumulator.value, "", size_text(accumulator.bytes)
