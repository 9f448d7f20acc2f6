"""Writes the part of ``docs/cli.md`` that follows from the commands themselves.

``python -m tests.docs.cli_reference`` writes it anew; a test says when that is due.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock._engine.cli.main import cli
from penstock._engine.processes.exit_codes import MEANINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
BEGIN, END = "<!-- made by tests/docs/cli_reference.py: begin -->\n", "<!-- end -->\n"

OTHER_CODES = """\
| 128 + n | Signal n ended it: 130 after Ctrl-C, 143 after SIGTERM, 137 after SIGKILL. A job that stopped or was \
cancelled in good order by such a signal ends like this as well. |
| any other | `run`: the program ended itself with that code. |"""


def commands(group: click.Group, above: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{above} {name}")
        else:
            yield f"{above} {name}", command


def section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    words = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [f"### {name}", f"`{words}`", inspect.cleandoc(command.help or "")]
    options = [option for option in command.params if isinstance(option, click.Option)]
    if options:
        rows = "\n".join(
            f"| {shown(option, context)} | {option.help}{defaults(option, context)} |" for option in options
        )
        parts.append(f"| Option | |\n| --- | --- |\n{rows}")
    return "\n\n".join(parts)


def shown(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} {option.make_metavar(context)}".replace("|", " or ")


def defaults(option: click.Option, context: click.Context) -> str:
    notes: list[str] = []
    if option.show_default:
        notes.append(f"default: {option.get_default(context)}")
    if option.show_envvar:
        notes.append(f"environment variable: `{option.envvar}`")
    return f" ({'; '.join(notes)})" if notes else ""


def reference() -> str:
    """Return the part with its marks."""
    codes = "\n".join(f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items())
    exit_codes = f"## Exit codes\n\n| Code | Meaning |\n| --- | --- |\n{codes}\n{OTHER_CODES}"
    sections = "\n\n".join(section(name, command) for name, command in commands(cli, "penstock"))
    return f"{BEGIN}\n{exit_codes}\n\n## Commands\n\n{sections}\n\n{END}"


def updated(text: str) -> str:
    """Return the document with the part as it must be."""
    before, _, rest = text.partition(BEGIN)
    return before + reference() + rest.partition(END)[2]


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text()))
