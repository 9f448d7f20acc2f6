"""CSV files as source and as sink (``pyflink.datastream.formats.csv``)."""

from __future__ import annotations

from penstock._formats.csv.reader import CsvReaderFormat
from penstock._formats.csv.schema import CsvSchema, CsvSchemaBuilder
from penstock._formats.csv.writer import CsvBulkWriters, CsvEncoder
from penstock.common._codecs.csv_rows import CsvRowDeserializationSchema, CsvRowSerializationSchema

__all__ = [
    "CsvBulkWriters",
    "CsvEncoder",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
