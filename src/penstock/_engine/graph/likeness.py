"""A digest of an operator's functions, which distinguishes operators of one kind.

It is made of code without file names and line numbers, of the closures of functions and of the attributes of objects,
so it does not change between processes or while a program is edited around a function. It need not be exact: an
operator whose digest is wrong is treated like one without a digest.
"""

from __future__ import annotations

import enum
import functools
import sys
import sysconfig
import types
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.graph.pickling import attributes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The limits of the search: its depth, and the number of values.
_MAX_DEPTH: Final = 12
_MAX_VALUES: Final = 5_000
_LETTERS: Final = 16
#: The types of constants.
_SCALARS: Final = frozenset({type(None), bool, int, float, complex, str, bytes})
_COLLECTIONS: Final = frozenset({tuple, list, set, frozenset})


def likeness(members: Mapping[str, object]) -> str:
    """Return the digest of an operator.

    Args:
        members: Functions, selectors, sources and settings by name.
    """
    walk = _LikenessWalk()
    parts = (walk.digest(name) + walk.digest(value) for name, value in sorted(members.items()))
    return sha256(b"".join(parts)).hexdigest()[:_LETTERS]


def program_digest(members: Mapping[str, object]) -> str:
    """Return a digest of an operator that also has what its functions find in the user's own modules.

    That is the code of classes and functions, and constants: numbers, texts, and collections of them.

    Args:
        members: As for `likeness`.
    """
    walk = _ProgramWalk()
    parts = (walk.digest(name) + walk.digest(value) for name, value in sorted(members.items()))
    return sha256(b"".join(parts)).hexdigest()[:_LETTERS]


class _LikenessWalk:
    """One walk through a value and its parts."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES
        #: The ids of the values around the current one, because a value may contain itself.
        self._around: list[int] = []

    def digest(self, value: object) -> bytes:
        self._left -= 1
        if self._left < 0 or len(self._around) > _MAX_DEPTH or id(value) in self._around:
            return b"..."
        self._around.append(id(value))
        try:
            return sha256(b"\0".join(self._parts(value))).digest()
        finally:
            self._around.pop()

    def _parts(self, value: object) -> Iterator[bytes]:
        """Yield the parts of a value, its kind first."""
        yield type(value).__qualname__.encode()
        match value:
            case None | bool() | int() | float() | complex() | str() | enum.Enum():
                yield repr(value).encode()
            case bytes() | bytearray():
                yield bytes(value)
            case tuple() | list():
                yield from map(self.digest, cast("list[object]", value))
            case set() | frozenset():
                yield from sorted(map(self.digest, cast("set[object]", value)))
            case dict():
                items = cast("dict[object, object]", value).items()
                yield from sorted(self.digest(key) + self.digest(part) for key, part in items)
            case types.BuiltinFunctionType() | type():
                yield _name(value)
            case types.CodeType():
                yield value.co_code
                yield repr(value.co_names).encode()
                yield from map(self.digest, value.co_consts)
            case _:
                yield from self._parts_of_object(value)

    def _parts_of_object(self, value: object) -> Iterator[bytes]:
        match value:
            case types.FunctionType():
                yield from map(self.digest, _of_function(value))
            case types.MethodType():
                yield from map(self.digest, (value.__self__, value.__func__))
            case functools.partial():
                partial = cast("functools.partial[object]", value)
                yield from map(self.digest, (partial.func, partial.args, partial.keywords))
            case _:
                yield _name(type(value))
                yield from sorted(name.encode() + self.digest(part) for name, part in attributes(value))


class _ProgramWalk(_LikenessWalk):
    """A walk that enters classes and functions of the user's own modules, each once."""

    def __init__(self) -> None:
        super().__init__()
        self._left = 10 * _MAX_VALUES
        self._entered: set[int] = set()

    def _parts(self, value: object) -> Iterator[bytes]:
        yield from super()._parts(value)
        if isinstance(value, type) and self._enters(value):
            members = (
                (name, part) for name, part in vars(value).items() if not name.startswith("__") or callable(part)
            )
            yield from sorted(name.encode() + known for name, part in members for known in self._known(part))
            yield from map(self.digest, value.__bases__)

    def _parts_of_object(self, value: object) -> Iterator[bytes]:
        yield from super()._parts_of_object(value)
        if isinstance(value, types.FunctionType):
            if self._enters(value):
                yield from self._globals(value)
        elif isinstance(value, (staticmethod, classmethod)):
            yield self.digest(cast("Any", value).__func__)
        elif isinstance(value, property):
            yield self.digest(value.fget)
        elif not isinstance(value, (types.MethodType, functools.partial)):
            yield self.digest(type(value))

    def _globals(self, function: types.FunctionType) -> Iterator[bytes]:
        """Yield what a function finds in its module, and in others of the user's."""
        names = _names(function.__code__)
        for name in sorted(names & function.__globals__.keys()):
            part = function.__globals__[name]
            if isinstance(part, types.ModuleType) and _is_users(part.__name__):
                inner = sorted(names & vars(part).keys())
                yield from (each.encode() + known for each in inner for known in self._known(vars(part)[each]))
            else:
                yield from (name.encode() + known for known in self._known(part))

    def _known(self, value: object) -> Iterator[bytes]:
        """Yield the digest of code or of a constant; nothing for other objects, which may be new in each process."""
        if _is_code(value):
            yield self.digest(value)
        elif _is_constant(value):
            yield _LikenessWalk().digest(value)  # however large it is, what follows is looked at

    def _enters(self, value: Any) -> bool:
        """Tell whether this is the first look at a class or function of the user's own modules."""
        if id(value) in self._entered or not _is_users(value.__module__):
            return False
        self._entered.add(id(value))
        return True


def _is_code(value: object) -> bool:
    return isinstance(value, (types.FunctionType, type, staticmethod, classmethod, property))


def _is_constant(value: object) -> bool:
    if isinstance(value, enum.Enum) or type(value) in _SCALARS:
        return True
    if type(value) is dict:
        return all(_is_constant(part) for item in cast("dict[object, object]", value).items() for part in item)
    return type(value) in _COLLECTIONS and all(map(_is_constant, cast("list[object]", value)))


def _names(code: types.CodeType) -> set[str]:
    """Return the global names that a function and the functions in it may use."""
    inner = (part for part in code.co_consts if isinstance(part, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _is_users(module: str | None) -> bool:
    """Tell whether a module is the user's own: neither Python's, nor installed, nor ours."""
    if module == "__main__":
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if file is None or (module or "").partition(".")[0] == "penstock":
        return False
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return not any(file.startswith(f"{folder}/") for folder in folders)


def _of_function(function: types.FunctionType) -> Iterator[object]:
    yield function.__code__
    yield function.__defaults__
    yield function.__kwdefaults__
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not yet assigned
            yield None


def _name(value: Any) -> bytes:
    return f"{value.__module__}.{value.__qualname__}".encode()
