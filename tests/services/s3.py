"""A real S3 server on this machine: Versity's gateway, which keeps objects as files, built once.

Go gets its sources from the module proxy. ``make tools`` builds it, so that no test has to.
"""

from __future__ import annotations

import http.client
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import obstore
from obstore.store import S3Store
from tests.services.cache import kept, run
from tests.services.golang import go_for
from tests.services.process import ServerProcess, free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODULE: Final = "github.com/versity/versitygw/cmd/versitygw"
_VERSION: Final = "v1.8.0"


def binary() -> Path:
    """Return the program, which is built now if need be: two minutes of two processors."""
    return kept(f"versitygw-{_VERSION}", _build) / "versitygw"


def _build(directory: Path) -> None:
    sys.stdout.write("Building the S3 server for the tests of checkpoints in S3: some minutes, this once.\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="penstock-go-") as place:
        go = go_for("The tests of checkpoints in S3", Path(place))
        command = (go, "install", "-trimpath", "-ldflags=-s -w", f"{_MODULE}@{_VERSION}")
        run("Building the S3 server", *command, variables={"GOBIN": str(directory)})


class S3Server:
    """One server on a free port, with a directory of its own that goes with it; it keeps both over a restart.

    Args:
        address: Where it listens.
        around: The command around its own, such as one that enters a namespace.
    """

    access_key, secret_key, region = "penstock", "penstock-secret", "us-east-1"

    def __init__(self, address: str = "127.0.0.1", around: Sequence[str] = ()) -> None:
        self._program = binary()
        self._address, self._around = address, around
        self._place = Path(tempfile.mkdtemp(prefix="penstock-s3-"))
        self._data, self._metadata = self._place / "data", self._place / "metadata"
        self._data.mkdir()
        self._metadata.mkdir()
        self.port = free_port()
        self._process = ServerProcess("The S3 server", self._place)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._place, ignore_errors=True)

    @property
    def endpoint(self) -> str:
        return f"http://{self._address}:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """What a configuration says to reach it."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.region": self.region,
            "s3.access-key": self.access_key,
            "s3.secret-key": self.secret_key,
            "s3.path.style.access": "true",
        }

    @property
    def variables(self) -> dict[str, str]:
        """The same as the AWS tools have it in the environment."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }

    def start(self) -> None:
        """Start it, and wait until it answers."""
        keys = ("--access", self.access_key, "--secret", self.secret_key, "--region", self.region)
        files = ("posix", "--sidecar", self._metadata, self._data)  # metadata as files, too: any file system will do
        self._process.start(
            [*self._around, self._program, "--port", f"{self._address}:{self.port}", *keys, "--quiet", *files],
            self._answers,
        )

    def kill(self) -> None:
        """Kill it with SIGKILL, as a crash would; what it has acknowledged stays."""
        self._process.end()

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(self._address, self.port, timeout=2)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status in {200, 403}  # it wants a signature
        except OSError:
            return False
        finally:
            connection.close()

    # ------------------------------------------------------------------------------------------------ what is in there

    @property
    def penstock_variables(self) -> dict[str, str]:
        """What the environment says to Penstock alone, key by key."""
        return {
            f"PENSTOCK_{key.upper().replace('.', '__').replace('-', '_')}": self.settings[key] for key in self.settings
        }

    def make_bucket(self, name: str) -> str:
        """Make a bucket and return its URL; each directory is one."""
        (self._data / name).mkdir()
        return f"s3://{name}"

    def bucket(self, name: str) -> S3Store:
        """Return a client for a bucket, to look and to meddle."""
        return S3Store(
            name,
            endpoint=self.endpoint,
            region=self.region,
            access_key_id=self.access_key,
            secret_access_key=self.secret_key,
            client_options={"allow_http": True},
        )

    def keys(self, name: str) -> list[str]:
        """Return the keys of all objects in a bucket."""
        return sorted(meta["path"] for chunk in obstore.list(self.bucket(name)) for meta in chunk)

    def objects(self, name: str) -> dict[str, bytes]:
        """Return all objects of a bucket."""
        return {key: bytes(obstore.get(self.bucket(name), key).bytes()) for key in self.keys(name)}

    def move(self, source: str, target: str, prefix: str = "") -> None:
        """Copy all objects of one bucket below a prefix of another one, object by object, and empty the first."""
        there, here = self.bucket(source), self.bucket(target)
        for key in self.keys(source):
            obstore.put(here, f"{prefix}/{key}" if prefix else key, bytes(obstore.get(there, key).bytes()))
            obstore.delete(there, key)
