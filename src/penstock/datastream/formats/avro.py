"""Avro messages and files (``pyflink.datastream.formats.avro``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._formats.avro import AvroBulkWriters, AvroFormat, AvroInputFormat
from penstock.common._codecs.avro_rows import AvroRowDeserializationSchema, AvroRowSerializationSchema
from penstock.common._codecs.avro_schema import AvroSchema, GenericRecordAvroTypeInfo

__all__ = [
    "AvroBulkWriters",
    "AvroFormat",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]

explain(__name__)
