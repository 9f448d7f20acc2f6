"""Where a public name is shown.

What is public is defined in private modules, which may move, and shown by thin public ones: a class says the public
module as its own, so that pickles, messages and documentation name that. It is said where the class is defined, because
tasks load the definition alone. A pickle that is read loads the public module by itself.
"""

from __future__ import annotations

import sys
from importlib import import_module

#: The public modules of all classes that are defined so far.
_shown: set[str] = set()


def show(module: str, *classes: type) -> None:
    """Have classes name the public module that shows them as their own.

    Args:
        module: The public module.
        *classes: What it shows; a class within one of them moves with it.
    """
    _shown.add(module)
    for one in classes:
        home, one.__module__ = one.__module__, module
        for inner in vars(one).values():
            if isinstance(inner, type) and inner.__module__ == home and inner.__qualname__.startswith(one.__qualname__):
                show(module, inner)


def load_shown() -> None:
    """Import the public modules of all classes that are defined so far.

    Call it before cloudpickle, which would take a class by value where the module that it names was not imported: the
    task would have another class of the same name.
    """
    for module in [module for module in _shown if module not in sys.modules]:
        import_module(module)
