"""Parquet files as source and as sink (``pyflink.datastream.formats.parquet``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._formats.parquet import (
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
    ParquetFormat,
)

__all__ = [
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
    "ParquetFormat",
]

explain(__name__)
