"""A function of the library's that stands for one of the program's. Tasks load this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from penstock._api.functions.basic import Function

if TYPE_CHECKING:
    from penstock._api.runtime_context import RuntimeContext

F = TypeVar("F")


class WrappingFunction(Function, Generic[F]):
    """Opens and closes the function that it stands for, unless that is a plain callable.

    Args:
        function: The function, which may stand for another one itself.
    """

    def __init__(self, function: F) -> None:
        self.function = function

    @property
    def wrapped_function(self) -> Any:
        """The program's function, which may keep operator state."""
        return unwrapped(self.function)

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self.function, Function):
            cast("Function", self.function).open(runtime_context)

    def close(self) -> None:
        if isinstance(self.function, Function):
            cast("Function", self.function).close()


def unwrapped(function: Any) -> Any:
    """Return the program's function that one stands for; the function itself if it stands for none."""
    return getattr(function, "wrapped_function", function)
