"""Versioned bytes for what a connector puts into checkpoints; without a serializer of the connector's own, pickles."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

from penstock._shelf import show

T = TypeVar("T")


class SimpleVersionedSerializer(ABC, Generic[T]):
    r"""Turns splits, enumerator checkpoints, writer states or committables into bytes that later versions still read.

    The version is kept beside the bytes. A serializer that changes its format counts its version up and keeps reading
    the older ones.

    Source: org.apache.flink.core.io.SimpleVersionedSerializer.

    Example:
        >>> class TextSerializer(SimpleVersionedSerializer[str]):
        ...     def get_version(self):
        ...         return 2
        ...
        ...     def serialize(self, obj):
        ...         return obj.encode("utf-8")
        ...
        ...     def deserialize(self, version, serialized):
        ...         return serialized.decode("utf-8" if version >= 2 else "latin-1")
        >>> TextSerializer().deserialize(1, b"f\xfcr")
        'für'
    """

    @abstractmethod
    def get_version(self) -> int:
        """Return the version of the bytes that ``serialize`` makes."""

    @abstractmethod
    def serialize(self, obj: T) -> bytes:
        """Return the bytes of an object, in the format of ``get_version()``."""

    @abstractmethod
    def deserialize(self, version: int, serialized: bytes) -> T:
        """Return the object of bytes that this serializer, or an older one, made.

        Args:
            version: What ``get_version()`` said when the bytes were made.
            serialized: The bytes.
        """


class PickleSerializer(SimpleVersionedSerializer[Any]):
    """Pickles any object, by value where its class was defined in the main script.

    What connectors get when they bring no serializer. A renamed class or module makes old bytes unreadable: a connector
    whose checkpoints should outlive that brings its own.

    Example:
        >>> PickleSerializer().deserialize(1, PickleSerializer().serialize({"offset": 7}))
        {'offset': 7}
    """

    def get_version(self) -> int:
        """Return 1, the only version."""
        return 1

    def serialize(self, obj: Any) -> bytes:
        """Return the object's pickle."""
        return cloudpickle.dumps(obj)  # pyright: ignore[reportUnknownMemberType]

    def deserialize(self, version: int, serialized: bytes) -> Any:
        """Return the object of a pickle."""
        del version
        return pickle.loads(serialized)


show("penstock.datastream.connectors.base", PickleSerializer, SimpleVersionedSerializer)
