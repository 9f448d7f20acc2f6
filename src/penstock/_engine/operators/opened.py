"""The open functions of an operator or of an edge."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from penstock._api.functions.basic import Function
from penstock._api.functions.endings import call_silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._api.runtime_context import RuntimeContext


class OpenedFunctions:
    """The functions that one operator or edge has opened: each is closed once, also if it failed to open."""

    def __init__(self) -> None:
        self._closing = ExitStack()
        #: In the order of their opening.
        self.opened: list[Any] = []

    def open(self, function: Any, runtime_context: RuntimeContext, first: Callable[[], None] = lambda: None) -> None:
        """Open a function object; a plain callable is not opened.

        Args:
            function: The function.
            runtime_context: The context passed to ``open``.
            first: Runs before ``open``; the function is closed also when it fails.
        """
        is_object = isinstance(function, Function)
        if is_object:
            self._closing.callback(function.close)
        first()
        if is_object:
            function.open(runtime_context)
            self.opened.append(function)

    def finish(self) -> None:
        """Call `finish` of functions that yield nothing, such as key selectors."""
        for function in self.opened:
            call_silent(function, "finish")

    def close(self) -> None:
        """Close all functions in reverse order; an error of one does not keep others open."""
        self._closing.close()
