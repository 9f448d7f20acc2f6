"""Converts a PyFlink program to Penstock.

Only the package's name is changed, at the places that Python's parser reports, so layout and comments stay.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock._engine.cli.port_findings import Finding, findings

if TYPE_CHECKING:
    from collections.abc import Iterator

_OLD: Final = "pyflink"
_NEW: Final = "penstock"
#: A line with its end as Python has lines: a form feed and the separators of Unicode are within one.
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


@dataclass(frozen=True, slots=True)
class Ported:
    """A program with its imports changed."""

    text: str
    #: The number of changed imports and uses of the package.
    changes: int
    findings: tuple[Finding, ...]


def ported(text: str) -> Ported:
    r"""Change the imports of a program from ``pyflink`` to ``penstock``.

    Args:
        text: The program.

    Raises:
        SyntaxError: It is not Python.
        ValueError: It is not Python; it has a zero byte.

    Example:
        >>> done = ported("from pyflink.table import DataTypes  # types\n")
        >>> done.text
        'from penstock.table import DataTypes  # types\n'
        >>> [finding.line for finding in done.findings]
        [1]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the program's texts, which stay as they are
        tree = ast.parse(text)
    lines = lines_of(text)
    places = sorted(_places(tree, lines))
    for line, column in reversed(places):
        before = lines[line - 1]
        lines[line - 1] = f"{before[:column]}{_NEW}{before[column + len(_OLD) :]}"
    return Ported("".join(lines), len(places), findings(tree))


def lines_of(text: str) -> list[str]:
    r"""Return the lines of a program as Python counts them, with their ends.

    Example:
        >>> lines_of("a\x0cb\r\nc\u2028d")
        ['a\x0cb\r\n', 'c\u2028d']
    """
    return _LINE.findall(text)


def _places(tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of the package's name: the line from 1, and the column in characters from 0."""
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) and _is_of_flink(node)]
    bounds = [(_start(node, lines), _end(node, lines)) for node in imports]
    behind = ""
    plain = "".join(line.rstrip("\r\n") + "\n" for line in lines)
    for token in tokenize.generate_tokens(io.StringIO(plain).readline):
        named = token.type == tokenize.NAME and token.string == _OLD
        # Behind a dot or "as" it is another name.
        if named and behind not in (".", "as") and any(start <= token.start < end for start, end in bounds):
            yield token.start
        behind = token.string
    if any(isinstance(node, ast.Import) and _binds_package(node) for node in imports):
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id == _OLD:
                yield _start(node, lines)


def _start(node: ast.stmt | ast.expr, lines: list[str]) -> tuple[int, int]:
    return node.lineno, _characters(lines[node.lineno - 1], node.col_offset)


def _end(node: ast.stmt, lines: list[str]) -> tuple[int, int]:
    line = node.end_lineno or node.lineno
    return line, _characters(lines[line - 1], node.end_col_offset or 0)


def _characters(line: str, count: int) -> int:
    """Return the column in characters for a column in bytes, which the parser counts."""
    return len(line.encode()[:count].decode())


def _is_of_flink(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.level == 0 and _is_old(node.module or "")
    return any(_is_old(alias.name) for alias in node.names)


def _binds_package(node: ast.Import) -> bool:
    return any(_is_old(alias.name) and alias.asname is None for alias in node.names)


def _is_old(module: str) -> bool:
    return module.partition(".")[0] == _OLD
