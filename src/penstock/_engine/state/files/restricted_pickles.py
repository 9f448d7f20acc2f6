"""Reads pickles that an attacker may have written: checks the names that they use, and the calls that they make.

A pickle is a program. With harmless names alone it can ask for more memory than there is (``list(range(10**12))``), or
change what the process shares: set attributes of a class or an enum member. So classes of plain types are called only
as pickles of their values call them, and nothing that the pickle did not make itself is changed.

Most pickles have no names, and are read by Python's fast unpickler in C. It does not let callers check a call, so
pickles with names are read by the unpickler in Python.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from enum import Enum
from fractions import Fraction
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from zoneinfo import ZoneInfo

from penstock.common.types import Row, make_row
from penstock.errors import UntrustedClassError

if TYPE_CHECKING:
    from collections.abc import Callable

#: How pickles name a method of a class; see `_attribute`.
_GETATTR: Final = "builtins.getattr"
#: Types of objects that a process shares; a pickle gets them by name, and must not change them.
_SHARED: Final = (type, Enum, FunctionType, BuiltinFunctionType, MethodType)


def load_restricted(data: bytes, check: Callable[[str], object], is_free: Callable[[str], bool]) -> Any:
    """Return the value of a pickle.

    Args:
        data: The pickle.
        check: Raises UntrustedClassError for a forbidden name.
        is_free: Tells whether a class may be called with any arguments: the classes that the reader named may.

    Raises:
        UntrustedClassError: The pickle uses a forbidden name, or calls a plain type in a way that pickles of its values
            never do.
        UnpicklingError: The pickle would change an object of the process, or is damaged.
    """
    try:
        return _NamelessUnpickler(io.BytesIO(data)).load()
    except _NameFound:
        pass
    try:
        return _RestrictedUnpickler(data, check, is_free).load()
    except (IndexError, KeyError) as error:  # of a stack or table of the unpickler
        raise pickle.UnpicklingError(str(error)) from error


class _NameFound(Exception):
    pass


class _NamelessUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        raise _NameFound


def _never(_: tuple[Any, ...]) -> bool:
    return False


def _no_arguments(arguments: tuple[Any, ...]) -> bool:
    return not arguments


def _integers(arguments: tuple[Any, ...]) -> bool:
    return set(map(type, arguments)) <= {int}


def _factory(arguments: tuple[Any, ...]) -> bool:
    return len(arguments) <= 1 and all(one is None or isinstance(one, type) for one in arguments)


def _empty_and_length(arguments: tuple[Any, ...]) -> bool:
    return not arguments or arguments[0] in ((), [])


#: Plain types whose size follows from their arguments: whether pickles of their values call them with such ones. The
#: pickles have operations of their own for most of these types, and name them as default factories alone.
_CALLS: Final[dict[Any, Callable[[tuple[Any, ...]], bool]]] = {
    **dict.fromkeys((bytearray, bytes, dict, frozenset, int, list, set, str, tuple, Row), _never),
    Fraction: _integers,
    OrderedDict: _no_arguments,
    defaultdict: _factory,
    deque: _empty_and_length,
}
#: Those that copy an argument, by its place, and the types that it may be of.
_COPIES: Final[dict[Any, tuple[int, tuple[type, ...]]]] = {Counter: (0, (dict,)), make_row: (1, (list, tuple))}
#: Names that an unpickler looks up in an object rather than in its class.
_LOOKED_UP: Final = ("__setstate__", "__class__", "append", "extend", "add")

if TYPE_CHECKING:

    class _PythonUnpickler(pickle.Unpickler):
        dispatch: ClassVar[dict[int, Callable[[Any], None]]]
        stack: list[Any]

        def load_reduce(self) -> None: ...
        def load_newobj(self) -> None: ...
        def load_newobj_ex(self) -> None: ...
        def load_build(self) -> None: ...
        def _instantiate(self, kind: Any, arguments: Any) -> None: ...

else:
    _PythonUnpickler = pickle._Unpickler


class _RestrictedUnpickler(_PythonUnpickler):
    dispatch: ClassVar = dict(_PythonUnpickler.dispatch)

    def __init__(self, data: bytes, check: Callable[[str], object], is_free: Callable[[str], bool]) -> None:
        super().__init__(io.BytesIO(data), fix_imports=False)
        self._check, self._is_free = check, is_free
        #: How many items may still be copied. Each that stands in the pickle once has a byte there at least.
        self._copies_left = len(data)

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return the class that a pickle names, if it is allowed."""
        name = f"{module_name}.{global_name}"
        if name == _GETATTR:
            return _attribute
        self._check(name)
        found = super().find_class(module_name, global_name)
        if not isinstance(found, type) and found is not make_row:
            raise UntrustedClassError(name)
        return found

    def _check_call(self, function: Any, arguments: Any, keywords: Any = None) -> None:
        if type(arguments) is not tuple or not isinstance(function, _SHARED):
            msg = "it calls what is no function, or with what is no list of arguments"
            raise pickle.UnpicklingError(msg)
        self._check_arguments(function, cast("tuple[Any, ...]", arguments), keywords)

    def _check_arguments(self, function: Any, arguments: tuple[Any, ...], keywords: Any) -> None:
        may_call, copy = _CALLS.get(function), _COPIES.get(function)
        if may_call is not None:
            is_well = not keywords and may_call(arguments)
        elif copy is not None:
            is_well = not keywords and self._may_copy(arguments, *copy)
        else:
            return
        name = "" if is_well else f"{function.__module__}.{function.__qualname__}"
        if name and not self._is_free(name):
            raise UntrustedClassError(name)

    def _may_copy(self, arguments: tuple[Any, ...], place: int, kinds: tuple[type, ...]) -> bool:
        if len(arguments) <= place:
            return True
        argument = arguments[place]
        if type(argument) not in kinds:
            return False
        self._copies_left -= len(argument)
        return self._copies_left >= 0

    def _load_reduce(self) -> None:
        self._check_call(self.stack[-2], self.stack[-1])
        super().load_reduce()

    def _load_newobj(self) -> None:
        self._check_new(self.stack[-2], self.stack[-1])
        super().load_newobj()

    def _load_newobj_ex(self) -> None:
        self._check_new(self.stack[-3], self.stack[-2], self.stack[-1])
        super().load_newobj_ex()

    def _check_new(self, kind: Any, arguments: Any, keywords: Any = None) -> None:
        if not isinstance(kind, type):
            msg = "it makes an object of what is no class"
            raise pickle.UnpicklingError(msg)
        self._check_call(kind, arguments, keywords)

    def _instantiate(self, kind: Any, arguments: Any) -> None:
        self._check_call(kind, tuple(arguments))
        super()._instantiate(kind, arguments)

    def _load_build(self) -> None:
        changed, state = self.stack[-2], self.stack[-1]
        if isinstance(changed, _SHARED):
            msg = f"it changes {changed!r}, which the process shares"
            raise pickle.UnpicklingError(msg)
        # The next operations look these up in the object itself, where its state could put a class to call.
        parts = cast("tuple[Any, ...]", state if isinstance(state, tuple) else (state,))
        for part in (cast("dict[Any, Any]", part) for part in parts if isinstance(part, dict)):
            if any(isinstance(part.get(name), _SHARED) for name in _LOOKED_UP):
                msg = "the state of an object changes how the pickle is read"
                raise pickle.UnpicklingError(msg)
        super().load_build()

    dispatch[pickle.REDUCE[0]] = _load_reduce
    dispatch[pickle.NEWOBJ[0]] = _load_newobj
    dispatch[pickle.NEWOBJ_EX[0]] = _load_newobj_ex
    dispatch[pickle.BUILD[0]] = _load_build


def _attribute(holder: Any, name: str) -> Any:
    """Replace getattr, which pickles of time zones call for a method, and pickles of some enums for a member."""
    if holder is ZoneInfo and name == "_unpickle":
        return ZoneInfo._unpickle  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(holder, type) and issubclass(holder, Enum) and name in holder.__members__:
        return holder[name]
    raise UntrustedClassError(_GETATTR)
