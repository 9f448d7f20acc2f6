"""Paths as Flink's clients write and read them."""

from __future__ import annotations

from pathlib import PurePath

from penstock.common.paths import file_url


def as_uri(path: str) -> str:
    """Return a path as Flink would: a local one with `file:` before it.

    Example:
        >>> as_uri("/data/savepoints/savepoint-1"), as_uri("s3://bucket/savepoint-1")
        ('file:/data/savepoints/savepoint-1', 's3://bucket/savepoint-1')
    """
    return file_url(path) if PurePath(path).is_absolute() else path
