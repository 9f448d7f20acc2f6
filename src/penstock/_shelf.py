"""Sets the public module of classes that are defined in private modules.

Public classes are defined in private modules, which may move, and shown by thin public modules. A class reports the
public module as its own, so that pickles, messages and documentation name it. The defining module sets this, because
tasks load only the definition. Reading a pickle loads the public module.
"""

from __future__ import annotations

import sys
from importlib import import_module

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
