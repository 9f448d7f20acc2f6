"""Schemas and encoders: how records become bytes outside of the job (``pyflink.common.serialization``).

These are interfaces, which a program may implement; connectors call them with one record or a block. Implementations
are pickled with the job, so they should open connections and files at their first use.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, cast

from penstock._absent import explain
from penstock.common.record_text import record_text
from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from penstock.common.typeinfo import TypeInformation

__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowDataBulkWriterFactory",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


class SerializationSchema(ABC):
    """Makes bytes of a record.

    Source: org.apache.flink.api.common.serialization.SerializationSchema.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        _blocks_by_one(cls, "serialize", SerializationSchema.serialize_all)

    @abstractmethod
    def serialize(self, element: Any) -> bytes:
        """Return the bytes of a record."""

    def serialize_all(self, elements: list[Any]) -> list[bytes]:
        """Return the bytes of a block of records; overridden by schemas that are faster this way."""
        return list(map(self.serialize, elements))


class DeserializationSchema(ABC):
    """Makes a record of bytes.

    Source: org.apache.flink.api.common.serialization.DeserializationSchema.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        _blocks_by_one(cls, "deserialize", DeserializationSchema.deserialize_all)

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Return the record; None drops the message."""

    def deserialize_all(self, messages: list[bytes]) -> list[Any]:
        """Return what `deserialize` makes of a block of messages; overridden by schemas that are faster this way.

        Raises:
            Exception: One of them cannot be read; which one, `deserialize` tells.
        """
        return list(map(self.deserialize, messages))

    def is_end_of_stream(self, next_element: Any) -> bool:
        """Tell whether a record is the last one that should be read; it is not handed on."""
        del next_element
        return False

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the records."""
        return Types.PICKLED_BYTE_ARRAY()


def _blocks_by_one(schema: type, name: str, default: Callable[..., Any]) -> None:
    """Let a schema that overrides one method of a base class not inherit the block method that belongs to it."""
    if name in vars(schema) and f"{name}_all" not in vars(schema):
        setattr(schema, f"{name}_all", default)


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Text as bytes of a charset.

    Args:
        charset: The charset's name.

    Raises:
        LookupError: There is no such charset.

    Source: org.apache.flink.api.common.serialization.SimpleStringSchema.

    Example:
        >>> schema = SimpleStringSchema()
        >>> schema.deserialize(schema.serialize("für"))
        'für'
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = codecs.lookup(charset).name

    def serialize(self, element: str) -> bytes:
        """Return the text's bytes.

        Raises:
            TypeError: It is no text.
            UnicodeEncodeError: The charset does not have one of its characters.
        """
        try:
            return element.encode(self._charset)
        except AttributeError:
            msg = f"SimpleStringSchema writes texts, not {element!r:.200}; make a text of it in a map() before."
            raise TypeError(msg) from None

    def deserialize(self, message: bytes) -> str:
        """Return the text of the bytes; invalid bytes become the replacement character."""
        return message.decode(self._charset, errors="replace")

    def deserialize_all(self, messages: list[bytes]) -> list[str]:
        """Return the texts of a block."""
        charset = self._charset
        return [str(message, charset, "replace") for message in messages]

    def get_produced_type(self) -> TypeInformation:
        """Return the type of text."""
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are.

    Source: org.apache.flink.api.common.serialization.ByteArraySchema.

    Example:
        >>> ByteArraySchema().deserialize(b"raw")
        b'raw'
    """

    def __init__(self) -> None:
        """Make one; PyFlink's has a constructor too."""

    def serialize(self, element: bytes) -> bytes:
        """Return the bytes."""
        return element

    def serialize_all(self, elements: list[bytes]) -> list[bytes]:
        """Return the same list."""
        return elements

    def deserialize(self, message: bytes) -> bytes:
        """Return the bytes."""
        return message

    def deserialize_all(self, messages: list[bytes]) -> list[bytes]:
        """Return the same list."""
        return messages

    def get_produced_type(self) -> TypeInformation:
        """Return the type of bytes."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a Row, which must hold bytes; for the key of a Kafka record.

    Args:
        field_index: The field's position, from 0.

    Raises:
        ValueError: The position is negative.

    Source: ``pyflink.common.serialization.RowFieldExtractorSchema``.

    Example:
        >>> from penstock.common.types import Row
        >>> RowFieldExtractorSchema(1).serialize(Row("a", b"key"))
        b'key'
    """

    def __init__(self, field_index: int) -> None:
        if field_index < 0:
            msg = f"field_index cannot be negative: {field_index}."
            raise ValueError(msg)
        self._field_index = field_index

    def serialize(self, element: Any) -> bytes:
        """Return the field's bytes; none for None, in place of the field or of the row.

        Raises:
            TypeError: The field holds something else.
        """
        value = None if element is None else element[self._field_index]
        if value is None:
            return b""
        if not isinstance(value, (bytes, bytearray)):
            msg = f"Field {self._field_index} must hold bytes, not {value!r}."
            raise TypeError(msg)
        return bytes(cast("bytes", value))


class Encoder(ABC):
    r"""Writes records one after the other into a file.

    Source: org.apache.flink.api.common.serialization.Encoder.

    Example:
        >>> from io import BytesIO
        >>> file = BytesIO()
        >>> Encoder.simple_string_encoder().encode((1, "a"), file)
        >>> file.getvalue()
        b"(1, 'a')\n"
    """

    @abstractmethod
    def encode(self, element: Any, stream: BinaryIO) -> None:
        """Write one record."""

    def encode_all(self, elements: list[Any], stream: BinaryIO) -> None:
        """Write a block of records; overridden by encoders that are faster this way."""
        for element in elements:
            self.encode(element, stream)

    def for_type(self, type_info: TypeInformation | None) -> Encoder:
        """Return the encoder for a stream of a type; ``sink_to`` asks once, this one takes any type.

        Args:
            type_info: The type of the stream, or None for a stream without one.
        """
        del type_info
        return self

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return the encoder that writes each record's text and a line feed.

        Args:
            charset_name: The charset of the file.

        Raises:
            LookupError: There is no such charset.
        """
        return _SimpleStringEncoder(codecs.lookup(charset_name).name, None)


class _SimpleStringEncoder(Encoder):
    def __init__(self, charset: str, type_info: TypeInformation | None) -> None:
        self._charset, self._type_info = charset, type_info

    def encode(self, element: Any, stream: BinaryIO) -> None:
        stream.write(f"{record_text(element, self._type_info)}\n".encode(self._charset))

    def encode_all(self, elements: list[Any], stream: BinaryIO) -> None:
        type_info = self._type_info
        if type_info is None or type_info == Types.STRING():
            texts = [element if type(element) is str else record_text(element, type_info) for element in elements]
        else:
            texts = [record_text(element, type_info) for element in elements]
        texts.append("")
        stream.write("\n".join(texts).encode(self._charset))

    def for_type(self, type_info: TypeInformation | None) -> Encoder:
        return _SimpleStringEncoder(self._charset, type_info)


class BulkWriter(ABC):
    """Writes many records into one file of a format such as Parquet.

    Source: org.apache.flink.api.common.serialization.BulkWriter.
    """

    @abstractmethod
    def add_element(self, element: Any) -> None:
        """Take one record."""

    def add_elements(self, elements: list[Any]) -> None:
        """Take a block of records; overridden by writers that are faster this way."""
        for element in elements:
            self.add_element(element)

    def add_batch(self, batch: pa.RecordBatch, records: Callable[[], list[Any]]) -> None:
        """Take a batch of columns; overridden by writers whose factory ``takes_batches``.

        Args:
            batch: The columns; their names are those of the records' fields.
            records: Returns its records, made once.
        """
        del batch
        self.add_elements(records())

    @abstractmethod
    def flush(self) -> None:
        """Write buffered records, as far as the format allows."""

    @abstractmethod
    def finish(self) -> None:
        """Write the rest, so that the file is complete; does not close the stream."""


class BulkWriterFactory(ABC):
    """Makes a writer for each file.

    Attributes:
        takes_batches: Whether ``add_batch`` of its writers is better than records; ours.

    Source: org.apache.flink.api.common.serialization.BulkWriter.Factory.
    """

    takes_batches: ClassVar[bool] = False

    @abstractmethod
    def create(self, stream: BinaryIO) -> BulkWriter:
        """Return a writer that writes into an empty file."""


class RowDataBulkWriterFactory(BulkWriterFactory):
    """Makes writers for rows of one type.

    Args:
        row_type: The type of the rows.

    Source: ``pyflink.common.serialization.RowDataBulkWriterFactory``.
    """

    def __init__(self, row_type: Any) -> None:
        self._row_type = row_type

    def get_row_type(self) -> Any:
        """Return the type of the rows."""
        return self._row_type


explain(__name__)
