"""Formats: they convert bytes of files to records, and records to bytes."""
