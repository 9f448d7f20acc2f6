"""Sets the public module of classes that are defined in private modules, and loads public modules when they are used.

Public classes are defined in private modules, which may move, and shown by thin public modules. A class reports the
public module as its own, so that pickles, messages and documentation name it. The defining module sets this, because
tasks load only the definition. Reading a pickle loads the public module.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_IMPORT: Final = re.compile(r"^from (\S+) import \(?\s*(\w+) as \2\b", re.MULTILINE)

#: The public modules of all classes that are defined so far.
_shown: set[str] = set()


def show(module: str, *classes: type) -> None:
    """Let classes report the public module that shows them.

    Args:
        module: The public module.
        *classes: The shown classes; nested classes are included.
    """
    _shown.add(module)
    for one in classes:
        home, one.__module__ = one.__module__, module
        for inner in vars(one).values():
            if isinstance(inner, type) and inner.__module__ == home and inner.__qualname__.startswith(one.__qualname__):
                show(module, inner)


def load_shown() -> None:
    """Import the public modules of all classes that are defined so far.

    Call it before cloudpickle, which would pickle a class by value if the class's module was not imported: the task
    would then have another class of the same name.
    """
    for module in [module for module in _shown if module not in sys.modules]:
        import_module(module)


def show_lazily(package: str, absent: Callable[[str, str], AttributeError]) -> None:
    """Let a package load a module when one of its names is first used.

    The names and their modules are the imports of the package's stub ``__init__.pyi``, which checkers read as well; it
    is read as a text, because tasks have no other use for a parser.

    Args:
        package: The full name of the package, which calls this.
        absent: Makes the error for a name that the package does not have.
    """
    public: Any = sys.modules[package]
    stub = pkgutil.get_data(package, "__init__.pyi") or b""
    homes: dict[str, str] = {name: module for module, name in _IMPORT.findall(stub.decode())}

    def load(name: str) -> object:
        if name not in homes:
            raise absent(package, name)
        value = getattr(import_module(homes[name]), name)
        setattr(public, name, value)
        return value

    public.__all__ = list(homes)
    public.__getattr__ = load
    public.__dir__ = lambda: sorted({*sys.modules[package].__dict__, *homes})
