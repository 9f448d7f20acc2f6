"""PyFlink's JdbcSink, for PostgreSQL: the JDBC URL is translated, and the program's statement runs as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from penstock._api.connectors.sink import Sink
from penstock._connectors.postgres.client import Address
from penstock._connectors.postgres.writer import BufferedWriter
from penstock._shelf import show
from penstock.common.types import Row
from penstock.errors import ConfigurationError, UnsupportedOperationError

if TYPE_CHECKING:
    import psycopg

    from penstock._api.connectors.sink import WriterInitContext
    from penstock.common.typeinfo import TypeInformation

_PREFIX: Final = "jdbc:postgresql:"
#: Parameters of pgjdbc that libpq has under another name.
_PARAMETERS: Final = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "options": "options",
    "targetServerType": "target_session_attrs",
}
#: What stands for a value: a question mark outside of quotes and comments; two of them are a question mark of an
#: operator.
_TOKENS: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\?\?|\?|%", re.DOTALL)
_PAUSE_MS: Final = 1_000


@dataclass(frozen=True, slots=True, repr=False)
class JdbcConnectionOptions:
    """Where a database is; make it with its builder.

    Source: ``pyflink.datastream.connectors.jdbc.JdbcConnectionOptions``.

    Example:
        >>> options = (
        ...     JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        ...     .with_url("jdbc:postgresql://db.example:5432/shop")
        ...     .with_user_name("writer")
        ...     .build()
        ... )
        >>> options.get_db_url(), options.get_user_name()
        ('jdbc:postgresql://db.example:5432/shop', 'writer')
    """

    _url: str
    _driver_name: str | None = None
    _user_name: str | None = None
    _password: str | None = None

    def get_db_url(self) -> str:
        """Return the URL."""
        return self._url

    def get_driver_name(self) -> str | None:
        """Return the name of the Java class, which has no effect."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """Return the user."""
        return self._user_name

    def get_password(self) -> str | None:
        """Return the password."""
        return self._password

    def __repr__(self) -> str:
        return f"JdbcConnectionOptions({address_of(self)})"

    class JdbcConnectionOptionsBuilder:
        """Builds options; a URL is needed."""

        def __init__(self) -> None:
            self._options = JdbcConnectionOptions("")

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the URL, ``jdbc:postgresql://host:port/database``."""
            self._options = replace(self._options, _url=url)
            return self

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the name of the Java class, which has no effect."""
            self._options = replace(self._options, _driver_name=driver_name)
            return self

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the user."""
            self._options = replace(self._options, _user_name=user_name)
            return self

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the password."""
            self._options = replace(self._options, _password=password)
            return self

        def build(self) -> JdbcConnectionOptions:
            """Make the options.

            Raises:
                ConfigurationError: The URL is none of a PostgreSQL database.
                UnsupportedOperationError: It is one of another database.
            """
            address_of(self._options)
            return self._options


@dataclass(frozen=True, slots=True)
class JdbcExecutionOptions:
    """How records are gathered into blocks; make it with ``builder()``.

    Source: ``pyflink.datastream.connectors.jdbc.JdbcExecutionOptions``.

    Example:
        >>> JdbcExecutionOptions.builder().with_batch_size(100).build()
        JdbcExecutionOptions(batch_interval_ms=0, batch_size=100, max_retries=3)
    """

    batch_interval_ms: int = 0
    batch_size: int = 5_000
    max_retries: int = 3

    def get_batch_interval_ms(self) -> int:
        """Return the age of the oldest record that ends a block, in milliseconds; 0 for none."""
        return self.batch_interval_ms

    def get_batch_size(self) -> int:
        """Return the number of records in a block."""
        return self.batch_size

    def get_max_retries(self) -> int:
        """Return how often a block is tried again, a second apart."""
        return self.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return the options that hold without any."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Begin options."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Builds options."""

        def __init__(self) -> None:
            self._options = JdbcExecutionOptions()

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Set the age of the oldest record that ends a block, in milliseconds; 0, the default, for none."""
            self._options = replace(self._options, batch_interval_ms=interval_ms)
            return self

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Set the number of records in a block; 5,000 by default."""
            self._options = replace(self._options, batch_size=size)
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Set how often a block is tried again after a lost connection, a second apart; 3 by default."""
            self._options = replace(self._options, max_retries=max_retries)
            return self

        def build(self) -> JdbcExecutionOptions:
            """Make the options."""
            return self._options


class JdbcSink(Sink[Any]):
    """Runs a statement of SQL for each record, at least once, as in Flink; use :class:`PostgresSink` for exactly once.

    Source: ``pyflink.datastream.connectors.jdbc.JdbcSink``, which is given to ``add_sink``; here it goes to
    ``sink_to``.
    """

    def __init__(self, sql: str, width: int | None, address: Address, options: JdbcExecutionOptions) -> None:
        self._sql, self._width, self._address, self._options = sql, width, address, options

    @staticmethod
    def sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Make a sink.

        Args:
            sql: The statement, with a ``?`` for each field of a record.
            type_info: The type of the records, a row or a tuple.
            jdbc_connection_options: The database.
            jdbc_execution_options: The size of blocks.

        Raises:
            ConfigurationError: The statement has not as many ``?`` as the type has fields.
            UnsupportedOperationError: The database is no PostgreSQL.

        Example:
            >>> from penstock.common import Types
            >>> options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://db/shop")
            >>> JdbcSink.sink("INSERT INTO t VALUES (?, ?)", Types.ROW([Types.INT(), Types.STRING()]), options.build())
            JdbcSink('INSERT INTO t VALUES (?, ?)' in postgresql://db/shop)
        """
        _, places = translated(sql)
        fields = getattr(type_info, "get_field_types", None)
        width = places if fields is None else len(fields())
        if places != width:
            raise ConfigurationError("JdbcSink.sink(sql)", sql, f"it has {places} signs ?, and a record {width} fields")
        execution = jdbc_execution_options or JdbcExecutionOptions.defaults()
        return JdbcSink(sql, width, address_of(jdbc_connection_options), execution)

    def create_writer(self, context: WriterInitContext) -> JdbcWriter:
        """Make a writer."""
        del context
        return JdbcWriter(self._sql, self._address, self._options)

    def __repr__(self) -> str:
        return f"JdbcSink({self._sql!r} in {self._address})"


class JdbcWriter(BufferedWriter):
    """Runs the statement for blocks of records, each in one transaction."""

    def __init__(self, sql: str, address: Address, options: JdbcExecutionOptions) -> None:
        address = replace(address, patience_ms=_PAUSE_MS * options.max_retries)
        super().__init__(address, f"Running {sql!r}", max(1, options.batch_size), options.batch_interval_ms / 1000)
        self._statement = translated(sql)[0].encode()

    def send(self, connection: psycopg.Connection[tuple[Any, ...]], records: list[Any]) -> None:
        """Run the statement for each record."""
        rows: list[tuple[Any, ...]] = [
            tuple(record) if isinstance(record, tuple | list | Row) else (record,)  # pyright: ignore[reportUnknownArgumentType]
            for record in records
        ]
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(self._statement, rows)


def translated(sql: str) -> tuple[str, int]:
    """Return a statement as psycopg has it, and the number of its values.

    Example:
        >>> translated("INSERT INTO t VALUES (?, '?', 5 % 2)")
        ("INSERT INTO t VALUES (%s, '?', 5 %% 2)", 1)
    """
    places = 0

    def token(match: re.Match[str]) -> str:
        nonlocal places
        if match[0] == "?":
            places += 1
            return "%s"
        return "?" if match[0] == "??" else match[0].replace("%", "%%")

    return _TOKENS.sub(token, sql), places


def address_of(options: JdbcConnectionOptions) -> Address:
    """Return the address of a URL of JDBC.

    Raises:
        ConfigurationError: It has parameters that libpq does not know.
        UnsupportedOperationError: It is one of another database.
    """
    url = options.get_db_url()
    if not url.startswith(_PREFIX):
        kind = ":".join(url.split(":")[:2]) if url.startswith("jdbc:") else "this"
        way_out = "write a Sink around that database's Python driver (docs/connectors.md), or use PostgreSQL"
        raise UnsupportedOperationError(f"JdbcSink for {kind!r} URLs", way_out)
    plain = url.removeprefix("jdbc:")
    parts = urlsplit(plain if plain.startswith("postgresql://") else plain.replace(":", "://localhost/", 1))
    address = Address.parse(parts._replace(query="").geturl())
    named: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name == "ssl":
            named.setdefault("sslmode", "verify-full" if value in {"", "true"} else "prefer")
        elif name == "currentSchema":
            named["options"] = f"-c search_path={value}"
        elif name in _PARAMETERS:
            named[_PARAMETERS[name]] = value
        else:
            known = ", ".join([*_PARAMETERS, "ssl", "currentSchema"])
            raise ConfigurationError("A parameter of the JDBC URL", name, f"libpq has none like it; known are {known}")
    given = {"user": options.get_user_name(), "password": options.get_password()}
    return address.having(named | {name: value for name, value in given.items() if value is not None})


show("penstock.datastream.connectors.jdbc", JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink)
