"""The libraries of connectors, which come with extras of Penstock."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Final

from penstock.errors import MissingExtraError

#: By extra: its connector, its library, and the first version that has all that the connector needs.
LIBRARIES: Final = {
    "delta": ("Delta Lake", "deltalake", "1.6"),  # earlier ones do not record which checkpoint a version is of
    "elasticsearch": ("Elasticsearch", "httpx", "0.28"),
    "iceberg": ("Iceberg", "pyiceberg", "0.11"),
    "kafka": ("Kafka", "confluent_kafka", "2.13"),  # earlier producers cannot be closed
    "postgres": ("PostgreSQL", "psycopg", "3.2"),
}


def library_of(extra: str) -> Any:
    """Import the library of a connector.

    Args:
        extra: The extra that brings it.

    Raises:
        MissingExtraError: It is not installed, or too old.
    """
    connector, module, since = LIBRARIES[extra]
    try:
        library = import_module(module)
    except ImportError as error:
        raise MissingExtraError(connector, extra, str(error)) from error
    found = str(library.__version__)
    if major_and_minor(found) < major_and_minor(since):
        raise MissingExtraError(connector, extra, f"{module} {found} is installed, and {since} or later is needed")
    return library


def major_and_minor(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, by which versions are compared.

    Example:
        >>> major_and_minor("2.13.0rc1") < major_and_minor("2.14")
        True
    """
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
