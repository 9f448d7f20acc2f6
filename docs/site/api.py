"""The API reference: each public name has one page, that of the module which it names as its own.

A module is public if it is below ``penstock`` without an underscore and says in ``__all__`` what it shows. Classes name
their public module (``penstock._shelf``), so nothing here lists names.
"""

from __future__ import annotations

import inspect
import pkgutil
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from types import ModuleType

#: Packages whose modules have pages of their own, as in PyFlink.
BY_MODULE: Final = ("penstock.datastream", "penstock.common")
#: Those from which programs import each name directly: one page each.
WHOLE: Final = ("penstock.metrics", "penstock.savepoint", "penstock.testing", "penstock.errors")


@dataclass(slots=True)
class ApiPage:
    """The page of a public module."""

    module: str
    #: What its first docstring line says.
    summary: str
    #: Names that are documented here.
    own: list[str] = field(default_factory=list[str])
    #: Names that it shows as well, with the module whose page has them.
    shown: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def place(self) -> str:
        """Where the page stands on the site."""
        return f"api/{self.module}"


def api_pages() -> list[ApiPage]:
    """Return a page for each public module, in the order of their names below each package."""
    modules = {module.__name__: module for module in _modules()}
    pages: list[ApiPage] = []
    for name, module in modules.items():
        page = ApiPage(name, (module.__doc__ or "").strip().splitlines()[0])
        for shown in sorted(module.__all__):
            home = _home(getattr(module, shown), modules)
            if home in (None, name) or name in WHOLE:
                page.own.append(shown)
            else:
                page.shown[shown] = home
        pages.append(page)
    return pages


def _modules() -> Iterator[ModuleType]:
    for name in (*BY_MODULE, *WHOLE):
        package = import_module(name)
        yield package
        if name in WHOLE:
            continue
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if "._" not in found.name and hasattr(module := import_module(found.name), "__all__"):
                yield module


def _home(value: Any, modules: dict[str, ModuleType]) -> str | None:
    home = getattr(value, "__module__", None)
    return home if home in modules and getattr(value, "__qualname__", "").isidentifier() else None


def text_of(page: ApiPage) -> str:
    """Return the page in reStructuredText."""
    title = page.module.removeprefix("penstock.")
    lines = [title, "=" * len(title), "", f".. py:module:: {page.module}", "", page.summary, ""]
    module = import_module(page.module)
    for name in page.own:
        value = getattr(module, name)
        lines += [name, "-" * len(name), ""]
        lines.append(f".. {_directive(value)}:: {page.module}.{name}")
        if inspect.isclass(value):
            lines.append(f"   :inherited-members: {', '.join(base.__name__ for base in _shown_elsewhere(value))}")
            if set(value.__bases__) <= {*_shown_elsewhere(value)} - {object}:
                lines.append("   :show-inheritance:")
        lines.append("")
    if page.shown:
        lines += ["It shows these names as well:", ""]
        lines += [f"- :py:obj:`{name} <{home}.{name}>` of :py:mod:`{home}`" for name, home in page.shown.items()]
    return "\n".join(lines) + "\n"


def _directive(value: object) -> str:
    if inspect.isclass(value):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction" if inspect.isroutine(value) else "autodata"


def _shown_elsewhere(shown: type) -> list[type]:
    """Return the bases whose members are not shown again: those with a page, and those of others."""
    names = ((base, f"{base.__module__}.") for base in shown.__mro__[1:])
    return [base for base, name in names if not name.startswith("penstock.") or "._" not in name]


def missing_entries(pages: list[ApiPage], entries: Container[str]) -> list[str]:
    """Return the public names, and public members of classes, that have no entry.

    Args:
        pages: The pages of the reference.
        entries: The names that have one.
    """
    places = {getattr(import_module(page.module), name): f"{page.module}.{name}" for page in pages for name in page.own}
    missing = [place for place in places.values() if place not in entries]
    for shown, place in places.items():
        above = [places.get(base) for base in shown.__mro__] if inspect.isclass(shown) else []
        members = _members(shown) if above else ()
        missing += [f"{place}.{one}" for one in members if not any(f"{base}.{one}" in entries for base in above)]
    return missing


def _members(shown: type) -> set[str]:
    """Return the public members that a class has from Penstock."""
    own = (base for base in shown.__mro__ if base.__module__.startswith("penstock"))
    return {name for base in own for name in vars(base) if not name.startswith("_")}


def index_of(pages: list[ApiPage]) -> str:
    """Return the first page of the reference."""
    lines = [
        "API",
        "===",
        "",
        "Made from the docstrings. What is PyFlink's has its name and module, below ``penstock``.",
        "",
    ]
    for page in pages:
        lines += [f":py:mod:`{page.module}`", f"   {page.summary}"]
    lines += ["", ".. toctree::", "   :hidden:", ""]
    lines += [f"   {page.module}" for page in pages]
    return "\n".join(lines) + "\n"
