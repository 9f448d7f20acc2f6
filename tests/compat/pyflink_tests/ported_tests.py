"""PyFlink's own tests out of a checkout of Flink, ported into a folder: `penstock port`, then our kit for PyFlink's."""

from __future__ import annotations

import ast
import importlib.util
from typing import TYPE_CHECKING

from tests.compat.pyflink_tests import kit

from penstock._engine.cli.port_findings import missing
from penstock._engine.cli.porting import ported

if TYPE_CHECKING:
    from pathlib import Path

#: PyFlink's module of tools for its tests; ours is the kit.
_TOOLS = "test_util"
#: The package that the folder holds.
PACKAGE = "ported_pyflink_tests"
_FOLDERS = ("common", "datastream")
_OURS = "penstock"


def port(checkout: Path, folder: Path) -> list[str]:
    """Port the tests of a checkout of Flink into a folder; return their modules' names below the package.

    Raises:
        FileNotFoundError: There are none in it.
    """
    sources = checkout / "flink-python" / "pyflink"
    names: list[str] = []
    for part in _FOLDERS:
        for path in sorted((sources / part).glob("**/tests/test_*.py")):
            if path.stem == _TOOLS:
                continue
            module = path.relative_to(sources).with_suffix("")
            target = (folder / PACKAGE / module).with_suffix(".py")
            target.parent.mkdir(parents=True, exist_ok=True)
            tree = _WithKit().visit(ast.parse(ported(path.read_text(encoding="utf-8")).text))
            target.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
            names.append(".".join(module.parts))
    if not names:
        raise FileNotFoundError(f"{sources} has no tests; give the path of a checkout of Flink.")
    return names


class _WithKit(ast.NodeTransformer):
    """Takes names out of our kit, out of other tests, or lets them say that they are missing."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt | list[ast.stmt]:
        package, _, below = (node.module or "").partition(".")
        if package != _OURS:
            if node.col_offset or importlib.util.find_spec(package) is not None:
                return node  # what a function imports, its test may have written
            return [_from_kit(below or package, name, "it is not installed") for name in node.names]
        if "tests" in below.split(".") and not below.endswith(f".{_TOOLS}"):
            return ast.ImportFrom(f"{PACKAGE}.{below}", node.names, 0)
        return [self._one(node, below, name) for name in node.names]

    def _one(self, node: ast.ImportFrom, below: str, name: ast.alias) -> ast.stmt:
        reason = missing(below, name.name)
        return ast.ImportFrom(node.module, [name], 0) if reason is None else _from_kit(below, name, reason)


def _from_kit(module: str, name: ast.alias, reason: str) -> ast.stmt:
    """Return a statement that binds a name to what the kit has for it, or to what says that it is missing."""
    if hasattr(kit, name.name):
        return ast.ImportFrom(kit.__name__, [name], 0)
    stands = f"__import__({kit.__name__!r}, fromlist=['Missing']).Missing({f'{module}.{name.name}'!r}, {reason!r})"
    return ast.parse(f"{name.asname or name.name} = {stands}").body[0]
