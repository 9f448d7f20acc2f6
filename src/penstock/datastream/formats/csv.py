"""CSV files as source and as sink (``pyflink.datastream.formats.csv``)."""

from __future__ import annotations

from penstock.datastream.formats._csv.reader import CsvReaderFormat
from penstock.datastream.formats._csv.schema import CsvSchema, CsvSchemaBuilder
from penstock.datastream.formats._csv.writer import CsvBulkWriters, CsvEncoder

__all__ = ["CsvBulkWriters", "CsvEncoder", "CsvReaderFormat", "CsvSchema", "CsvSchemaBuilder"]

# Pickles and messages name the public module, so that the private ones may move.
for _name in __all__:
    globals()[_name].__module__ = __name__
