"""The common base of window operators: it opens and calls the window function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._engine.operators.keyed import KeyedOperator

if TYPE_CHECKING:
    from penstock._engine.operators.base import EpochContext
    from penstock._engine.operators.windows.window_function import WindowResults


class WindowedOperator(KeyedOperator):
    """Emits the results of a window function for a window's contents.

    Args:
        key_selector: The key selector of the stream.
        results: Emits the results of a firing window.
    """

    def __init__(self, key_selector: Any, results: WindowResults) -> None:
        super().__init__(key_selector)
        self.results = results

    def open_functions(self, epoch: EpochContext) -> None:
        function = self.results.prepare(self.context, self.store)
        if function is not None:
            self.open_function(*function, epoch, yields=True)

    def leave_keys(self) -> None:
        self.results.leave_keys()
