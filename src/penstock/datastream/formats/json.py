"""Rows as JSON messages, and files with a JSON value in each line (``pyflink.datastream.formats.json``)."""

from __future__ import annotations

from penstock._formats.json_lines import BadLine, JsonLinesEncoder, JsonLinesFormat
from penstock.common._codecs.json_rows import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = [
    "BadLine",
    "JsonLinesEncoder",
    "JsonLinesFormat",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]
