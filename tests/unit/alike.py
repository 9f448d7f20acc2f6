"""Finds blocks of code that have one shape: the same statements with other names, texts and numbers."""

from __future__ import annotations

import ast
import keyword
import re
from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A token: a name, or another one as it is; texts and numbers are all the same.
Token: TypeAlias = tuple[str, str]
#: A block's place: module, first line and last line.
Place: TypeAlias = tuple[str, int, int]

#: Names that a shape keeps.
KEPT = {*keyword.kwlist, "self", "cls"}
TOKENS = re.compile(
    r"""#.*|(?P<value>[rbf]{0,2}"(?:[^"\\]|\\.)*"|[rbf]{0,2}'(?:[^'\\]|\\.)*'|\d[\w.]*)|(?P<name>[^\W\d]\w*)|(?P<other>\S)"""
)


def blocks_alike(texts: dict[str, str], length: int) -> dict[tuple[str, ...], list[tuple[Place, Place]]]:
    """Return the modules, or pairs of them, that have blocks of one shape, and where.

    Only what functions do counts, within one class or function: declarations, imports, signatures and attributes that
    take an argument are alike by their nature. A name stands for another one throughout a block, or not at all.
    """
    places: dict[object, list[Place]] = defaultdict(list)
    for name, text in texts.items():
        for lines in _bodies(text):
            for start in range(len(lines) - length + 1):
                block = lines[start : start + length]
                places[_shape(block)].append((name, block[0][0], block[-1][0]))
    found: dict[tuple[str, ...], list[tuple[Place, Place]]] = defaultdict(list)
    for alike in places.values():
        for one, other in combinations(alike, 2):
            if one[0] != other[0] or other[1] > one[2]:
                found[tuple(sorted({one[0], other[0]}))].append((one, other))
    return found


def _shape(block: list[tuple[int, list[Token]]]) -> tuple[tuple[object, ...], ...]:
    numbers: dict[str, int] = {}
    return tuple(
        tuple(numbers.setdefault(text, len(numbers)) if kind == "name" else text for kind, text in tokens)
        for _, tokens in block
    )


def _bodies(text: str) -> Iterator[list[tuple[int, list[Token]]]]:
    """Yield the lines of each class and function of a module, each line with its number and tokens."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        numbered = [(number, _tokens(lines[number - 1])) for number in sorted(_lines_that_do(node))]
        yield [(number, tokens) for number, tokens in numbered if tokens and _is_work(tokens)]


def _tokens(line: str) -> list[Token]:
    found: list[Token] = []
    for match in TOKENS.finditer(line):
        kind, text = match.lastgroup, match[0]
        if kind is not None:
            kept = kind == "name" and text in KEPT
            found.append(("value", "value") if kind == "value" else ("other" if kept else kind, text))
    return found


def _is_work(tokens: list[Token]) -> bool:
    """Tell whether a line is more than punctuation, or an item of a list or call."""
    others = {text for kind, text in tokens if kind == "other"}
    is_item = others <= {",", ".", "="} and (tokens[-1][1] == "," or "=" not in others)
    return not is_item and any(kind != "other" or text in KEPT for kind, text in tokens)


def _lines_that_do(node: ast.AST) -> set[int]:
    """Return the first lines of functions, and the lines of what they do."""
    found: set[int] = set()
    for inner in ast.walk(node):
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
            done = [statement for statement in inner.body if not _is_declaration(statement)]
            if done and not any("overload" in ast.dump(decorator) for decorator in inner.decorator_list):
                found.add(inner.lineno)
                found.update(line for statement in done for line in _span(statement))
    for inner in ast.walk(node):
        if isinstance(inner, ast.stmt) and _is_declaration(inner):
            found.difference_update(_span(inner))
    return found


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_declaration(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()) | ast.AnnAssign(value=None):
            return True
        case ast.Assign(
            targets=[ast.Attribute() | ast.Tuple(elts=[ast.Attribute(), *_])],
            value=ast.Name() | ast.Constant() | ast.Tuple(),
        ):
            return True
        case ast.AnnAssign(target=ast.Attribute(), value=ast.Name() | ast.Constant()):
            return True
        case ast.Raise(exc=ast.Name(id="NotImplementedError")):
            return True
        case _:
            return False
