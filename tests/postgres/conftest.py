"""A PostgreSQL server for the whole run, and a schema for each test."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.services.cache import ServiceError
from tests.services.postgres import PostgresServer

from penstock.testing import source_contract

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = itertools.count(1)


def new_server() -> PostgresServer:
    """Return a server; without one tests are skipped, but not in CI."""
    try:
        return PostgresServer()
    except ServiceError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no PostgreSQL: {error}")


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with new_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)


@pytest.fixture
def schema(server: PostgresServer) -> Iterator[str]:
    """The name of a new schema; its slots go with it."""
    name = f"s{next(_numbers)}"
    server.run(f"CREATE SCHEMA {name}")
    yield name
    server.drop(name)


@pytest.fixture
def held(server: PostgresServer, schema: str) -> Iterator[Any]:
    """A connection that keeps a transaction open, and is closed before the schema is dropped."""
    del schema
    with server.connect() as connection:
        yield connection


@pytest.fixture(autouse=True)
def _epochs_without_changes_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_contract, "_WAIT_MS", 150)
