from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any

import pytest

from penstock.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    RowDataBulkWriterFactory,
    RowFieldExtractorSchema,
    SimpleStringSchema,
)
from penstock.common.serializer import TypeSerializer, VoidNamespaceSerializer
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row


def _encoded(encoder: Encoder, *values: Any) -> bytes:
    stream = BytesIO()
    for value in values:
        encoder.encode(value, stream)
    return stream.getvalue()


def test_strings_go_through_their_charset() -> None:
    schema = SimpleStringSchema("ISO-8859-1")
    assert schema.serialize("ü") == b"\xfc"
    assert schema.deserialize(b"\xfc") == "ü"
    assert schema.get_produced_type() == Types.STRING()


@pytest.mark.parametrize("value", [None, 5, b"bytes"])
def test_what_is_no_text_is_refused_with_what_it_is(value: Any) -> None:
    with pytest.raises(TypeError, match=r"writes texts, not (None|5|b'bytes'); make a text of it"):
        SimpleStringSchema().serialize(value)


def test_bytes_that_are_no_text_do_not_fail_the_job() -> None:
    assert SimpleStringSchema().deserialize(b"a\xff") == "a\ufffd"


@pytest.mark.parametrize("make", [SimpleStringSchema, Encoder.simple_string_encoder])
def test_an_unknown_charset_is_refused_at_once(make: Any) -> None:
    with pytest.raises(LookupError, match="UTF-99"):
        make("UTF-99")


def test_byte_schema_hands_bytes_through() -> None:
    schema = ByteArraySchema()
    assert schema.deserialize(schema.serialize(b"\x00")) == b"\x00"
    assert schema.get_produced_type() == Types.PRIMITIVE_ARRAY(Types.BYTE())


def test_a_users_schema_reads_until_the_end_by_default() -> None:
    class Numbers(DeserializationSchema):
        def deserialize(self, message: bytes) -> int:
            return int(message)

    assert Numbers().deserialize(b"7") == 7
    assert not Numbers().is_end_of_stream(7)
    assert Numbers().get_produced_type() == Types.PICKLED_BYTE_ARRAY()


class Upper(SimpleStringSchema):
    def deserialize(self, message: bytes) -> str:
        return super().deserialize(message).upper()


def test_a_schema_that_overrides_one_method_reads_and_writes_blocks_by_it() -> None:
    assert SimpleStringSchema().deserialize_all([b"a", b"\xff"]) == ["a", "\ufffd"]
    assert Upper().deserialize_all([b"a"]) == ["A"]
    assert Upper().serialize_all(["a"]) == [b"a"]
    assert ByteArraySchema().deserialize_all([b"a"]) == ByteArraySchema().serialize_all([b"a"]) == [b"a"]


def test_a_row_field_is_taken_as_bytes() -> None:
    schema = RowFieldExtractorSchema(1)
    assert schema.serialize(Row("a", b"key")) == b"key"
    assert schema.serialize(Row("a", None)) == schema.serialize(None) == b""
    with pytest.raises(TypeError, match="Field 1 must hold bytes, not 'text'"):
        schema.serialize(Row("a", "text"))
    with pytest.raises(ValueError, match="-1"):
        RowFieldExtractorSchema(-1)


def test_the_string_encoder_writes_one_line_per_record() -> None:
    assert _encoded(Encoder.simple_string_encoder(), "a", (1, "ü"), None) == "a\n(1, 'ü')\nNone\n".encode()


@pytest.mark.parametrize(
    ("type_info", "value", "line"),
    [
        (None, True, b"True\n"),
        (Types.BOOLEAN(), True, b"true\n"),
        (Types.ROW([Types.INT(), Types.STRING()]), Row(1, None), b"+I[1,None]\n"),
        (Types.TUPLE([Types.INT(), Types.STRING()]), (1, "a"), b"(1,a)\n"),
    ],
)
def test_on_a_typed_stream_the_string_encoder_writes_what_print_prints(
    type_info: TypeInformation | None, value: Any, line: bytes
) -> None:
    assert _encoded(Encoder.simple_string_encoder().for_type(type_info), value) == line


def test_the_string_encoder_keeps_its_charset_for_a_type_and_through_pickling() -> None:
    encoder = Encoder.simple_string_encoder("ISO-8859-1").for_type(Types.STRING())
    assert _encoded(pickle.loads(pickle.dumps(encoder)), "ü") == b"\xfc\n"


def test_a_bulk_writer_factory_of_rows_knows_their_type() -> None:
    class Factory(RowDataBulkWriterFactory):
        def create(self, stream: Any) -> Any:
            return stream

    assert Factory(Types.ROW([Types.INT()])).get_row_type() == Types.ROW([Types.INT()])


def test_serializers_are_equal_by_class_and_attributes() -> None:
    class Sized(TypeSerializer[bytes]):
        def __init__(self, size: int) -> None:
            self.size = size

        def serialize(self, element: bytes, stream: BytesIO) -> None: ...

        def deserialize(self, stream: BytesIO) -> bytes:
            return stream.read(self.size)

    assert Sized(1) == Sized(1)
    assert Sized(1) != Sized(2)
    assert VoidNamespaceSerializer() == VoidNamespaceSerializer()
    assert len({VoidNamespaceSerializer(), VoidNamespaceSerializer()}) == 1
    assert repr(VoidNamespaceSerializer()) == "VoidNamespaceSerializer()"
