"""The PostgreSQL sources and sinks; their client library is psycopg 3."""

from __future__ import annotations

from penstock.errors import MissingExtraError

try:
    import psycopg as _psycopg
except ImportError as _error:
    raise MissingExtraError("PostgreSQL", "postgres", str(_error)) from _error

del _psycopg
