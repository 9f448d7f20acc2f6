"""Rows as JSON objects (``pyflink.datastream.formats.json``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock._shelf import show
from penstock.common._codecs.codec import CodecDeserializationSchema, CodecSerializationSchema
from penstock.common._codecs.json_codec import JsonCodec
from penstock.common._codecs.json_types import type_of_json_schema
from penstock.common.typeinfo import RowTypeInfo

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]


class JsonRowDeserializationSchema(CodecDeserializationSchema):
    """Makes a Row of a JSON object; ``builder()`` begins one.

    Fields that the type does not have are left out. Times are as in RFC 3339, bytes in base64.

    Source: org.apache.flink.formats.json.JsonRowDeserializationSchema.

    Example:
        >>> from penstock.common.typeinfo import Types
        >>> row_type = Types.ROW_NAMED(["id", "tags"], [Types.LONG(), Types.LIST(Types.STRING())])
        >>> schema = JsonRowDeserializationSchema.builder().type_info(row_type).build()
        >>> schema.deserialize(b'{"id": 7, "tags": ["a"], "more": true}')
        Row(id=7, tags=['a'])
    """

    def __init__(self, codec: JsonCodec) -> None:
        super().__init__(codec)
        self._row_type = codec.type_info

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Begin a schema."""
        return JsonRowDeserializationSchema.Builder()

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return cast("RowTypeInfo", self._row_type)

    class Builder:
        """Builds a JsonRowDeserializationSchema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._strict = self._lenient = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows, whose field names are those of the JSON object."""
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows by a JSON schema.

            Raises:
                TypeError: There is none.
                ValueError: It is none that rows can have.
            """
            if json_schema is None:  # pyright: ignore[reportUnnecessaryComparison]
                msg = "The json_schema must not be None."
                raise TypeError(msg)
            self._type_info = type_of_json_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Let a missing field be an error; otherwise it is None."""
            self._strict = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Drop messages that are no JSON, and let fields be None that do not fit; otherwise these are errors."""
            self._lenient = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Return the schema.

            Raises:
                TypeError: The type of the rows is not set, or is no row.
                ValueError: Missing fields are both an error and to be ignored, or a type has no JSON.
            """
            row_type = _checked(self._type_info)
            if self._strict and self._lenient:
                msg = "JSON format doesn't support failOnMissingField and ignoreParseErrors are both enabled."
                raise ValueError(msg)
            codec = JsonCodec(row_type, fail_on_missing_field=self._strict, ignore_parse_errors=self._lenient)
            return JsonRowDeserializationSchema(codec)


class JsonRowSerializationSchema(CodecSerializationSchema):
    r"""Makes a JSON object of a Row; ``builder()`` begins one.

    Dicts are read by names, and so are Rows with the names of the type in another order; all other Rows and tuples by
    position. Decimals keep their digits. A number that is not finite becomes the text NaN, Infinity or -Infinity.

    Source: org.apache.flink.formats.json.JsonRowSerializationSchema.

    Example:
        >>> from penstock.common.typeinfo import Types
        >>> from penstock.common.types import Row
        >>> row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
        >>> JsonRowSerializationSchema.builder().with_type_info(row_type).build().serialize(Row(7, "für"))
        b'{"id":7,"name":"f\xc3\xbcr"}'
    """

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Begin a schema."""
        return JsonRowSerializationSchema.Builder()

    class Builder:
        """Builds a JsonRowSerializationSchema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type of the rows, whose field names are those of the JSON object."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Return the schema.

            Raises:
                TypeError: The type of the rows is not set, or is no row.
                ValueError: A type has no JSON.
            """
            return JsonRowSerializationSchema(JsonCodec(_checked(self._type_info)))


def _checked(type_info: TypeInformation | None) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        msg = f"The type of the rows should be set, by Types.ROW_NAMED; it is {type_info}."
        raise TypeError(msg)
    return type_info


show("penstock.datastream.formats.json", JsonRowDeserializationSchema, JsonRowSerializationSchema)
