"""Converts a PyFlink program to Penstock, and finds calls that are not supported.

Only the package's name is changed, at the places that Python's parser reports, so layout and comments stay.
"""

from __future__ import annotations

import ast
import importlib
import io
import tokenize
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock import _absent
from penstock.errors import AbsentAttributeError, AbsentImportError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OLD: Final = "pyflink"
_NEW: Final = "penstock"

#: By the name of a method that is refused or has no effect: what to do.
_CALLS: Final = {
    "add_source": "it takes a Java object; use from_source(...) with a Source",
    "add_sink": "it takes a Java object; use sink_to(...) with a Sink",
    "add_jars": "it has no effect: connectors are written in Python; leave the call out",
    "add_classpaths": "it has no effect: nothing here runs Java code of Flink's; leave the call out",
    "set_buffer_timeout": "it has no effect: there are no network buffers; leave the call out",
    "get_java_type_info": "there is no Java object behind a type; leave the call out",
    "get_gateway": "there is no JVM of Flink's; leave the call out",
}


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """A part of a program that is not supported, or has no effect."""

    line: int
    #: The subject of the remark, such as a name.
    what: str
    #: The reason and the alternative, as a clause.
    reason: str


@dataclass(frozen=True, slots=True)
class Ported:
    """A program with its imports changed."""

    text: str
    #: The number of changed imports and uses of the package.
    changes: int
    remarks: tuple[Remark, ...]


def ported(text: str) -> Ported:
    r"""Change the imports of a program from ``pyflink`` to ``penstock``.

    Args:
        text: The program.

    Raises:
        SyntaxError: It is not Python.

    Example:
        >>> done = ported("from pyflink.table import DataTypes  # types\n")
        >>> done.text
        'from penstock.table import DataTypes  # types\n'
        >>> [remark.line for remark in done.remarks]
        [1]
    """
    tree = ast.parse(text)
    places = sorted(_places(tree, text))
    lines = text.splitlines(keepends=True)
    for line, column in reversed(places):
        before = lines[line - 1]
        lines[line - 1] = f"{before[:column]}{_NEW}{before[column + len(_OLD) :]}"
    return Ported("".join(lines), len(places), tuple(sorted(set(_remarks(tree)))))


# ----------------------------------------------------------------------------------------------------- what is changed


def _places(tree: ast.Module, text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the package's name: the line from 1, and the column in characters from 0."""
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) and _is_of_flink(node)]
    lines = text.splitlines()
    bounds = [(_start(node, lines), _end(node, lines)) for node in imports]
    behind = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
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
        return node.level == 0 and _below(node.module or "") is not None
    return any(_below(alias.name) is not None for alias in node.names)


def _binds_package(node: ast.Import) -> bool:
    return any(_below(alias.name) is not None and alias.asname is None for alias in node.names)


def _below(module: str) -> str | None:
    """Return a module's name below PyFlink; None for one of another package."""
    package, _, below = module.partition(".")
    return below if package == _OLD else None


# ----------------------------------------------------------------------------------------------------- what cannot work


def _remarks(tree: ast.Module) -> Iterator[Remark]:
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from _of_import(node, modules)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (below := _below(node.module or "")) is not None:
            yield from _of_import_from(node, below, modules)
    members = {name.rpartition(".")[2]: reason for (_, name), reason in _absent.table().items() if "." in name}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield from _of_attribute(node, modules, members)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _of_text(node.value, node.lineno)


def _of_import(node: ast.Import, modules: dict[str, str]) -> Iterator[Remark]:
    for alias in node.names:
        below = _below(alias.name)
        if below is None:
            continue
        modules[alias.asname or _OLD] = below if alias.asname else ""
        if (reason := _missing(below, "")) is not None:
            yield Remark(node.lineno, f"{_NEW}.{below}", reason)


def _of_import_from(node: ast.ImportFrom, below: str, modules: dict[str, str]) -> Iterator[Remark]:
    for alias in node.names:
        name = "" if alias.name == "*" else alias.name
        full = ".".join(filter(None, (_NEW, below, name)))
        reason = _missing(below, name)
        if reason is not None:
            yield Remark(alias.lineno, full, reason)
        elif name and _is_module(full):
            modules[alias.asname or name] = full.removeprefix(f"{_NEW}.")


def _of_attribute(node: ast.Attribute, modules: dict[str, str], members: dict[str, str]) -> Iterator[Remark]:
    reason = _CALLS.get(node.attr) or members.get(node.attr)
    if isinstance(node.value, ast.Name) and node.value.id in modules:
        below = modules[node.value.id]
        if not _is_module(".".join(filter(None, (_NEW, below, node.attr)))):
            reason = _missing(below, node.attr)
    if reason is not None:
        yield Remark(node.lineno, node.attr, reason)


def _of_text(value: str, line: int) -> Iterator[Remark]:
    if value == _OLD or (value.startswith(f"{_OLD}.") and value.replace(".", "").replace("_", "").isalnum()):
        yield Remark(line, repr(value), f"names in texts are not changed; write {value.replace(_OLD, _NEW, 1)!r}")


def _missing(below: str, name: str) -> str | None:
    """Return why a module, or a name in it, is missing; None if it exists."""
    module = ".".join(filter(None, (_NEW, below)))
    try:
        found = importlib.import_module(module)
        if name and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")
    except (AbsentImportError, AbsentAttributeError) as error:
        return error.reason
    except ImportError:
        return "Penstock has no such name; docs/pyflink-compatibility.md lists what it has"
    return None


def _is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
