"""Explains missing names of PyFlink, with the alternatives in ``absent_names.txt`` and ``unlisted_names.txt``.

A public module calls :func:`explain` at its end. Then

- ``from penstock.datastream.window import Missing`` and ``import penstock.table`` raise an
  :class:`~penstock.errors.AbsentImportError`, by a finder that comes after all others,
- ``window.Missing`` and ``Class.missing_method`` raise an :class:`~penstock.errors.AbsentAttributeError`.

The one is an ImportError and the other an AttributeError, so that ``try`` and ``hasattr`` work as usual in programs, in
pickle and in tools. Python asks finders about a name of a module only if the module has a ``__path__``.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import AbsentAttributeError, AbsentImportError

if TYPE_CHECKING:
    from typing import Never

_PACKAGE: Final = "penstock"
_ALL: Final = "*"


@cache
def table() -> dict[tuple[str, str], str]:
    """Return the reason for each absent name, by module below ``penstock`` and name; ``*`` is a whole module."""
    return public() | unlisted()


def public() -> dict[tuple[str, str], str]:
    """Return the reasons for absent names of PyFlink's public API."""
    return _read("absent_names.txt")


def unlisted() -> dict[tuple[str, str], str]:
    """Return the reasons for names that programs use though they are private, or were taken out by Flink 2."""
    return _read("unlisted_names.txt")


def _read(name: str) -> dict[tuple[str, str], str]:
    text = (files(_PACKAGE) / name).read_text(encoding="utf-8")
    found: dict[tuple[str, str], str] = {}
    reason = ""
    for line in text.splitlines():
        if line.startswith(">"):
            reason = line.removeprefix(">").strip()
        elif line and not line.startswith("#"):
            module, _, names = line.partition("|")
            found.update({(module.strip(), name): reason for name in names.split()})
    return found


def reason_of(module: str, name: str = "") -> str | None:
    """Return why a name of a module, or the module itself, is absent; None if the table does not have it.

    Args:
        module: The module's name below ``penstock``.
        name: The name in it; empty for the module itself.

    Example:
        >>> reason_of("datastream.formats.orc", "OrcBulkWriters")
        'ORC files need the JVM; write Parquet by ParquetBulkWriters, which holds the same types'
    """
    reasons = table()
    if name and (module, name) in reasons:
        return reasons[module, name]
    parts = module.split(".")
    above = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((reasons[one, _ALL] for one in above if (one, _ALL) in reasons), None)


def absent(module: str, name: str) -> AttributeError:
    """Return the error for a name that a module does not have.

    Args:
        module: The full name of the module.
        name: The name.
    """
    below = module.removeprefix(_PACKAGE).removeprefix(".")
    reason = reason_of(below, name) or reason_of(f"{below}.{name}".removeprefix("."))
    if reason is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    return AbsentAttributeError(f"{module}.{name}", reason)


def explain(module: str) -> None:
    """Let a public module explain the names that it lacks in comparison to PyFlink's.

    Args:
        module: The full name of the module, which has been executed.
    """
    public: Any = sys.modules[module]
    below = module.removeprefix(_PACKAGE).removeprefix(".")
    public.__path__ = getattr(public, "__path__", [])
    if "__getattr__" not in vars(public):

        def missing(name: str) -> Never:
            raise absent(module, name)

        public.__getattr__ = missing
    for (where, name), reason in table().items():
        if where == below and "." in name:
            _explain_member(public, name, AbsentAttributeError(f"{module}.{name}", reason))


def _explain_member(public: Any, name: str, error: AbsentAttributeError) -> None:
    """Replace a missing method of a class by an explanation."""
    *classes, member = name.split(".")
    owner: Any = public
    for part in classes:
        owner = getattr(owner, part)
    setattr(owner, member, _AbsentMember(error))


class _AbsentMember:
    """A missing member of a class; access raises."""

    def __init__(self, error: AbsentAttributeError) -> None:
        self._error = error

    def __get__(self, instance: object, owner: type) -> Never:
        raise AbsentAttributeError(self._error.operation, self._error.reason)


class _Explainer(MetaPathFinder):
    """A finder that finds nothing, and raises for names in the table."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Raise for a module or a name that the table explains."""
        del path, target
        package, _, below = fullname.partition(".")
        if package != _PACKAGE:
            return
        module, _, name = below.rpartition(".")
        reason = reason_of(module, name) or reason_of(below)
        if reason is not None:
            raise AbsentImportError(fullname, reason)


def install() -> None:
    """Explain imports of absent names in this process from now on."""
    if not any(isinstance(finder, _Explainer) for finder in sys.meta_path):
        sys.meta_path.append(_Explainer())
