"""Parquet files as source and as sink (``pyflink.datastream.formats.parquet``)."""

from __future__ import annotations

from penstock._formats.avro import AvroParquetReaders, AvroParquetWriters
from penstock._formats.parquet import (
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
    ParquetFormat,
)

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
    "ParquetFormat",
]
