"""Prints the commands' output: data as JSON or tables on standard output, all else on standard error."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penstock._errors.text import printable
from penstock.common.process import report

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

#: Characters that JSON leaves unescaped and a terminal or an encoder does not accept.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

#: Lines in a file or a pipe are not wrapped.
_UNBOUNDED_WIDTH = 10_000


def say(text: str) -> None:
    """Print a line on standard error, if it is open."""
    report(text)


def print_json(value: object) -> None:
    """Print data for programs."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    print(_UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below the names of their columns; on a terminal, long values are wrapped."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(str(cell))) for cell in row))
    _print(table)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print names with their values, one on each line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, escape(printable(str(value))))
    _print(table)


@contextmanager
def waiting(text: str) -> Generator[None]:
    """Show on the terminal that something is under way; elsewhere nothing is shown."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(escape(text)):
        yield


def duration_text(ms: int) -> str:
    """Return a length of time for people.

    Example:
        >>> duration_text(950), duration_text(61_000), duration_text(90_061_000)
        ('950 ms', '1 m 1 s', '1 d 1 h')
    """
    if ms < 1000:
        return f"{ms} ms"
    parts: list[str] = []
    seconds = ms // 1000
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count or (parts and len(parts) < 2):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def size_text(size: int) -> str:
    """Return a number of bytes for people.

    Example:
        >>> size_text(900), size_text(3 << 20)
        ('900 B', '3.0 MiB')
    """
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def count_text(count: int, thing: str) -> str:
    """Return a number of things for people.

    Example:
        >>> count_text(1, "file"), count_text(1200, "file")
        ('1 file', '1,200 files')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _print(table: Table) -> None:
    console = Console()
    if console.is_terminal:
        console.print(table)
        return
    plain = Console(width=_UNBOUNDED_WIDTH)
    with plain.capture() as printed:
        plain.print(table)
    print("\n".join(line.rstrip() for line in printed.get().splitlines()))
