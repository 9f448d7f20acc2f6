"""Serializers of the objects that connectors put into checkpoints: versioned bytes, by default pickles."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

from penstock._shelf import show

T = TypeVar("T")


class SimpleVersionedSerializer(ABC, Generic[T]):
    r"""Turns splits, enumerator checkpoints, writer states or committables into bytes that later versions still read.

    The version is stored beside the bytes. A serializer with a new format increases its version and still reads the
    older ones.

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
        """Return the object from bytes that this serializer, or an older version of it, made.

        Args:
            version: The version of the bytes.
            serialized: The bytes.
        """


class PickleSerializer(SimpleVersionedSerializer[Any]):
    """Pickles any object; classes of the main script are pickled by value.

    It is the default of connectors without a serializer. A renamed class or module makes old bytes unreadable, so a
    connector whose checkpoints should outlive that needs its own serializer.

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
