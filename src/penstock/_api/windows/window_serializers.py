"""Serializers of windows, which PyFlink asks of a window assigner, and two helpers of its module of windows."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from penstock._api.windows.window import CountWindow, GlobalWindow, TimeWindow
from penstock._shelf import show
from penstock.common.serializer import TypeSerializer

if TYPE_CHECKING:
    from io import BytesIO

__all__ = [
    "CountWindowSerializer",
    "GlobalWindowSerializer",
    "TimeWindowSerializer",
    "long_to_int_with_bit_mixing",
    "mod_inverse",
]

_SPAN: Final = Struct(">qq")
_NUMBER: Final = Struct(">q")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Writes a TimeWindow as two numbers.

    Source: ``pyflink.datastream.window.TimeWindowSerializer``.

    Example:
        >>> from io import BytesIO
        >>> stream = BytesIO()
        >>> TimeWindowSerializer().serialize(TimeWindow(0, 10), stream)
        >>> TimeWindowSerializer().deserialize(BytesIO(stream.getvalue()))
        TimeWindow(start=0, end=10)
    """

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        """Write a window to a stream."""
        stream.write(_SPAN.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        """Read a window from a stream."""
        return TimeWindow(*_SPAN.unpack(stream.read(_SPAN.size)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """Writes a CountWindow as its number.

    Source: ``pyflink.datastream.window.CountWindowSerializer``.
    """

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        """Write a window to a stream."""
        stream.write(_NUMBER.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        """Read a window from a stream."""
        return CountWindow(*_NUMBER.unpack(stream.read(_NUMBER.size)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Writes the one GlobalWindow as nothing.

    Source: ``pyflink.datastream.window.GlobalWindowSerializer``.
    """

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        """Write nothing."""

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        """Read nothing."""
        return GlobalWindow.get()


def long_to_int_with_bit_mixing(x: int) -> int:
    """Return a number whose bits are mixed, as PyFlink hashes windows; not limited to 64 bits, as there.

    Example:
        >>> long_to_int_with_bit_mixing(0)
        0
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> shift)) * factor
    return x ^ (x >> 31)


def mod_inverse(x: int) -> int:
    """Return the inverse of an odd number modulo 2**32, as PyFlink hashes windows.

    Example:
        >>> mod_inverse(3) * 3 % 2**32
        1
    """
    inverse = x**3
    for _ in range(3):
        inverse *= 2 - x * inverse
    return inverse


show("penstock.datastream.window", CountWindowSerializer, GlobalWindowSerializer, TimeWindowSerializer)
