"""What of a value counts in a digest: what pickling sees of it, and of functions and classes what they do.

Names of files, numbers of lines, and what a name in an installed library stands for do not count.
"""

from __future__ import annotations

import dis
import functools
import operator
import os
import sys
import types
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import cloudpickle

from penstock._engine.graph.own_modules import imports_of, is_own, sources_digest
from penstock._engine.graph.pickling import global_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_READS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
#: With these, code finds what its module has by a name that is made when it runs: by `sys.modules[__name__]`, too.
_SEEKERS: Final = frozenset({"globals", "eval", "exec", "modules"})
#: What a class has beside what its author wrote: Python's notes about it, and what libraries derive of the rest.
_NOT_WRITTEN: Final = frozenset(
    {
        *("__dict__", "__weakref__", "_abc_impl", "__module__", "__qualname__", "__doc__", "__signature__"),
        *("__firstlineno__", "__static_attributes__", "__annotations_cache__", "__pydantic_parent_namespace__"),
        *("__pydantic_core_schema__", "__pydantic_validator__", "__pydantic_serializer__", "__pydantic_decorators__"),
    }
)
#: The flag of classes that were made while a program runs; all of Python's own are.
_MADE: Final = 1 << 9
_PROTOCOL: Final = 5


@dataclass(frozen=True, slots=True)
class Parts:
    """A value: what it is by itself, and what it consists of."""

    label: bytes
    parts: Iterator[object] | tuple[object, ...] = ()
    #: Whether the order of the parts counts.
    ordered: bool = True
    #: The user's own module whose names a function or class finds as they are on each host; its values do not travel.
    module: str | None = None


@dataclass(frozen=True, slots=True)
class Bag:
    """Parts without an order."""

    parts: tuple[object, ...]


def parts_of(value: object) -> Parts:
    """Return the parts of a value.

    Raises:
        Exception: The value cannot be pickled. Any class may come, because pickling runs code of the value's classes.
    """
    find = _FINDERS.get(type(value))
    if find is not None:
        return find(value)
    if issubclass(type(value), type):
        return _of_class(cast("type", value))
    if issubclass(type(value), (set, frozenset, weakref.WeakSet)):
        return _of_reduced(value, Bag(tuple(cast("set[object]", value))))
    return _of_reduced(value)


def _of_sequence(value: Any) -> Parts:
    return Parts(type(value).__name__.encode(), tuple(value))


def _of_set(value: Any) -> Parts:
    return Parts(type(value).__name__.encode(), tuple(value), ordered=False)


def _of_dict(value: dict[object, object]) -> Parts:
    if value is sys.modules:  # each process has others
        return Parts(b"modules")
    return Parts(b"dict", tuple(value.items()), ordered=False)


def _of_bag(value: Bag) -> Parts:
    return Parts(b"bag", value.parts, ordered=False)


def _of_module(value: types.ModuleType) -> Parts:
    name = value.__name__
    if name not in sys.modules or name in cloudpickle.list_registry_pickle_by_value():  # it travels, with its values
        own = {variable: held for variable, held in vars(value).items() if not variable.startswith("__")}
        return Parts(b"module by value " + name.encode(), (own,))
    return Parts(b"module " + name.encode() + (sources_digest(name) if is_own(name) else b""))


def _of_method(value: types.MethodType) -> Parts:
    return Parts(b"method", (value.__self__, value.__func__))


def _of_cell(value: types.CellType) -> Parts:
    try:
        return Parts(b"cell", (value.cell_contents,))
    except ValueError:  # not yet assigned
        return Parts(b"empty cell")


def _of_property(value: Any) -> Parts:
    return Parts(b"property", (value.fget, value.fset, value.fdel))


def _of_cached_property(value: Any) -> Parts:
    return Parts(b"cached property", (value.func,))


def _of_type_variable(value: Any) -> Parts:
    """Return the parts of a variable of types; pickling gives it a name of its own in each process."""
    kinds = value.__covariant__, value.__contravariant__
    return Parts(f"variable {value.__name__} {kinds}".encode(), (value.__constraints__, value.__bound__))


def _of_environment(_: object) -> Parts:
    """Return the environment, which each process has another of, as functions find it through its module."""
    return Parts(b"environment")


def _of_static(value: Any) -> Parts:
    return Parts(type(value).__name__.encode(), (value.__func__,))


def _of_code(value: types.CodeType) -> Parts:
    """Return what code does; names of local variables count where a caller may use them."""
    counts = value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags
    arguments = value.co_varnames[: value.co_argcount + value.co_kwonlyargcount]
    label = repr((counts, arguments, value.co_names, value.co_exceptiontable, value.co_code))
    return Parts(b"code " + label.encode(errors="surrogatepass"), value.co_consts)


def _of_function(value: types.FunctionType) -> Parts:
    if _is_named(value) and not is_own(value.__module__):
        return Parts(b"name " + _name(value))
    own = value.__module__ if _is_named(value) else None
    return Parts(b"function", _function_parts(value), module=own)


def _function_parts(value: types.FunctionType) -> Iterator[object]:
    yield value.__code__
    yield value.__defaults__
    yield value.__kwdefaults__
    yield value.__closure__ or ()
    yield vars(value)
    if is_own(value.__module__):
        yield from _globals(value)


def _globals(function: types.FunctionType) -> Iterator[object]:
    """Yield what a function finds by name: in its module, and in those that it imports by itself."""
    found = function.__globals__
    for name in sorted(global_names(function.__code__, _READS)):
        if name in found:
            yield name
            yield found[name]
    if _is_named(function) and not _SEEKERS.isdisjoint(_names(function.__code__)):
        yield sources_digest(function.__module__)
    for name in sorted(set(_imports(function.__code__, str(found.get("__package__") or "")))):
        if is_own(name):
            yield name
            yield sources_digest(name)


def _names(code: types.CodeType) -> set[str]:
    """Return all names in code: of variables that are not its own, and of attributes."""
    return set(code.co_names).union(*(_names(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def _imports(code: types.CodeType, package: str) -> Iterator[str]:
    """Yield the modules that code imports when it runs."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for at, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level, names = (before.argval for before in steps[at - 2 : at])
            yield from imports_of(step.argval, level, package, list(names or ()))
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _imports(inner, package)


def _of_class(value: type) -> Parts:
    name = b"class " + _name(value)
    if not value.__flags__ & _MADE or (_is_named(value) and not is_own(value.__module__)):
        return Parts(name)
    return Parts(name, _class_parts(value), module=value.__module__ if _is_named(value) else None)


def _class_parts(value: type) -> Iterator[object]:
    yield value.__bases__
    yield type(value)
    for name, part in sorted(vars(value).items()):
        if name not in _NOT_WRITTEN:
            yield name
            yield part


def _of_reduced(value: object, elements: Bag | None = None) -> Parts:
    """Return the parts of a value that pickling takes apart.

    Args:
        value: Any object.
        elements: Those of a set, which pickling lists in an order that differs between processes.
    """
    kind = type(value)
    reduce = cast("dict[type, Callable[[object], Any]]", cloudpickle.Pickler.dispatch_table).get(kind)
    reduced = value.__reduce_ex__(_PROTOCOL) if reduce is None else reduce(value)
    if isinstance(reduced, str):
        return Parts(b"name " + reduced.encode(), _by_name(value))
    function, arguments, state, items, pairs, setter = cast("tuple[Any, ...]", (*reduced, None, None, None, None))[:6]
    parts = [function, *(arguments if elements is None else (elements,)), state]
    if items is not None:
        parts.append(tuple(items))
    if pairs is not None:
        parts.append(tuple(pairs) if isinstance(value, OrderedDict) else Bag(tuple(pairs)))
    if setter is not None:
        parts.append(setter)
    label = f"object {len(arguments)} {items is None} {pairs is None} "
    return Parts(label.encode() + _name(kind), tuple(parts))


def _by_name(value: Any) -> tuple[object, ...]:
    """Return what counts of an object that pickling finds by its name."""
    name = getattr(value, "__module__", None)
    module = sys.modules.get(name) if isinstance(name, str) and is_own(name) else None
    return name, module, getattr(value, "__wrapped__", None)


def _is_named(value: Any) -> bool:
    """Tell whether a task finds a function or class by the name of its module, and its own."""
    module = sys.modules.get(value.__module__ or "")
    if module is None or value.__module__ == "__main__":
        return False
    try:
        return operator.attrgetter(value.__qualname__)(module) is value
    except AttributeError:
        return False


def _name(value: Any) -> bytes:
    return f"{value.__module__}.{value.__qualname__}".encode(errors="surrogatepass")


_FINDERS: Final[dict[type, Callable[[Any], Parts]]] = {
    tuple: _of_sequence,
    list: _of_sequence,
    set: _of_set,
    frozenset: _of_set,
    dict: _of_dict,
    Bag: _of_bag,
    property: _of_property,
    functools.cached_property: _of_cached_property,
    staticmethod: _of_static,
    classmethod: _of_static,
    type(os.environ): _of_environment,
    TypeVar: _of_type_variable,
    types.CellType: _of_cell,
    types.CodeType: _of_code,
    types.FunctionType: _of_function,
    types.MethodType: _of_method,
    types.ModuleType: _of_module,
}
