"""The PostgreSQL sources and sinks; their client library is psycopg 3."""

from __future__ import annotations

from penstock.common.libraries import library_of

library_of("postgres")
