"""JSON and Avro: rows as messages, lines of files, and files."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from tests.values.paths.columnar_files import Written, there_and_back
from tests.values.table import NotAskedError, Path, each, read_back
from tests.values.values import FIELD, Value

from penstock._formats.parts import FilePart
from penstock.common import Types
from penstock.common.typeinfo import ListTypeInfo, MapTypeInfo, ObjectArrayTypeInfo, RowTypeInfo
from penstock.datastream.formats.avro import (
    AvroBulkWriters,
    AvroFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
)
from penstock.datastream.formats.json import (
    JsonLinesFormat,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.serialization import DeserializationSchema, SerializationSchema
    from penstock.common.typeinfo import TypeInformation

    Run = Callable[[list[dict[str, Any]]], list[Any]]


def messages(write: SerializationSchema, read: DeserializationSchema) -> Run:
    def run(records: list[dict[str, Any]]) -> list[Any]:
        written = write.serialize_all(records)
        return read_back(lambda: read.deserialize_all(written))

    return run


def declared_row(value: Value) -> RowTypeInfo:
    if value.row_type is None:
        raise NotAskedError
    return value.row_type


def _json_writer(row_type: RowTypeInfo) -> JsonRowSerializationSchema:
    return JsonRowSerializationSchema.builder().with_type_info(row_type).build()


def _json_rows(value: Value) -> Run:
    row_type = declared_row(value)
    return messages(_json_writer(row_type), JsonRowDeserializationSchema.builder().type_info(row_type).build())


def _lines(write: SerializationSchema, lines: JsonLinesFormat) -> Run:
    def run(records: list[dict[str, Any]]) -> list[Any]:
        file: Any = Written(b"".join(b"%b\n" % message for message in write.serialize_all(records)))
        part = FilePart(0, file.size, file.size)
        return read_back(lambda: [record for block, _ in lines.read(file, part) for record in block])

    return run


def _json_lines(value: Value) -> Run:
    row_type = declared_row(value)
    return _lines(_json_writer(row_type), JsonLinesFormat(type_info=row_type))


def _json_untyped(value: Value) -> Run:
    del value
    return _lines(_json_writer(Types.ROW_NAMED([FIELD], [Types.PICKLED_BYTE_ARRAY()])), JsonLinesFormat())


_AVRO: dict[TypeInformation, Any] = {
    **dict.fromkeys((Types.BYTE(), Types.SHORT(), Types.INT()), "int"),
    Types.LONG(): "long",
    Types.FLOAT(): "float",
    Types.DOUBLE(): "double",
    Types.BOOLEAN(): "boolean",
    Types.STRING(): "string",
    Types.PRIMITIVE_ARRAY(Types.BYTE()): "bytes",
    Types.SQL_DATE(): {"type": "int", "logicalType": "date"},
    Types.SQL_TIME(): {"type": "long", "logicalType": "time-micros"},
    Types.SQL_TIMESTAMP(): {"type": "long", "logicalType": "timestamp-micros"},
    Types.BIG_DEC(): {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 30},
}


def _avro_of(type_info: TypeInformation, names: Any) -> Any:
    """Return what Flink's converter of types makes of one: all but the parts of primitive arrays may be null."""
    if isinstance(type_info, RowTypeInfo):
        fields = zip(type_info.get_field_names(), type_info.get_field_types(), strict=True)
        parts = [{"name": name, "type": _avro_of(one, names)} for name, one in fields]
        return ["null", {"type": "record", "name": f"R{next(names)}", "fields": parts}]
    if isinstance(type_info, (ListTypeInfo, ObjectArrayTypeInfo)):
        return ["null", {"type": "array", "items": _avro_of(type_info.elem_type, names)}]
    if isinstance(type_info, MapTypeInfo) and type_info.key_type == Types.STRING():
        return ["null", {"type": "map", "values": _avro_of(type_info.value_type, names)}]
    if type_info not in _AVRO:
        raise NotAskedError
    return ["null", _AVRO[type_info]]


def _schema(value: Value) -> AvroSchema:
    if "avro" in value.columns:
        kind = value.columns["avro"]
    elif value.declared is None:
        raise NotAskedError
    else:
        kind = _avro_of(value.declared, count())
    return AvroSchema({"type": "record", "name": "Whole", "fields": [{"name": FIELD, "type": kind}]})


def _avro_rows(value: Value) -> Run:
    text = str(_schema(value))
    write = AvroRowSerializationSchema(avro_schema_string=text)
    return messages(write, AvroRowDeserializationSchema(avro_schema_string=text))


def _avro(value: Value) -> Run:
    schema = _schema(value)
    return there_and_back(AvroBulkWriters.for_generic_record(schema), AvroFormat(schema))


PATHS = (
    Path("JSON rows", "Messages by JsonRowSerializationSchema and JsonRowDeserializationSchema.", each(_json_rows)),
    Path(
        "JSON lines", "The same messages as lines of files, read by JsonLinesFormat with the type.", each(_json_lines)
    ),
    Path("JSON, untyped", "Lines of values without a type, read by JsonLinesFormat as dicts.", each(_json_untyped)),
    Path("Avro rows", "Messages by AvroRowSerializationSchema and AvroRowDeserializationSchema.", each(_avro_rows)),
    Path("Avro", "Container files by AvroBulkWriters and AvroFormat.", each(_avro)),
)
