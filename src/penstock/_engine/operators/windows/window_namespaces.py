"""The namespace of a window in state and timers, a tuple of numbers, and the window of a namespace."""

from __future__ import annotations

from io import BytesIO
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from penstock._api.windows.window import CountWindow, GlobalWindow, TimeWindow, Window
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._engine.state.rows import Namespace
    from penstock.common.serializer import TypeSerializer

#: The first number of the namespace of a window of another class; its second one is the number of its bytes.
_OTHER: Final = -1
_WORD: Final = Struct(">q").size


class WindowNamespaces:
    """Namespaces of the windows of one assigner.

    Windows of the library have one, two or no numbers. Those of other classes have at least three: the bytes that the
    assigner's serializer makes.

    Args:
        serializer: The serializer of the assigner, if it has one.

    Example:
        >>> namespaces = WindowNamespaces()
        >>> namespaces.of(TimeWindow(0, 10)), namespaces.of(CountWindow(7)), namespaces.of(GlobalWindow.get())
        ((0, 10), (7,), ())
        >>> namespaces.window((0, 10)), namespaces.window(())
        (TimeWindow(start=0, end=10), GlobalWindow)
    """

    def __init__(self, serializer: TypeSerializer[Any] | None = None) -> None:
        self._serializer = serializer

    def of(self, window: Window) -> Namespace:
        """Return the namespace of a window.

        Raises:
            UnsupportedOperationError: The window has another class, and the assigner no serializer.
        """
        known: Any = window
        kind = type(known)  # pyright: ignore[reportUnknownVariableType] - of each record, so no isinstance and no match
        if kind is TimeWindow:
            return known.start, known.end
        if kind is CountWindow:
            return (known.id,)
        if kind is GlobalWindow:
            return ()
        data = self._bytes(window)
        padded = data + bytes(-len(data) % _WORD or _WORD * (not data))
        words = (padded[at : at + _WORD] for at in range(0, len(padded), _WORD))
        return _OTHER, len(data), *(int.from_bytes(word, "big", signed=True) for word in words)

    def window(self, namespace: Namespace) -> Window:
        """Return the window of a namespace."""
        match namespace:
            case (start, end):
                return TimeWindow(start, end)
            case (number,):
                return CountWindow(number)
            case (_, size, *words):
                data = b"".join(word.to_bytes(_WORD, "big", signed=True) for word in words)[:size]
                assert self._serializer is not None
                return self._serializer.deserialize(BytesIO(data))
            case _:
                return GlobalWindow.get()

    def _bytes(self, window: Window) -> bytes:
        if self._serializer is None:
            reason = "let get_window_serializer() of the assigner return a serializer of such windows"
            raise UnsupportedOperationError(f"A window of the class {type(window).__qualname__}", reason)
        stream = BytesIO()
        self._serializer.serialize(window, stream)
        return stream.getvalue()
