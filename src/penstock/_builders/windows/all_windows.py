"""Adapts functions of windows without keys to the windows of a single key. Tasks load this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.functions.basic import KeySelector
from penstock._api.functions.windows import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock._builders.keyed_functions import Wrapping

if TYPE_CHECKING:
    from collections.abc import Iterable


class OneKey(KeySelector[Any, int]):
    """Gives all records one key."""

    def get_key(self, value: Any) -> int:
        return 0


class AllApply(Wrapping[AllWindowFunction[Any, Any, Any]], WindowFunction[Any, Any, Any, Any]):
    """An AllWindowFunction as a function of the windows of a key."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        return self.function.apply(window, inputs)


class AllProcess(Wrapping[ProcessAllWindowFunction[Any, Any, Any]], ProcessWindowFunction[Any, Any, Any, Any]):
    """A ProcessAllWindowFunction as a function of the windows of a key, with that key's context."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any] | None:
        return self.function.process(context, elements)

    def clear(self, context: Any) -> None:
        self.function.clear(context)


def with_key(
    function: AllWindowFunction[Any, Any, Any] | ProcessAllWindowFunction[Any, Any, Any],
) -> AllApply | AllProcess:
    """Return a function of windows without keys as one of the windows of a key."""
    return AllApply(function) if isinstance(function, AllWindowFunction) else AllProcess(function)
