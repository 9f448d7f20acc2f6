"""What the builders of all sources and sinks for PostgreSQL have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from penstock._connectors.postgres.client import Address
from penstock.common.arguments import instance, texts
from penstock.common.time import Duration
from penstock.errors import ConfigurationError


class PostgresBuilder:
    """The part of a builder that says where the database is.

    Keep a password out of the program: set the environment variable ``PGPASSWORD``, or use a password file, where the
    driver and the tasks run.
    """

    def __init__(self) -> None:
        self._address = Address()
        self._has_url = False
        self._named: dict[str, str] = {}
        self._text_columns: tuple[str, ...] = ()

    def set_url(self, url: str) -> Self:
        """Set the database.

        Args:
            url: ``postgresql://user@host:5432/name?sslmode=require``, or libpq's ``host=… dbname=…``.

        Raises:
            ConfigurationError: It is not the URL of a PostgreSQL database.
        """
        self._address = replace(Address.parse(url), patience_ms=self._address.patience_ms)
        self._has_url = True
        return self

    def set_username(self, username: str) -> Self:
        """Set the user, in place of that of the URL."""
        self._named["user"] = username
        return self

    def set_password(self, password: str) -> Self:
        """Set the password. It travels with the job to its tasks, and is in no text, plan or checkpoint."""
        self._named["password"] = password
        return self

    def set_connect_timeout(self, timeout: Duration) -> Self:
        """Set how long a connection is tried again while the server does not answer; 30 seconds by default.

        Raises:
            TypeError: It is no Duration.
        """
        checked = instance("timeout", timeout, Duration, "Duration.of_seconds(30) is one")
        self._address = replace(self._address, patience_ms=checked.to_millis())
        return self

    def set_text_columns(self, *columns: str) -> Self:
        """Set the columns whose values are texts, as the server writes and reads them, whatever their types are.

        That is for types and values without a counterpart in Python, such as ``money``, composite types, intervals of
        months, and infinite times.

        Raises:
            TypeError: One is no text.
        """
        self._text_columns = texts("columns", columns)
        return self

    def _built_address(self) -> Address:
        if not self._has_url:
            self._needed("", "set_url")
        return self._address.having(self._named)

    def _needed(self, value: str, setter: str) -> str:
        if not value:
            raise ConfigurationError(f"{type(self).__name__}.{setter}", "", "it must be called before build()")
        return value


class RangesBuilder(PostgresBuilder):
    """The part of a builder that says how a table is cut into ranges.

    Args:
        split_rows: The number of rows in a range, unless the program says another.
    """

    def __init__(self, split_rows: int) -> None:
        super().__init__()
        self._split_size = split_rows

    def set_split_size(self, rows: int) -> Self:
        """Set the number of rows in a range.

        By default it is 50,000 for a table that is only read, and 8,192 for one whose changes follow.

        Raises:
            ConfigurationError: It is less than 1.
        """
        self._split_size = at_least_one(f"{type(self).__name__}.set_split_size", rows)
        return self


def at_least_one(setter: str, value: int) -> int:
    """Return a number.

    Raises:
        ConfigurationError: It is less than 1.
    """
    if value < 1:
        raise ConfigurationError(setter, str(value), "it must be at least 1")
    return value
