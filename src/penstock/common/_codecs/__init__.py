"""Rows as messages: JSON, CSV and Avro."""
