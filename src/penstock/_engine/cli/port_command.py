"""The command ``penstock port``: converts a PyFlink program to Penstock."""

from __future__ import annotations

import sys
import tokenize
from pathlib import Path

import click

from penstock._engine.cli.output import say
from penstock._engine.cli.porting import ported
from penstock._engine.processes.exit_codes import ExitCode


@click.command("port")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="The file to write; standard output by default. It may be the script itself.",
)
def port(script: Path, output: Path | None) -> int:
    """Change the imports of a PyFlink program from pyflink to penstock.

    Layout and comments stay as they are. What cannot work then, or has no effect, is listed on standard error with its
    line, the reason and what to do; the exit code is 1 if there is any.
    """
    try:
        with tokenize.open(script) as file:
            charset, text = file.encoding, file.read()
        done = ported(text)
    except (SyntaxError, UnicodeError) as error:
        say(f"{script} is no Python: {error}.")
        return ExitCode.FAILED
    if output is None:
        sys.stdout.write(done.text)
    else:
        output.write_text(done.text, encoding=charset)
    for remark in done.remarks:
        say(f"{script}:{remark.line}: {remark.what}: {remark.reason}.")
    place = "" if output is None else f" in {output}"
    say(f"Changed {done.changes} imports and uses of pyflink{place}; {len(done.remarks)} to look at.")
    return ExitCode.FAILED if done.remarks else ExitCode.OK
