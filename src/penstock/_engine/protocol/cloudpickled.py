"""Pickles functions and classes of the main script, and what else plain pickle cannot name, with cloudpickle."""

from __future__ import annotations

import functools
import io
import operator
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, NewType, cast

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

from penstock._shelf import load_shown

if TYPE_CHECKING:
    from types import ModuleType

_Cached = type(functools.cache(len))
#: cloudpickle 3.1.3 puts this in place of the name of a code's file.
_NAMELESS: Final = "<dynamic-code>"


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
    """cloudpickle, and what it does not do itself.

    - Classes that give a wrong module are named by a module that has them. Some extension modules have such classes:
      `confluent_kafka.Consumer` says that it is of `cimpl`, which nobody can import. cloudpickle would make a copy of
      the class, which does not load, or which no `except` knows.
    - Code keeps the name of its file, so that errors in tasks show the user's line.
    - Functions with a cache (`functools.cache`) and new types of the main script travel by value, as its functions and
      classes do. pickle would name them, and tasks have another main script. Each copy has a cache of its own.
    """

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj.__module__ not in sys.modules:
            home = _home(obj)
            if home is not None:
                return getattr, (home, obj.__name__)
        if isinstance(obj, CodeType):
            make, parts, *_ = cast("tuple[Any, ...]", self.dispatch_table[CodeType](obj))
            return make, tuple(obj.co_filename if part == _NAMELESS else part for part in parts)
        if isinstance(obj, _Cached) and not _is_importable(obj):
            return _cached, (obj.__wrapped__, obj.cache_parameters())
        if isinstance(obj, NewType) and not _is_importable(obj):
            return NewType, (obj.__name__, obj.__supertype__)
        return super().reducer_override(obj)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _is_importable(value: Any) -> bool:
    """Return whether tasks find a value by its module and name."""
    if value.__module__ == "__main__" or value.__module__ not in sys.modules:
        return False
    try:
        return operator.attrgetter(value.__qualname__)(sys.modules[value.__module__]) is value
    except AttributeError:
        return False


def _home(kind: type) -> ModuleType | None:
    """Return the module that has a class by its name, and whose own name ends with the one that the class gives."""
    ending = f".{kind.__module__}"
    for name, module in list(sys.modules.items()):
        if name.endswith(ending) and getattr(module, kind.__name__, None) is kind:
            return module
    return None
