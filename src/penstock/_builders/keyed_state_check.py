"""Finds functions that certainly use keyed state without a key, before any task runs them.

The check reads code and runs nothing. Only calls of ``open`` before its first branch are certain; a call after a branch
fails in the task and ends the job.
"""

from __future__ import annotations

import dis
import types
from typing import TYPE_CHECKING, Final, cast

from penstock._api.functions.basic import Function
from penstock._api.functions.wrapping import unwrapped
from penstock._api.state.refusals import KEYED_STATE_CALLS, needs_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.operators.operator_factory import OperatorFactory

_CALLED: Final = frozenset({"LOAD_METHOD", "LOAD_ATTR"})
_BRANCHES: Final = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)


def refuse_keyed_state_without_key(factory: OperatorFactory) -> None:
    """Raise for functions that are certain to use keyed state in an operator without keys.

    Args:
        factory: What the program has given to the operator.

    Raises:
        UnsupportedOperationError: One of them does.
    """
    for member in () if factory.has_key else factory.members().values():
        function = unwrapped(member)
        if isinstance(function, Function):
            _check_calls(function)


def _check_calls(function: Function) -> None:
    opening = type(function).open
    if not isinstance(opening, types.FunctionType):  # pyright: ignore[reportUnnecessaryIsInstance] - C code may be
        return
    where = f"in open() of {type(function).__qualname__}, line {opening.__code__.co_firstlineno}"
    calls = list(_certain_calls(opening))
    of_context = {name for receiver, name in calls if receiver == _parameter(opening)}
    for call in sorted(of_context & KEYED_STATE_CALLS):
        raise needs_key(f"{call}() {where}")


def _parameter(opening: types.FunctionType) -> str:
    """Return the name of a function's parameter for the runtime context."""
    names = opening.__code__.co_varnames
    return names[1] if opening.__code__.co_argcount > 1 else ""


def _certain_calls(function: types.FunctionType) -> Iterator[tuple[str, str]]:
    """Yield the attributes that a function certainly reads, each with the name of the local variable, or ""."""
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
