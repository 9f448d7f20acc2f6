"""Refuses functions that are certain to use unsupported state, before any task runs them.

Nothing is run. Two things are certain from what a function is made of: the state descriptors that it holds, as
attributes, in closures or as global names; and the calls that its ``open`` makes before the first branch, whatever
happens. A call after a branch is found in the task, and ends the job there.
"""

from __future__ import annotations

import dis
import types
from typing import TYPE_CHECKING, Final, TypeVar, cast

from penstock._api.functions.basic import Function
from penstock._api.state.descriptors import StateDescriptor
from penstock._api.state.lacking import KEYED_STATE_CALLS, needs_key, refuse_time_to_live, time_to_live
from penstock._api.state.ttl import StateTtlConfig
from penstock._engine.graph.job_graph import OperatorKind
from penstock._engine.graph.pickling import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T")

#: How far it looks for descriptors: values in values, and values in all.
_MAX_DEPTH: Final = 5
_MAX_VALUES: Final = 500
_WITHOUT_KEY: Final = frozenset(
    {
        OperatorKind.MAP,
        OperatorKind.FLAT_MAP,
        OperatorKind.FILTER,
        OperatorKind.PROCESS,
        OperatorKind.CO_MAP,
        OperatorKind.CO_FLAT_MAP,
        OperatorKind.CO_PROCESS,
    }
)
_CALLED: Final = frozenset({"LOAD_METHOD", "LOAD_ATTR"})
_BRANCHES: Final = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)


def refuse_what_is_lacking(kind: OperatorKind, members: Mapping[str, object]) -> None:
    """Raise for functions that are certain to use unsupported state.

    Args:
        kind: The operator's kind.
        members: The members of its payload.

    Raises:
        UnsupportedOperationError: A time to live, or keyed state without a key.
    """
    for member in members.values():
        function = getattr(member, "wrapped_function", member)
        if isinstance(function, Function):
            _check_calls(kind, function)
            for descriptor in _held(function, StateDescriptor):
                refuse_time_to_live(descriptor)


def _check_calls(kind: OperatorKind, function: Function) -> None:
    opening = type(function).open
    if not isinstance(opening, types.FunctionType):  # pyright: ignore[reportUnnecessaryIsInstance] - C code may be
        return
    where = f"in open() of {type(function).__qualname__}, line {opening.__code__.co_firstlineno}"
    calls = list(_certain_calls(opening))
    of_context = {name for receiver, name in calls if receiver == _parameter(opening)}
    if kind in _WITHOUT_KEY:
        for call in sorted(of_context & KEYED_STATE_CALLS):
            raise needs_key(f"{call}() {where}")
    names = {name for _, name in calls}
    if "enable_time_to_live" in names:
        made_here = "new_builder" in names and "Disabled" not in names
        if made_here or any(config.is_enabled() for config in _held(function, StateTtlConfig)):
            raise time_to_live(f"enable_time_to_live() {where}")


def _parameter(opening: types.FunctionType) -> str:
    """Return what a function calls its runtime context."""
    names = opening.__code__.co_varnames
    return names[1] if opening.__code__.co_argcount > 1 else ""


def _certain_calls(function: types.FunctionType) -> Iterator[tuple[str, str]]:
    """Yield the attributes that a function asks for in any case, each with the local variable that it asks, or ""."""
    if function.__code__.co_exceptiontable:
        return  # it may be about what raises
    receiver = ""
    for step in dis.get_instructions(function):
        if step.opcode in _BRANCHES:
            return
        if step.opname in _CALLED:
            yield receiver, step.argval
        receiver = ""
        if step.opname.startswith("LOAD_FAST"):  # of two loaded at once, the last is on top
            loaded = cast("str | tuple[str, ...]", step.argval)
            receiver = loaded if isinstance(loaded, str) else loaded[-1]


def _held(function: Function, kind: type[T]) -> list[T]:
    """Return the values of a kind that a function holds."""
    found: list[T] = []
    seen: set[int] = set()
    layer: list[object] = [function]
    for _ in range(_MAX_DEPTH):
        following: list[object] = []
        for value in layer:
            if id(value) in seen or len(seen) > _MAX_VALUES:
                continue
            seen.add(id(value))
            if isinstance(value, kind):
                found.append(value)
            elif not isinstance(value, types.ModuleType):
                following += (part for _, part in parts_of(value))
        layer = following
    return found
