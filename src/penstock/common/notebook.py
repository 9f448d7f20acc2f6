"""Output in a notebook: whether there is one, outputs that renew themselves, tables, and cells that were interrupted.

A notebook's kernel is known by IPython, which this process has loaded then; Penstock itself never imports it. Whatever
is put into HTML is escaped here and nowhere else.
"""

from __future__ import annotations

import contextlib
import html
import sys
from typing import TYPE_CHECKING, Any, Final

from penstock._errors.text import printable
from penstock.common.user_values import short_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Of a text in a table, in characters.
_LONGEST: Final = 200
#: Rows of a table.
MOST_ROWS: Final = 50


def is_interactive() -> bool:
    """Tell whether a person types what this process runs: then an interruption ends that, and not the process."""
    return hasattr(sys, "ps1")


def _shell() -> Any:
    """Return the shell of a notebook's kernel; None elsewhere, as in IPython's shell for terminals."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if hasattr(shell, "kernel") else None


def is_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook."""
    return _shell() is not None


class Output:
    """One output of the present cell that renews itself in place.

    Args:
        text: What it shows at first: as text, for where there is no HTML.
        markup: The same as HTML.
    """

    def __init__(self, text: str, markup: str) -> None:
        from IPython.display import display  # pyright: ignore[reportMissingModuleSource, reportUnknownVariableType]

        self._handle: Any = display(_bundle(text, markup), raw=True, display_id=True)

    def update(self, text: str, markup: str) -> None:
        """Show something else in its place; a front end that has gone is no error."""
        with contextlib.suppress(Exception):  # what shows progress is never a reason to fail
            self._handle.update(_bundle(text, markup), raw=True)


def _bundle(text: str, markup: str) -> dict[str, str]:
    return {"text/plain": text, "text/html": markup}


# ------------------------------------------------------------------------------------------------- interrupted cells

#: What is closed when the cell that runs is interrupted. A cell that was drops what it has not given a name, before it
#: is known to be: so this holds them.
_open: set[Any] = set()


def close_when_interrupted(closeable: Any) -> None:
    """Close something when a cell ends by an interruption, unless it is forgotten before; does nothing elsewhere.

    A script ends with its Ctrl-C, and so do its jobs; a kernel goes on.
    """
    shell = _shell()
    if shell is not None:
        if _close_after not in shell.events.callbacks["post_run_cell"]:
            shell.events.register("post_run_cell", _close_after)
        _open.add(closeable)


def forget(closeable: Any) -> None:
    """Close something no more, as it has come to its end."""
    _open.discard(closeable)


def _close_after(result: Any) -> None:
    if isinstance(result.error_in_exec, KeyboardInterrupt):
        while _open:
            _open.pop().close()


# ------------------------------------------------------------------------------------------------------------ markup


def escaped(text: object) -> str:
    """Return a text for HTML: printable, and no longer than a cell of a table is to be."""
    shown = printable(str(text))
    return html.escape(shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…")


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, footer: str = "", is_text: bool = True
) -> str:
    """Return a table as HTML.

    Args:
        title: Stands above it.
        columns: The names of its columns; none for rows that begin with their names.
        rows: The values of each row; of many the first ones are shown.
        footer: Stands below it.
        is_text: Whether values are texts; else they are shown as Python writes them.

    Example:
        >>> table("<a>", (), [("x & y",)])
        '<table><caption>&lt;a&gt;</caption><tbody><tr><td>x &amp; y</td></tr></tbody></table>'
    """
    show: Callable[[object], object] = str if is_text else short_repr
    body: list[str] = []
    for row in rows:
        if len(body) == MOST_ROWS:
            footer = f"Only the first {MOST_ROWS} rows are shown. {footer}".rstrip()
            break
        body.append(f"<tr>{''.join(f'<td>{escaped(show(value))}</td>' for value in row)}</tr>")
    head = "".join(f"<th>{escaped(column)}</th>" for column in columns)
    parts = (
        f"<caption>{escaped(title)}</caption>",
        f"<thead><tr>{head}</tr></thead>" if head else "",
        f"<tbody>{''.join(body)}</tbody>",
    )
    return f"<table>{''.join(parts)}</table>" + (f"<p>{escaped(footer)}</p>" if footer else "")


def message(text: object) -> str:
    """Return a text in place of what cannot be shown."""
    return f"<p>{html.escape(printable(str(text)))}</p>"
