"""Pickles the members of operators with cloudpickle; errors name the object that cannot be pickled.

Functions and classes of the main script travel by value. Modules beside the script travel by name: `user_modules` says
which ones a cluster needs. Classes of the main script must also be found by name, because records of them are pickled
plainly: `main_classes` packs them for the tasks to put into their own ``__main__``.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import cloudpickle

from penstock._engine.protocol import cloudpickled
from penstock.errors import UnpicklableFunctionError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping
    from types import TracebackType

_MAX_DEPTH = 8
_LIBRARY_FOLDERS = {"site-packages", "dist-packages"}
#: Each host has these, though they may be imported from a folder.
_NOT_THE_USERS = {"__main__", "penstock", "py4j", "pyspark"}
#: By these cloudpickle finds what to pickle of a module.
_GLOBAL_INSTRUCTIONS = ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL")


def dumps_members(operator: str, members: Mapping[str, object]) -> bytes:
    """Return the cloudpickled dict of the members of an operator or a partitioner.

    Args:
        operator: The operator's name, for the message.
        members: Functions, selectors, sources and settings by name.

    Raises:
        UnpicklableFunctionError: One of them cannot be pickled; the error names the variable or attribute at fault.
    """
    try:
        return cloudpickled.dumps(dict(members))
    except Exception as error:  # noqa: BLE001 - raised below, out of the way of the error that says more
        failed = error
    for member in members.values():
        dumps_value(f"{operator} function {describe(member)}", member)
    raise failed


def dumps_value(what: str, value: object) -> bytes:
    """Return a cloudpickled value.

    Args:
        what: What it is, for the message.
        value: Any object.

    Raises:
        UnpicklableFunctionError: It cannot be pickled; the error names the variable or attribute at fault.
    """
    try:
        return cloudpickled.dumps(value)
    except Exception as error:  # noqa: BLE001 - pickling runs code of the user's classes, which may raise anything
        path, reason = _culprit(value)
        raise UnpicklableFunctionError(what, path, reason) from error.with_traceback(_beyond_pickling(error))


def _beyond_pickling(error: Exception) -> TracebackType | None:
    """Return the traceback from the user's first line on, for example in a ``__reduce__``; None if no user code ran."""
    line = error.__traceback__
    while line is not None and line.tb_frame.f_code.co_filename in (
        __file__,
        cloudpickled.__file__,
        cloudpickle.cloudpickle.__file__,
    ):
        line = line.tb_next
    return line


def describe(function: object) -> str:
    """Return a function's name and where it was defined, such as ``<lambda> at job.py:12``."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = cast("functools.partial[Any]", target).func
    if isinstance(target, types.MethodType):
        target = target.__func__
    code = getattr(target, "__code__", None)
    if isinstance(code, types.CodeType):
        name = getattr(target, "__qualname__", code.co_name).rpartition("<locals>.")[2]
        return f"{name} at {Path(code.co_filename).name}:{code.co_firstlineno}"
    kind = target if isinstance(target, type) else type(target)
    return kind.__qualname__.rpartition("<locals>.")[2]


def _failure(value: object) -> str | None:
    """Return the error of pickling a value as text; None if it pickles."""
    try:
        cloudpickled.dumps(value)
    except Exception as error:  # noqa: BLE001 - pickling runs code of the user's classes, which may raise anything
        return str(error).rstrip(".") or type(error).__name__
    return None


def _culprit(value: object) -> tuple[str, str]:
    """Return the path to the innermost part that fails by itself, and its error."""
    path, reason = "", _failure(value) or ""
    seen = {id(value)}
    for _ in range(_MAX_DEPTH):
        failing = next(((step, part, said) for step, part in parts_of(value) if (said := _failure(part))), None)
        if failing is None or id(failing[1]) in seen:
            break
        step, value, reason = failing
        seen.add(id(value))
        path = path + step if not path or step[0] in ".[" else f"{path} > {step}"
    return f"attribute {path[1:]}" if path.startswith(".") else path or "the object itself", reason


def parts_of(value: object) -> Iterator[tuple[str, object]]:
    """Yield the parts of a value that pickling follows, each with the step that leads there."""
    match value:
        case types.MethodType():
            yield "self", value.__self__
        case types.FunctionType():
            yield from _parts_of_function(value)
        case functools.partial():
            yield from _parts_of_partial(cast("functools.partial[Any]", value))
        case dict() | list() | tuple() | set() | frozenset():
            yield from _items(cast("dict[object, object] | list[object]", value))
        case type():
            yield from ((f".{name}", part) for name, part in list(vars(value).items()))
        case _:
            for name, part in attributes(value):
                yield f".{name}", part
            yield f"class {type(value).__qualname__}", type(value)


def _items(container: dict[object, object] | list[object]) -> Iterator[tuple[str, object]]:
    pairs = container.items() if isinstance(container, dict) else enumerate(container)
    return ((f"[{key!r}]", part) for key, part in pairs)


def _parts_of_function(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"closure variable {name!r}", cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    for name in sorted(global_names(function.__code__, _GLOBAL_INSTRUCTIONS)):
        if name in function.__globals__:
            yield f"global variable {name!r}", function.__globals__[name]
    for name, part in {**(function.__kwdefaults__ or {}), **_defaults(function)}.items():
        yield f"default of parameter {name!r}", part


def _defaults(function: types.FunctionType) -> dict[str, object]:
    defaults = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))


def global_names(code: types.CodeType, instructions: Container[str]) -> set[str]:
    """Return the names that code, and the code of the functions and classes in it, uses by some instructions."""
    used = {step.argval for step in dis.get_instructions(code) if step.opname in instructions}
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return used.union(*(global_names(constant, instructions) for constant in inner))


def _parts_of_partial(partial: functools.partial[Any]) -> Iterator[tuple[str, object]]:
    yield "partial's function", partial.func
    for position, part in enumerate(partial.args):
        yield f"partial's argument {position}", part
    for name, part in partial.keywords.items():
        yield f"partial's argument {name!r}", part


def attributes(value: object) -> Iterator[tuple[str, object]]:
    yield from list(getattr(value, "__dict__", {}).items())
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if hasattr(value, name) and name not in ("__dict__", "__weakref__"):
                yield name, getattr(value, name)


def main_classes() -> bytes | None:
    """Return the cloudpickled dict of the main script's classes by name; None when it has none.

    Classes that do not pickle are left out: no record can be of them.
    """
    main: dict[str, object] = dict(vars(sys.modules["__main__"]))
    classes = {
        name: value for name, value in main.items() if isinstance(value, type) and value.__module__ == "__main__"
    }
    travelling = {name: value for name, value in classes.items() if _failure(value) is None}
    return cloudpickled.dumps(travelling) if travelling else None


def script_directory() -> Path | None:
    """Return the folder of the main script; None without one, as in a notebook."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return None if path is None else Path(path).resolve().parent


def user_folders() -> tuple[Path, ...]:
    """Return the folders of the program's own modules: its script's, and what else is on sys.path and not installed."""
    installed = tuple(Path(prefix).resolve() for prefix in {sys.prefix, sys.base_prefix})
    script = script_directory()
    folders = {} if script is None else {script: None}
    for entry in sys.path:
        folder = Path(entry or ".").resolve()
        if folder.is_dir() and not any(folder.is_relative_to(prefix) for prefix in installed):
            folders[folder] = None
    return tuple(folders)


def user_modules() -> dict[str, Path]:
    """Return the user's loaded modules and packages: top-level name → file or package folder.

    A module is the user's if it lies below one of the program's folders, outside of any installed packages.
    """
    script = script_directory()
    roots = tuple(root for root in user_folders() if root == script or not _LIBRARY_FOLDERS & set(root.parts))
    found: dict[str, Path] = {}
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        path = _module_path(sys.modules.get(top, module))
        if top not in found and top not in _NOT_THE_USERS and path is not None and _is_below(path, roots):
            found[top] = path
    return dict(sorted(found.items()))


def _is_below(path: Path, roots: tuple[Path, ...]) -> bool:
    """Return whether a path is below one of some folders, outside of installed packages."""
    return any(path.is_relative_to(root) and not _LIBRARY_FOLDERS & set(path.relative_to(root).parts) for root in roots)


def _module_path(module: types.ModuleType) -> Path | None:
    """Return a module's file, a package's folder."""
    try:
        paths = list(getattr(module, "__path__", ()))
        file = paths[0] if paths else getattr(module, "__file__", None)
        return Path(file).resolve() if isinstance(file, str) else None
    except (OSError, TypeError, AttributeError):  # a module that only looks like one
        return None
