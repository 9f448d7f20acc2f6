"""Pickles of users' values, in state files and in the local store.

Classes of the user's main script need care: tasks cannot import them from a module. Once cloudpickle has loaded such a
class into this process, the class becomes an attribute of ``__main__``; then instances pickle by name, small and fast,
and a restarted job reads them with its current class.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

import cloudpickle.cloudpickle

from penstock._engine.protocol import cloudpickled

PROTOCOL = 5

_cloudpickle: Any = cloudpickle.cloudpickle  # it has no types


def dump(value: Any) -> bytes:
    """Return the pickle of a value; by cloudpickle where pickle cannot name its class."""
    try:
        return pickle.dumps(value, PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        publish_main_classes()
    try:
        return pickle.dumps(value, PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return cloudpickled.dumps(value)


def dump_each(values: list[Any]) -> list[bytes]:
    """Return the pickle of each of many values."""
    try:
        return [pickle.dumps(value, PROTOCOL) for value in values]
    except (pickle.PicklingError, AttributeError, TypeError):
        return [dump(value) for value in values]


def load(data: bytes) -> Any:
    """Return the value of a pickle from `dump`."""
    try:
        return pickle.loads(data)
    except AttributeError:  # a class that is not yet in __main__, or was removed from its module
        publish_main_classes()
        return pickle.loads(data)


def publish_main_classes() -> None:
    """Make the classes of the main script that cloudpickle has loaded attributes of ``__main__``."""
    main = sys.modules["__main__"]
    # The classes that cloudpickle has pickled or unpickled in this process; cloudpickle holds them weakly.
    dynamic: set[type[Any]] = set(_cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS)
    for kind in dynamic:
        name = kind.__qualname__
        if kind.__module__ == "__main__" and "." not in name:
            there = getattr(main, name, None)
            if there is None or (isinstance(there, type) and there in dynamic):
                setattr(main, name, kind)
