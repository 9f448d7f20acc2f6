"""What a codec is, and the schemas of messages that read and write by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from penstock.common.serialization import DeserializationSchema, SerializationSchema

if TYPE_CHECKING:
    from collections.abc import Iterable


class MessageCodec(Protocol):
    """Reads and writes values of one type in one format, one by one and in blocks.

    Each method raises MessageFormatError for what does not fit.
    """

    def decode(self, message: bytes) -> Any:
        """Return the value of a message."""
        ...

    def decode_block(self, messages: Iterable[bytes]) -> list[Any]:
        """Return the values of messages."""
        ...

    def encode(self, value: Any) -> bytes:
        """Return a value as a message."""
        ...

    def encode_block(self, values: Iterable[Any]) -> list[bytes]:
        """Return values as messages."""
        ...


class CodecDeserializationSchema(DeserializationSchema):
    """Reads messages by a codec.

    Args:
        codec: The codec.
    """

    def __init__(self, codec: MessageCodec) -> None:
        self._codec = codec

    def deserialize(self, message: bytes) -> Any:
        """Return the value of a message; None for no message, and for one that is left out.

        Raises:
            MessageFormatError: It is not what the type or the schema describes.
        """
        if message is None:  # pyright: ignore[reportUnnecessaryComparison] - a connector has none where a record has none
            return None
        return self._codec.decode(message)

    def deserialize_all(self, messages: list[bytes]) -> list[Any]:
        """Return the values of a block of messages.

        Raises:
            MessageFormatError: One of them is not what the type or the schema describes.
        """
        return self._codec.decode_block(messages)


class CodecSerializationSchema(SerializationSchema):
    """Writes messages by a codec.

    Args:
        codec: The codec.
    """

    def __init__(self, codec: MessageCodec) -> None:
        self._codec = codec

    def serialize(self, element: Any) -> bytes:
        """Return a value as a message.

        Raises:
            MessageFormatError: It has other fields than the type or the schema, or one does not fit.
        """
        return self._codec.encode(element)

    def serialize_all(self, elements: list[Any]) -> list[bytes]:
        """Return a block of values as messages.

        Raises:
            MessageFormatError: One of them does not fit.
        """
        return self._codec.encode_block(elements)
