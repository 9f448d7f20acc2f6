"""Pickles functions and classes of the main script, and what else plain pickle cannot name, with cloudpickle."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

from penstock._shelf import load_shown

if TYPE_CHECKING:
    from types import ModuleType


def dumps(value: object) -> bytes:
    """Return the pickle of a value; functions and classes that cannot be imported travel in it.

    Args:
        value: Any object.

    Raises:
        Exception: The value cannot be pickled. Any class may come, because pickling runs code of the value's classes.

    Example:
        >>> import pickle
        >>> pickle.loads(dumps(lambda number: number + 1))(1)
        2
    """
    load_shown()
    with io.BytesIO() as file:
        _Pickler(file).dump(value)  # pyright: ignore[reportUnknownMemberType]
        return file.getvalue()


class _Pickler(cloudpickle.Pickler):
    """Names classes that give a wrong module by a module that has them.

    Some extension modules do so: `confluent_kafka.Consumer` says that it is of `cimpl`, which nobody can import.
    cloudpickle would make a copy of such a class, which does not load, or which no `except` knows.
    """

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj.__module__ not in sys.modules:
            home = _home(obj)
            if home is not None:
                return getattr, (home, obj.__name__)
        return super().reducer_override(obj)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _home(kind: type) -> ModuleType | None:
    """Return the module that has a class by its name, and whose own name ends with the one that the class gives."""
    ending = f".{kind.__module__}"
    for name, module in list(sys.modules.items()):
        if name.endswith(ending) and getattr(module, kind.__name__, None) is kind:
            return module
    return None
