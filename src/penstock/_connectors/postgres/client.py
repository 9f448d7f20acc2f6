"""Connections to a server: where it is, how a session is set up, and how its errors become ours.

A password is held here alone. No text of this module has it, and the process learns it as a secret, so that it is
hidden in texts of others as well.
"""

from __future__ import annotations

import contextlib
import difflib
import re
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg import conninfo, pq

from penstock.common.redaction import learn_secrets
from penstock.errors import ConfigurationError, DatabaseConnectionError, DatabaseError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

T = TypeVar("T")

#: The session's settings: values come as text whose form depends on them.
_SETTINGS: Final = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}
_SET: Final = (
    "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS settings(name, value) "
    "WHERE current_setting(name, true) IS NOT NULL "  # older servers lack some
    "UNION ALL SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'"
)
#: What makes a dead connection known in minutes, where the program does not say otherwise.
_DEFAULTS: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "fallback_application_name": "penstock",
}
_PATIENCE_MS: Final = 30_000
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
#: Parts of libpq's messages that another try does not change.
_NON_RETRYABLE: Final = ("authentication failed", "no pg_hba.conf entry", "does not exist", "no password supplied")
#: A deadlock, and transactions that the server cannot serialize.
_SERIALIZATION_FAILURES: Final = {"40P01", "40001"}
_INTERRUPTS_S: Final = 0.2
#: How libpq names an option that it does not know.
_UNKNOWN_OPTION: Final = re.compile(r'invalid (?:URI query parameter:|connection option) "(.*)"')


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """Where a database is, and as whom it is used.

    Attributes:
        parameters: Parameters of libpq, without the password.
        password: The password; None without one, or where libpq finds it (``PGPASSWORD``, ``~/.pgpass``).
        patience_ms: How long connecting is tried again.
    """

    parameters: tuple[tuple[str, str], ...] = ()
    password: str | None = None
    patience_ms: int = _PATIENCE_MS

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a URL such as ``postgresql://user@host:5432/name``, or libpq's ``host=… dbname=…``.

        Raises:
            ConfigurationError: It is neither; the message does not cite it, because it may have a password.
        """
        try:
            found = conninfo.conninfo_to_dict(url)
        except psycopg.Error as error:
            raise ConfigurationError("The URL of a PostgreSQL database", "******", _why_not(url, str(error))) from None
        return cls().having({name: str(value) for name, value in found.items() if value is not None})

    def having(self, parameters: Mapping[str, str]) -> Address:
        """Return the address with some parameters replaced."""
        password = parameters.get("password", self.password)
        own = {**dict(self.parameters), **parameters}
        own.pop("password", None)
        return replace(self, parameters=tuple(sorted(own.items())), password=password)

    def __repr__(self) -> str:
        named = dict(self.parameters)
        host, name = named.get("host", ""), named.get("dbname", "")
        port = f":{named['port']}" if "port" in named else ""
        return f"postgresql://{host}{port}/{name}"

    def connect(self, what: str) -> psycopg.Connection[tuple[Any, ...]]:
        """Open a connection in which each statement is a transaction, and try again for a while where that may help.

        Args:
            what: What it is for, for the error.

        Raises:
            DatabaseConnectionError: The server is not to be reached, or refuses it.
        """
        parameters = {**_DEFAULTS, **dict(self.parameters), "client_encoding": "UTF8"}
        if self.password is not None:
            learn_secrets({"password": self.password})
            parameters["password"] = self.password
        deadline, pause = time.monotonic() + self.patience_ms / 1000, _FIRST_PAUSE_S
        while True:
            try:
                return _set_up(psycopg.connect(conninfo.make_conninfo("", **parameters), autocommit=True))
            except psycopg.OperationalError as error:
                if time.monotonic() + pause > deadline or any(text in str(error) for text in _NON_RETRYABLE):
                    raise self.error(what, error) from None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def error(self, what: str, error: psycopg.Error) -> DatabaseError:
        """Return our error for one of psycopg's."""
        text = " ".join(str(error).split()).removesuffix(".")
        if self.password:
            text = text.replace(self.password, "******")
        kind = DatabaseConnectionError if is_lost(error) else DatabaseError
        return kind(str(self), what, text or type(error).__name__)

    @contextlib.contextmanager
    def naming(self, what: str) -> Generator[None]:
        """Turn psycopg's errors into ours.

        Raises:
            DatabaseError: The body raised one of psycopg's errors.
        """
        try:
            yield
        except psycopg.Error as error:
            raise self.error(what, error) from error


def _why_not(url: str, said: str) -> str:
    """Return what is wrong with a URL, without any text of it: a password may stand at any place of a wrong one."""
    unknown = _UNKNOWN_OPTION.match(said)
    if unknown is not None:
        known = [option.keyword.decode() for option in pq.Conninfo.get_defaults()]
        near = difflib.get_close_matches(unknown[1], known, 1)
        return f"it has an option that libpq does not know{f', which reads like {near[0]}' if near else ''}"
    reason = "it is neither a URL (postgresql://user@host:5432/name) nor a list such as host=… dbname=…"
    return f"{reason}; leave out jdbc: before it" if url.startswith("jdbc:postgresql:") else reason


def _set_up(connection: psycopg.Connection[tuple[Any, ...]]) -> psycopg.Connection[tuple[Any, ...]]:
    try:
        run(connection, _SET, (list(_SETTINGS), list(_SETTINGS.values())))
    except BaseException:
        connection.close()
        raise
    return connection


def is_lost(error: BaseException) -> bool:
    """Tell whether an error is one of the connection or of a server that ends or starts, so that another may do."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return error.sqlstate is None or error.sqlstate[:2] in {"08", "57"}


def may_be_repeated(error: psycopg.Error) -> bool:
    """Tell whether a transaction may succeed when it is repeated: it met a conflict, or its connection was lost."""
    return is_lost(error) or error.sqlstate in _SERIALIZATION_FAILURES


def run(
    connection: psycopg.Connection[tuple[Any, ...]], statement: str, parameters: Sequence[Any] = ()
) -> psycopg.Cursor[tuple[Any, ...]]:
    """Run a statement, in which each sign ``%`` of a name is doubled."""
    return connection.execute(statement.encode(), parameters)


def one(connection: psycopg.Connection[tuple[Any, ...]], query: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return the only row of a query."""
    row = run(connection, query, parameters).fetchone()
    assert row is not None
    return row


def quoted(*names: str) -> str:
    """Return a name in SQL, with ``%`` doubled for ``run``.

    Example:
        >>> quoted("my schema", 'a"b')
        '"my schema"."a""b"'
    """
    return ".".join('"' + name.replace('"', '""').replace("%", "%%") + '"' for name in names)


def listed(names: Sequence[str]) -> str:
    """Return names of columns as a list in SQL."""
    return ", ".join(quoted(name) for name in names)


class Session:
    """A connection that is made when it is needed, and again after it was lost.

    Args:
        address: Where the database is.
        what: What it is for, for errors.
    """

    def __init__(self, address: Address, what: str) -> None:
        self.address = address
        self.what = what
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    @property
    def connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        """The connection.

        Raises:
            DatabaseConnectionError: There is none to be had.
        """
        if self._connection is None or self._connection.closed:
            self._connection = self.address.connect(self.what)
        return self._connection

    def repeat(self, work: Callable[[psycopg.Connection[tuple[Any, ...]]], T]) -> T:
        """Do what may be done twice; after a lost connection or a deadlock it is done again, for a while.

        Raises:
            DatabaseError: It failed.
        """
        deadline = time.monotonic() + self.address.patience_ms / 1000
        while True:
            try:
                return work(self.connection)
            except psycopg.Error as error:
                self.close()
                if not may_be_repeated(error) or time.monotonic() > deadline:
                    raise self.address.error(self.what, error) from error
                time.sleep(_FIRST_PAUSE_S)

    def naming(self) -> contextlib.AbstractContextManager[None]:
        """Turn psycopg's errors into ours."""
        return self.address.naming(self.what)

    def close(self) -> None:
        """Close the connection; what it has not committed is undone."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __del__(self) -> None:
        """Close the connection of a session that was dropped."""
        self.close()


class SharedSession(Session):
    """A session of several threads: one uses it at a time, and another one may end it.

    Args:
        address: Where the database is.
        what: What it is for, for errors.
    """

    def __init__(self, address: Address, what: str) -> None:
        super().__init__(address, what)
        self._lock = threading.Lock()
        self.ended = False

    @contextlib.contextmanager
    def alone(self) -> Generator[None]:
        """Let one thread use the session, and turn psycopg's errors into ours."""
        with self._lock, self.naming():
            yield

    def end(self) -> None:
        """Close the connection for good; a statement that another thread waits for is broken off."""
        self.ended = True
        while not self._lock.acquire(timeout=_INTERRUPTS_S):
            connection = self._connection
            if connection is not None and not connection.closed:
                with contextlib.suppress(psycopg.Error):
                    connection.cancel_safe(timeout=_INTERRUPTS_S)
        try:
            self.close()
        finally:
            self._lock.release()
