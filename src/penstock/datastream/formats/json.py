"""Rows as JSON messages (``pyflink.datastream.formats.json``)."""

from __future__ import annotations

from penstock.common._row_formats.json_rows import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]
