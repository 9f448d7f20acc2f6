"""TypeSerializer: how a value becomes bytes, for PyFlink programs that bring their own (``pyflink.common.serializer``).

Penstock pickles state and windows; a serializer is accepted where PyFlink takes one and is not called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from io import BytesIO

__all__ = ["TypeSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """How a value becomes bytes and a value again; two of one class with equal attributes are equal.

    Source: ``pyflink.common.TypeSerializer``.
    """

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Write a value to a stream."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Read a value from a stream."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """The serializer of the namespace of state that has none.

    Example:
        >>> from io import BytesIO
        >>> VoidNamespaceSerializer().deserialize(BytesIO())
        b''
    """

    def serialize(self, element: bytes, stream: BytesIO) -> None:
        """Write nothing."""

    def deserialize(self, stream: BytesIO) -> bytes:
        """Read nothing."""
        return b""
