"""CSV files as source and as sink (``pyflink.datastream.formats.csv``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._formats.csv.reader import CsvReaderFormat
from penstock._formats.csv.schema import CsvSchema, CsvSchemaBuilder
from penstock._formats.csv.writer import CsvBulkWriters, CsvEncoder

__all__ = ["CsvBulkWriters", "CsvEncoder", "CsvReaderFormat", "CsvSchema", "CsvSchemaBuilder"]

explain(__name__)
