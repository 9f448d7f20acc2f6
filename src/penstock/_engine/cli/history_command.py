"""The command ``penstock history``, and the ended jobs of ``penstock list --all``: what archives tell of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from penstock._engine.cli.config_command import effective_configuration_of
from penstock._engine.cli.options import existing_directories, settings_option
from penstock._engine.cli.output import say
from penstock._engine.processes.exit_codes import ExitCode
from penstock._engine.protocol.clocks import time_text
from penstock._engine.storage.opening import local_path, storage_options
from penstock.common import option_table
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Flink's port of its history server, and those that are tried behind it.
_PORTS: Final = "8082-8181"
_KEY: Final = option_table.ARCHIVE_DIRECTORY.key


def _directory(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    return None if given is None else existing_directories(context, parameter, (given,))[0]


@click.command
@click.argument("directory", required=False, callback=_directory)
@click.option("--port", type=click.IntRange(0, 65535), help="Where it listens; 8082 or the next free one without it.")
@settings_option
def history(directory: str | None, *, port: int | None, settings: tuple[tuple[str, str], ...]) -> int:
    """Serve the dashboard of jobs that have ended.

    DIRECTORY is where jobs leave their archives: `jobmanager.archive.fs.dir`, of the configuration where it is left
    out. Runs whose driver was killed are shown by their checkpoints. The paths are those of Flink's history server.
    """
    # Imported here: other commands do without the server.
    from penstock._engine.rest.history import History
    from penstock._engine.rest.history_server import serve_history
    from penstock._engine.rest.settings import RestSettings

    configuration = effective_configuration_of(None, settings)
    place = directory or configuration.get(option_table.ARCHIVE_DIRECTORY)
    if place is None:
        raise click.UsageError(f"Name the directory of archives, or set {_KEY}.")
    options = storage_options(configuration)
    configuration.set_string(option_table.REST_BIND_PORT.key, _PORTS if port is None else str(port))
    told = "Penstock history of {}: {}  (Ctrl-C ends it)"
    try:
        serve_history(
            History(place, options), RestSettings.read(configuration), lambda link: say(told.format(place, link))
        )
    except KeyboardInterrupt:
        say("")
    return ExitCode.OK


def ended_rows(known: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each run that the configured directory of archives knows as ended, or lost.

    Args:
        known: The rows of jobs whose drivers answer: their runs are left out.
    """
    configuration = effective_configuration_of(None, ())
    place = configuration.get(option_table.ARCHIVE_DIRECTORY)
    if place is None:
        return []
    from penstock._engine.rest.history import History

    runs = {row.get("penstock", {}).get("run_id") for row in known}
    try:
        lines = History(place, storage_options(configuration)).lines()
    except CheckpointStorageError as error:
        say(f"The archives of ended jobs cannot be read: {error}")
        return []
    return [
        {**line, "state": "LOST" if "lost" in line.get("penstock", {}) else line["state"], "address": "-"}
        for line in lines
        if line.get("penstock", {}).get("run_id") not in runs
    ]


def lost_text(lost: dict[str, Any]) -> str:
    """Return since when a job is lost, and how it is resumed.

    Example:
        >>> lost_text({"since": 0, "host": "box", "pid": 7, "is_gone": True, "was_resumed": True, "checkpoint": None})
        'lost since -: process 7 on box is gone. Another run of it has begun since.'
    """
    what = "is gone" if lost["is_gone"] else "gives no sign"
    gone = f"lost since {time_text(lost['since'])}: process {lost['pid']} on {lost['host']} {what}."
    if lost["was_resumed"]:
        return f"{gone} Another run of it has begun since."
    if lost["checkpoint"] is None:
        return f"{gone} No checkpoint of it stayed: its program starts it fresh."
    return f"{gone} Resume it with: penstock run -s {local_path(lost['checkpoint'])} SCRIPT"
