"""Formats: how the bytes of files become records, and records bytes."""
