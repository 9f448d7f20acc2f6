"""A Spark standalone cluster on this machine whose workers are like other hosts: each has a disk of its own.

A worker and all that it starts live in namespaces of their own (`unshare`), with a name and an address. An empty file
system lies there over the directory `Standalone.own`, so what one host writes below it no other host sees, the
driver's neither, and it goes with the host. All hosts see `Standalone.shared`.

The first process of each namespace reads the pipe from here, so the cluster ends with the process that has made it,
however that ends.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import obstore
import pyspark
from tests.cluster.network import Loopback
from tests.fault.processes import descendants
from tests.services.cache import ServiceError
from tests.services.process import free_port

from penstock._engine.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from obstore.store import S3Store
    from tests.cluster.network import Spot, Spots

#: Longest wait for a process of Spark; a busy machine starts a JVM slowly.
_PATIENCE_S: Final = 180
#: Runs until the pipe ends. The namespace ends with it, as it is the first process there.
_HOST: Final = """
mount -t tmpfs -o mode=700 own "$1" && mkdir "$1/tmp" "$1/work" && cd "$1/work" || exit 1
echo "$2" >/proc/sys/kernel/hostname
shift 2
"$@" </dev/null &
exec cat >/dev/null
"""
_UNTIL_THE_PIPE_ENDS: Final = '"$@" </dev/null & cat >/dev/null; kill -9 $!; wait $!'
#: JVMs that live for seconds: little is compiled, and one thread collects garbage.
_SHORT_LIVED: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
#: The keys of the program `counting`.
KEYS: Final = 97
#: Of the sessions on the cluster.
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": _SHORT_LIVED,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _SHORT_LIVED,
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
    """A worker, with its disk."""

    name: str
    process: subprocess.Popen[bytes]
    own: Path

    def processes(self) -> list[int]:
        """Return all processes of this host, as this machine numbers them."""
        return descendants(self.process.pid)

    def executors(self) -> list[int]:
        """Return its executors."""
        return [pid for pid in self.processes() if b"CoarseGrainedExecutorBackend" in _command(pid)]

    def python_workers(self) -> list[int]:
        """Return the processes that run Python functions, and the daemons that fork them."""
        return [pid for pid in self.processes() if b"pyspark" in _command(pid) and b"java" not in _command(pid)]

    def files(self) -> list[Path]:
        """Return the files below its own directory, named as they are named there."""
        root = Path(f"/proc/{self.processes()[0]}/root")
        below = root / self.own.relative_to("/")
        return sorted(Path("/") / path.relative_to(root) for path in below.rglob("*") if path.is_file())

    def decommission(self) -> None:
        """Tell the worker that its host will go away; it needs `spark.decommission.enabled`."""
        for pid in self.processes():
            if b"deploy.worker.Worker" in _command(pid):
                os.kill(pid, signal.SIGPWR)

    def lose(self) -> None:
        """Lose the host: its processes are killed, and its disk is gone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


class Standalone:
    """A master and its hosts.

    Args:
        hosts: The number of hosts.
        cores: Of each host.
        settings: Of workers and sessions, beside those of all clusters.
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
        defaults = "".join(f"{key} {value}\n" for key, value in {**_SETTINGS, **at, **(settings or {})}.items())
        (self._place / "spark-defaults.conf").write_text(defaults)
        self.port, self._page = free_port(), free_port()
        self.hosts: list[Host] = []
        self._made = 0
        self._master: subprocess.Popen[bytes] | None = None
        self._unsharing: list[str] = []

    @property
    def url(self) -> str:
        """The address of the master."""
        return f"spark://{self._spot('master').address}:{self.port}"

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
        spot = self._spot("master")
        address = ("--host", spot.address, "--port", str(self.port), "--webui-port", str(self._page))
        master = ("org.apache.spark.deploy.master.Master", *address)
        self._master = self._start("master", spot, ["sh", "-c", _UNTIL_THE_PIPE_ENDS, "sh"], *master)

    def lose_master(self) -> None:
        """End the master."""
        if self._master is not None:
            assert self._master.stdin is not None
            self._master.stdin.close()
            self._master.wait()
            self._master = None

    def add_host(self, cores: int | None = None) -> Host:
        """Start one more host; `wait_for` waits until its worker has registered.

        Args:
            cores: Of the host, by default as many as the others have.
        """
        self._made += 1
        name = f"host-{self._made}"
        spot = self._spot(name)
        resources = ("--host", spot.address, "--cores", str(cores or self._cores), "--memory", "1g")
        worker = ("org.apache.spark.deploy.worker.Worker", *resources, "--work-dir", str(self.own / "work"))
        around = [*self._unsharing, "sh", "-c", _HOST, "sh", str(self.own), name]
        process = self._start(name, spot, around, *worker, "--webui-port", "0", self.url)
        host = Host(name, process, self.own)
        self.hosts.append(host)
        return host

    def lose_host(self, host: Host) -> None:
        """Lose a host with its disk."""
        self.hosts.remove(host)
        host.lose()

    def wait_for(self, workers: int) -> None:
        """Wait until so many workers are registered."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.alive() != workers:
            ended = [host.name for host in self.hosts if host.process.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in self._place.glob("*.log"))
                msg = f"the cluster of the tests has {self.alive()} of {workers} workers; ended: {ended}\n{logs}"
                raise ServiceError(msg)
            time.sleep(0.05)

    def alive(self) -> int:
        """Return the number of workers that the master knows; 0 where it does not answer."""
        try:
            with urllib.request.urlopen(
                f"http://{self._spot('master').address}:{self._page}/json/", timeout=2
            ) as answer:
                state: dict[str, Any] = json.load(answer)
        except OSError:
            return 0
        return int(state["aliveworkers"])

    def _start(self, name: str, spot: Spot, around: list[str], *arguments: str) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        variables = {
            **self.environment(),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_DIRS": str(self.own / "tmp"),
            "SPARK_LOCAL_IP": spot.address,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "200m",
            "SPARK_DAEMON_JAVA_OPTS": _SHORT_LIVED,
        }
        with (self._place / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*spot.around, *around, str(home / "bin" / "spark-class"), *arguments],
                env=variables,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests
            )

    def environment(self) -> dict[str, str]:
        """Return the environment of a host: nothing of what the tests have but Java and the cache."""
        java = find_java(pyspark.__version__)
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "XDG_CACHE_HOME") if name in os.environ}
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


def lines_in(bucket: S3Store, prefix: str) -> Iterator[str]:
    """Yield the lines of all objects with a prefix that readers see: those without a dot before their names."""
    for chunk in obstore.list(bucket, prefix):
        for meta in chunk:
            if not meta["path"].rpartition("/")[2].startswith("."):
                yield from bytes(obstore.get(bucket, meta["path"]).bytes()).decode().split()


def counts_of(lines: Iterable[str]) -> dict[int, list[int]]:
    """Return by key the counts that the program `counting` has written, sorted."""
    found: dict[int, list[int]] = {}
    for line in lines:
        key, count = map(int, line.split(","))
        found.setdefault(key, []).append(count)
    return {key: sorted(counts) for key, counts in found.items()}


def expected_counts(total: int) -> dict[int, list[int]]:
    """Return what it writes for so many numbers: each count of each key once."""
    return {key: list(range(1, len(range(key, total, KEYS)) + 1)) for key in range(min(KEYS, total))}
