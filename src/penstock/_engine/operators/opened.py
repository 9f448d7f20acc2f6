"""Function objects of the user's between open and close; used by operators and by the edges behind them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from penstock.datastream.functions import Function

if TYPE_CHECKING:
    from penstock.datastream.functions import RuntimeContext


class OpenedFunctions:
    """The functions that one operator or edge has opened: each is closed once, also one that failed to open."""

    def __init__(self) -> None:
        self._closing = ExitStack()

    def open(self, function: Any, runtime_context: RuntimeContext) -> None:
        """Open a function object; a plain callable has no life of its own."""
        if isinstance(function, Function):
            self._closing.callback(function.close)
            function.open(runtime_context)

    def close(self) -> None:
        """Close all, the last one first; an error of one does not keep the others open."""
        self._closing.close()
