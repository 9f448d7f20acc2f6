"""Small faults that can be put into a program, as tools for mutation testing know them, and a fair draw of some.

What is changed: comparisons, `and` and `or`, conditions, arithmetic, numbers and truth values, the order of arguments,
what is returned, what is caught, what a loop goes over, `break` and `continue`; and statements are left out.
What says nothing to a running program stays as it is: annotations, decorators, docstrings, asserts, what is there for
type checkers alone, and the text of messages.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
#: Functions that take their arguments in any order, and one that does nothing.
_IN_ANY_ORDER = ("max", "min", "cast")
#: Their negation is a mutation of their own.
_NEGATED = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)


@dataclass(frozen=True)
class Mutation:
    """One fault: a piece of a source file, and what takes its place."""

    path: str
    #: The class and function that it is in, as ``__qualname__`` has it.
    scope: str
    #: The text of the piece's first line, its number, and that of its statement.
    text: str
    line: int
    statement: int
    start: int
    end: int
    old: str
    new: str
    #: Which one of those that are equal up to here, from 0.
    number: int = 0

    @property
    def name(self) -> str:
        """What it is called: the same as long as its line is not changed."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        name = f"{self.path}::{self.scope}: {old} -> {new}" + (f" #{self.number}" if self.number else "")
        return name if self.text.startswith(old) else f"{name} in: {self.text}"

    def apply(self, source: bytes) -> bytes:
        """Return the source with the fault."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def draw(root: Path, paths: Iterable[str], seed: int) -> Iterator[Mutation]:
    """Draw mutations: each line once, in an order that only the seed and the line's own text decide.

    Thus a change of the program changes what is drawn near it, and nothing else.

    Args:
        root: The root of the tree.
        paths: Source files below it.
        seed: Another one gives another order.
    """

    def rank(*parts: object) -> bytes:
        return hashlib.sha256(repr((seed, *parts)).encode()).digest()

    lines: dict[tuple[str, int], list[Mutation]] = {}
    ranks: dict[tuple[str, int], bytes] = {}
    for path in paths:
        source = (root / path).read_bytes()
        seen = Counter[str]()
        for mutation in find(path, source):
            key = path, mutation.line
            if key not in lines:
                text = f"{mutation.scope} {mutation.text}"
                ranks[key] = rank(path, text, seen[text])
                seen[text] += 1
            lines.setdefault(key, []).append(mutation)
    for key in sorted(lines, key=lambda key: ranks[key]):
        yield min(lines[key], key=lambda mutation: rank(mutation.path, mutation.scope, mutation.old, mutation.new))


def find(path: str, source: bytes) -> Iterator[Mutation]:
    """Return all mutations of a source file."""
    texts, starts = source.splitlines(keepends=True), [0]
    for text in texts:
        starts.append(starts[-1] + len(text))
    seen = Counter[tuple[str, ...]]()
    for scope, statement, node, new in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        old = source[start:end].decode()
        line = node.lineno  # type: ignore[attr-defined]
        text = texts[line - 1].decode().strip()
        yield Mutation(path, scope, text, line, statement, start, end, old, new, seen[scope, text, old, new])
        seen[scope, text, old, new] += 1


def _changes(tree: ast.Module) -> Iterator[tuple[str, int, ast.AST, str]]:
    """Return scope, line of the statement, node and new text for all that can be changed in a module."""
    todo: list[tuple[ast.AST, tuple[str, ...], int, bool]] = [(tree, (), 0, False)]
    while todo:
        node, scope, statement, in_function = todo.pop()
        if isinstance(node, ast.stmt):
            statement = node.lineno
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope = (*scope, node.name)
            in_function = in_function or not isinstance(node, ast.ClassDef)
        for target, new in _mutations(node, in_function=in_function):
            text = ast.unparse(new) if isinstance(new, ast.stmt) else f"({ast.unparse(new)})"
            yield ".".join(scope) or "<module>", statement, target, text
        todo += [(child, scope, statement, in_function) for child in _children(node)]


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Return what is looked at below a node."""
    if isinstance(node, (ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
        return
    if _is_for_type_checkers(node):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "keywords") and not isinstance(node, ast.Call):
            continue
        yield from (child for child in (value if isinstance(value, list) else [value]) if isinstance(child, ast.AST))


def _mutations(node: ast.AST, *, in_function: bool) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Return the pieces that can be changed at a node, with what takes their place."""
    if isinstance(node, ast.expr):
        yield from ((node, new) for new in _of_expression(node))
    if _is_for_type_checkers(node):
        return
    conditions = [node.test] if isinstance(node, (ast.If, ast.While, ast.IfExp)) else getattr(node, "ifs", [])
    yield from ((test, ast.UnaryOp(ast.Not(), test)) for test in conditions if not _is_negated_elsewhere(test))
    if isinstance(node, (ast.For, ast.comprehension)):
        yield node.iter, ast.List([])
    if in_function:
        yield from _of_statement(node)


def _of_expression(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left, [operator], right) if type(operator) in _COMPARISONS:
            yield ast.Compare(left, [_COMPARISONS[type(operator)]()], right)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC and not isinstance(left, ast.JoinedStr):
            yield ast.BinOp(left, _ARITHMETIC[type(operator)](), right)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Call(function, [first, second, *others], keywords) if ast.dump(first) != ast.dump(second):
            if ast.unparse(function) not in _IN_ANY_ORDER and not isinstance(first, ast.Starred):
                yield ast.Call(function, [second, first, *others], keywords)


def _of_statement(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    match node:
        case ast.Return(ast.expr() as value):
            if not isinstance(value, ast.JoinedStr) and not (isinstance(value, ast.Constant) and value.value is None):
                yield value, ast.Constant(None)
        case ast.AugAssign(target, operator, value):
            yield node, ast.Pass()
            if type(operator) in _ARITHMETIC:
                yield node, ast.AugAssign(target, _ARITHMETIC[type(operator)](), value)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, ast.Pass()
        case ast.Expr(ast.Call()) | ast.Raise() | ast.Delete():
            yield node, ast.Pass()
        case ast.Break():
            yield node, ast.Return()
        case ast.Continue():
            yield node, ast.Break()
        case ast.ExceptHandler(type=ast.expr() as caught):
            yield caught, ast.Tuple([])


def _is_negated_elsewhere(test: ast.expr) -> bool:
    is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return is_not or (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], _NEGATED))


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
