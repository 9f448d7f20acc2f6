"""A cluster on this machine whose hosts are like other machines: each has a disk of its own.

A host and all that it starts live in namespaces of their own (`unshare`), with a name and an address. An empty file
system lies there over the directory `Cluster.own`, so what one host writes below it no other host sees, the driver's
neither, and it goes with the host. All hosts see `Cluster.shared`. A host knows its own name; others use its address.

The first process of each namespace reads the pipe from here, so the cluster ends with the process that has made it,
however that ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyspark
from tests.cluster.network import Loopback
from tests.fault.processes import descendants
from tests.kit.exchange import VARIABLES
from tests.services.cache import ServiceError

from penstock._engine.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.network import Spot, Spots

#: Longest wait for a process of a cluster; a busy machine starts a JVM slowly.
_PATIENCE_S: Final = 180
#: Runs until the pipe ends. The namespace ends with it, as it is the first process there.
_HOST: Final = r"""
mount -t tmpfs -o mode=700 own "$1" && mkdir "$1/tmp" "$1/work" && cd "$1/work" || exit 1
echo "$2" >/proc/sys/kernel/hostname
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$2" >"$1/hosts" && mount --bind "$1/hosts" /etc/hosts || exit 1
shift 2
"$@" </dev/null &
exec cat >/dev/null
"""
_UNTIL_THE_PIPE_ENDS: Final = '"$@" </dev/null & cat >/dev/null; kill -9 $!; wait $!'
#: JVMs that live for seconds: little is compiled, and one thread collects garbage.
SHORT_LIVED: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
#: Where Spark is.
SPARK_HOME: Final = Path(pyspark.__file__).parent
#: Of the sessions on a cluster.
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.log.level": "ERROR",
}


def unsharing() -> list[str]:
    """Return the command that gives a process namespaces of its own.

    Raises:
        ServiceError: This machine allows it neither to this user nor to one who is root in a namespace of users.
    """
    said: list[str] = []
    for user in ("", "r"):
        command = ["unshare", f"-{user}mpuf", "--kill-child"]
        try:
            tried = subprocess.run([*command, "--mount-proc", "true"], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise ServiceError("the hosts of the tests' cluster need the command unshare (util-linux)") from None
        if tried.returncode == 0:
            return [*command, "--mount-proc"]
        said.append(f"{' '.join(command)}: {tried.stderr.strip()}")
    msg = f"the hosts of the tests' cluster need namespaces of their own, and have none here ({'; '.join(said)})"
    raise ServiceError(msg)


@dataclass
class Host:
    """A host of a cluster, with its disk."""

    name: str
    process: subprocess.Popen[bytes]
    own: Path

    def processes(self) -> list[int]:
        """Return all processes of this host, as this machine numbers them."""
        return descendants(self.process.pid)

    def javas(self, main: str) -> list[int]:
        """Return the processes of Java whose main class has a name, or a name that ends so."""
        return [
            pid
            for pid in self.processes()
            if (words := _command(pid).split(b"\0"))[0].endswith(b"java")
            and any(word.endswith(main.encode()) for word in words)
        ]

    def executors(self) -> list[int]:
        """Return its executors."""
        return self.javas("CoarseGrainedExecutorBackend")

    def python_workers(self) -> list[int]:
        """Return the processes that run Python functions, and the daemons that fork them."""
        return [pid for pid in self.processes() if b"pyspark" in _command(pid) and b"java" not in _command(pid)]

    def files(self) -> list[Path]:
        """Return the files below its own directory, named as they are named there."""
        root = Path(f"/proc/{self.processes()[0]}/root")
        below = root / self.own.relative_to("/")
        return sorted(Path("/") / path.relative_to(root) for path in below.rglob("*") if path.is_file())

    def lose(self) -> None:
        """Lose the host: its processes are killed, and its disk is gone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


class Cluster(ABC):
    """A master and its hosts; subclasses say which programs these run.

    Args:
        hosts: The number of hosts.
        cores: Of each host.
        settings: Of the programs and of sessions, beside those of all clusters.
        network: Where master, driver and hosts are; by default all on loopback.
    """

    def __init__(
        self,
        hosts: int = 2,
        cores: int = 1,
        settings: Mapping[str, str] | None = None,
        network: Spots | None = None,
    ) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
        self._count, self._cores = hosts, cores
        #: Each host has its own; and one that all have.
        self.own, self.shared = self._place / "own", self._place / "shared"
        for directory in (self.own, self.shared, self.own / "tmp"):
            directory.mkdir()
        network = network or Loopback()
        self._spot, self.driver_spot = network.spot, network.spot("driver")
        at = dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), self.driver_spot.address)
        all_settings = {**_SETTINGS, **self.settings, **at, **(settings or {})}
        defaults = "".join(f"{key} {value}\n" for key, value in all_settings.items())
        (self._place / "spark-defaults.conf").write_text(defaults)
        self.hosts: list[Host] = []
        self._made = 0
        self._master: subprocess.Popen[bytes] | None = None
        self._unsharing: list[str] = []

    @property
    def settings(self) -> dict[str, str]:
        """What sessions are told beside `_SETTINGS`."""
        return {}

    @property
    @abstractmethod
    def url(self) -> str:
        """The master, as Spark calls it."""

    @abstractmethod
    def alive(self) -> int:
        """Return the number of hosts that the master knows; 0 where it does not answer."""

    @abstractmethod
    def _master_command(self) -> list[str]: ...

    @abstractmethod
    def _host_command(self, name: str, spot: Spot, cores: int) -> list[str]: ...

    def __enter__(self) -> Self:
        try:
            self._unsharing = unsharing()
            self.start_master()
            for _ in range(self._count):
                self.add_host()
            self.wait_for(self._count)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts:
            host.lose()
        self.lose_master()
        shutil.rmtree(self._place, ignore_errors=True)

    def start_master(self) -> None:
        """Start the master, or start it again at its address."""
        around = ["sh", "-c", _UNTIL_THE_PIPE_ENDS, "sh"]
        self._master = self._start("master", self._spot("master"), [*around, *self._master_command()])

    def lose_master(self) -> None:
        """End the master."""
        if self._master is not None:
            assert self._master.stdin is not None
            self._master.stdin.close()
            self._master.wait()
            self._master = None

    def add_host(self, cores: int | None = None) -> Host:
        """Start one more host; `wait_for` waits until it has registered.

        Args:
            cores: Of the host, by default as many as the others have.
        """
        self._made += 1
        name = f"host-{self._made}"
        spot = self._spot(name)
        around = [*self._unsharing, "sh", "-c", _HOST, "sh", str(self.own), name]
        process = self._start(name, spot, [*around, *self._host_command(name, spot, cores or self._cores)])
        host = Host(name, process, self.own)
        self.hosts.append(host)
        return host

    def lose_host(self, host: Host) -> None:
        """Lose a host with its disk."""
        self.hosts.remove(host)
        host.lose()

    def wait_for(self, hosts: int) -> None:
        """Wait until so many hosts are registered."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.alive() != hosts:
            ended = [host.name for host in self.hosts if host.process.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in self._place.glob("*.log"))
                msg = f"the cluster of the tests has {self.alive()} of {hosts} hosts; ended: {ended}\n{logs}"
                raise ServiceError(msg)
            time.sleep(0.05)

    def _start(self, name: str, spot: Spot, command: list[str]) -> subprocess.Popen[bytes]:
        with (self._place / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*spot.around, *command],
                env={**self.environment(), **self._server_variables(spot)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests
            )

    def _server_variables(self, spot: Spot) -> dict[str, str]:
        """Return what the environment of the master or a host has beside `environment`."""
        return {"SPARK_LOCAL_IP": spot.address}

    def environment(self) -> dict[str, str]:
        """Return the environment of a host: of what the tests have only Java, the cache and the exchange of the run."""
        java = find_java(pyspark.__version__)
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "XDG_CACHE_HOME", *VARIABLES) if name in os.environ}
        return {
            **kept,
            "JAVA_HOME": str(java.home),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
            "SPARK_CONF_DIR": str(self._place),
            "SPARK_LOCAL_IP": self.driver_spot.address,
            "TMPDIR": str(self.own / "tmp"),
        }


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
