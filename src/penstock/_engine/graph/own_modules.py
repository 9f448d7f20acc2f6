"""Tells the user's own modules from installed ones, and digests the files of the former; nothing is imported."""

from __future__ import annotations

import ast
import functools
import os
import sys
import sysconfig
from hashlib import sha256
from importlib.util import resolve_name
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_INSTALLED: Final = tuple(
    f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
#: The folders of installed modules, also those of a user, and of the Python that an environment is made of.
_LIBRARIES: Final = frozenset({"site-packages", "dist-packages"})
#: What a module in Python itself has in place of a file.
_PYTHONS: Final = ("built-in", "frozen")


def is_own(name: str | None) -> bool:
    """Tell whether a module is the user's: neither Python's, nor installed, nor ours; loaded or not.

    One that is nowhere to be found is the user's: code that a running program has made is of such modules.
    """
    if name is None or name == "__main__":
        return True
    if name.partition(".")[0] == "penstock":
        return False
    found = _found(name)
    if found.file is None and not found.folders:
        return not found.is_pythons
    return not all(map(_is_installed, filter(None, (found.file, *found.folders))))


def _is_installed(path: str) -> bool:
    return path.startswith(_INSTALLED) or not _LIBRARIES.isdisjoint(Path(path).parts)


def sources_digest(name: str) -> bytes:
    """Return the digest of a module's files, and of the user's own modules that they import.

    A package counts with all its files, because a program finds its modules as attributes.

    Args:
        name: A module of the user's.
    """
    found: dict[str, bytes] = {}
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if module in found or not is_own(module):
            continue
        digests: list[bytes] = []
        for path, package in _files(module, whole=module == name):
            digest, imported = _read(path, package, _stamp(path))
            digests.append(digest)
            waiting += imported
        found[module] = b"".join(digests)
    return sha256(b"\0".join(part for each in sorted(found) for part in (each.encode(), found[each]))).digest()


def _files(name: str, *, whole: bool) -> Iterator[tuple[str, str]]:
    """Yield the files of a module, each with the package that its relative imports begin at."""
    file, folders, _ = _found(name)
    if file is not None:
        yield file, name if folders else name.rpartition(".")[0]
    if whole:
        for folder in folders:
            for path in sorted(Path(folder).rglob("*.py")):
                inner = path.relative_to(folder).with_suffix("").parts
                package = inner if inner[-1] == "__init__" else inner[:-1]
                yield str(path), ".".join((name, *(part for part in package if part != "__init__")))


class _Found(NamedTuple):
    file: str | None = None
    #: Those of a package.
    folders: tuple[str, ...] = ()
    #: Whether it is in Python itself, without a file.
    is_pythons: bool = False


def _found(name: str) -> _Found:
    """Return where a module is: the same whether it is loaded, or would be found if it were imported."""
    module = sys.modules.get(name)
    if module is not None:
        is_pythons = getattr(getattr(module, "__spec__", None), "origin", None) in _PYTHONS
        file = getattr(module, "__file__", None)
        return _Found(file and str(file), tuple(map(str, getattr(module, "__path__", ()))), is_pythons)
    parent = name.rpartition(".")[0]
    folders = _found(parent).folders if parent else None
    if parent and not folders:
        return _Found()
    found = (finder.find_spec(name, folders) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    spec = next((spec for spec in found if spec is not None), None)
    if spec is None:
        return _Found()
    file = spec.origin if spec.has_location else None
    return _Found(file, tuple(spec.submodule_search_locations or ()), spec.origin in _PYTHONS)


def _stamp(path: str) -> tuple[int, int]:
    """Return what tells that a file has changed since it was read; zeros for one in an archive."""
    try:
        status = os.stat(path)  # noqa: PTH116 - paths in archives are no paths
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=1024)
def _read(path: str, package: str, _: tuple[int, int]) -> tuple[bytes, tuple[str, ...]]:
    """Return the digest of a file, and the modules that it may import."""
    contents = _contents(path)
    imported: tuple[str, ...] = ()
    if path.endswith(".py"):
        try:
            imported = tuple(_imported(ast.parse(contents), package))
        except (SyntaxError, ValueError):  # a file that changes while the job is built
            imported = ()
    return sha256(contents).digest(), imported


def _contents(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        loaders = (getattr(module, "__loader__", None) for module in list(sys.modules.values()))
        known = (loader for loader in loaders if str(path).startswith(f"{getattr(loader, 'archive', path)}{os.sep}"))
        loader = next(known, None)
        return b"" if loader is None else loader.get_data(path)


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from imports_of(node.module or "", node.level, package, [alias.name for alias in node.names])


def imports_of(module: str, level: int, package: str, names: list[str]) -> Iterator[str]:
    """Yield the modules that a statement may import: the one it names, and each name that may be a module of it."""
    try:
        base = resolve_name("." * level + module, package) if level else module
    except ImportError:
        return
    yield base
    yield from (f"{base}.{name}" for name in names)
