"""The paths: each module of this folder has some in ``PATHS``, and adding one is adding a module."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.values.table import Path


@cache
def all_paths() -> tuple[Path, ...]:
    """Return all paths, in the order of their modules' names."""
    modules = sorted(one.name for one in pkgutil.iter_modules(__path__))
    return tuple(path for name in modules for path in importlib.import_module(f"{__name__}.{name}").PATHS)
