"""The command ``penstock demo``: runs the demo as `penstock run` runs a program."""

from __future__ import annotations

from pathlib import Path

import click

import penstock
from penstock._engine.cli.script import UserProgram

#: It is a program like a user's: this command knows nothing of it but its place.
_DEMO = Path(penstock.__file__).with_name("_demo") / "__main__.py"


@click.command(context_settings={"ignore_unknown_options": True}, add_help_option=False, options_metavar="")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS]")
def demo(arguments: tuple[str, ...]) -> UserProgram:
    """Run a job on the flights that left New York in 2013, and show its table and chart.

    With `--crash` it is killed half-way, started again, and the files of both runs are compared; `--help` lists the
    other options. Needs the extra `demo`.
    """
    return UserProgram(_DEMO, arguments, {})
