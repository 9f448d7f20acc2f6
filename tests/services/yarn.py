"""Hadoop YARN on this machine, from Maven Central's jars, which are fetched when a test asks for them first.

This module knows the jars, the commands and the configuration of a ResourceManager and its NodeManagers, and asks the
first one; `tests.cluster.yarn` makes a cluster of them. Files are those of this machine: there is no HDFS.
"""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.request import Request, urlopen
from xml.sax.saxutils import escape

from tests.services.cache import kept
from tests.services.maven import fetch
from tests.services.process import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_VERSION: Final = "3.5.0"
_ARTIFACTS: Final = (
    *(("org.apache.hadoop", f"hadoop-client-{part}", _VERSION) for part in ("api", "runtime", "minicluster")),
    ("org.slf4j", "slf4j-reload4j", "1.7.36"),
    *(("org.bouncycastle", f"{name}-jdk18on", "1.82") for name in ("bcprov", "bcpkix")),
)
_DIGEST: Final = "cb0dd9f2e290c358dc2cbddfff2d57fdff4de886d3c307e696c7dcb5b389e067"
_SERVER: Final = "org.apache.hadoop.yarn.server"
_MAIN: Final = {
    "master": f"{_SERVER}.resourcemanager.ResourceManager",
    "host": f"{_SERVER}.nodemanager.NodeManager",
}
_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")
#: The time after which a NodeManager that says nothing counts as lost. It has to be below spark.network.timeout.
LOST_MS: Final = 15_000
_LOG: Final = """
log4j.rootLogger=WARN, c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=%d %p %m (%c{1})%n
"""


def why_missing() -> str | None:
    """Return what this machine lacks; None where it has all."""
    lacking = [program for program in ("java", "mvn") if shutil.which(program) is None]
    return f"the YARN cluster of the tests needs {' and '.join(lacking)} (Java 17 and Maven)" if lacking else None


def jars() -> Path:
    """Return the directory of Hadoop's jars, which are fetched now if need be: 120 MB."""
    return kept(f"yarn-{_VERSION}", partial(fetch, "Hadoop's jars", _ARTIFACTS, _DIGEST))


def command(kind: str, java: Path, configuration: Path) -> list[str]:
    """Return the command of a server.

    Args:
        kind: ``master`` or ``host``.
        java: The home of Java.
        configuration: The directory that `configure` has filled.
    """
    opened = ("--add-opens", "java.base/java.lang=ALL-UNNAMED")
    classes = ("-cp", f"{configuration}:{jars()}/*")
    return [str(java / "bin" / "java"), "-Xmx256m", *_OPTIONS, *opened, *classes, _MAIN[kind]]


class ResourceManager:
    """Where a ResourceManager listens, and what it says.

    Args:
        address: Of its host.
    """

    def __init__(self, address: str) -> None:
        self._address, self._page = address, free_port()
        ports = {name: free_port() for name in ("", "scheduler.", "resource-tracker.", "admin.")}
        self.settings: dict[str, object] = {
            "yarn.resourcemanager.hostname": address,
            "yarn.resourcemanager.webapp.address": f"{address}:{self._page}",
            **{f"yarn.resourcemanager.{name}address": f"{address}:{port}" for name, port in ports.items()},
            "yarn.nm.liveness-monitor.expiry-interval-ms": LOST_MS,
            "yarn.scheduler.minimum-allocation-mb": 256,
        }

    def nodes(self) -> list[dict[str, Any]]:
        """Return the NodeManagers that it takes for alive.

        Raises:
            OSError: It does not answer.
        """
        found = self._ask("nodes?states=RUNNING")["nodes"] or {}
        return found.get("node", [])

    def applications(self) -> list[dict[str, Any]]:
        """Return all applications, the newest first."""
        found = (self._ask("apps")["apps"] or {}).get("app", [])
        return sorted(found, key=lambda application: application["startedTime"], reverse=True)

    def kill(self, application: str) -> None:
        """Kill an application, as ``yarn application -kill`` does."""
        self._ask(f"apps/{application}/state?user.name=root", {"state": "KILLED"})

    def _ask(self, path: str, content: object = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        url = f"http://{self._address}:{self._page}/ws/v1/cluster/{path}"
        with urlopen(Request(url, body, headers, method="GET" if body is None else "PUT"), timeout=10) as answer:
            return json.loads(answer.read() or b"{}")


def host_settings(address: str, own: Path, logs: Path, memory_mb: int, cores: int) -> dict[str, object]:
    """Return the settings of a NodeManager.

    Args:
        address: Of its host, which has all its ports.
        own: Where it may keep files.
        logs: Where the logs of its containers lie.
        memory_mb: For containers.
        cores: The same.
    """
    ports = ("yarn.nodemanager.address", "yarn.nodemanager.localizer.address", "yarn.nodemanager.webapp.address")
    return {
        "yarn.nodemanager.hostname": address,
        "yarn.nodemanager.bind-host": address,
        **dict.fromkeys(ports, f"{address}:0"),
        "yarn.nodemanager.local-dirs": own / "yarn",
        "yarn.nodemanager.log-dirs": logs,
        "yarn.nodemanager.resource.memory-mb": memory_mb,
        "yarn.nodemanager.resource.cpu-vcores": cores,
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 100,
    }


def configure(place: Path, settings: Mapping[str, object], temporary: Path) -> Path:
    """Fill the configuration directory of a server or of clients, and return it."""
    place.mkdir()
    queue = "yarn.scheduler.capacity.root"
    files: dict[str, Mapping[str, object]] = {
        "core-site.xml": {"fs.defaultFS": "file:///", "hadoop.tmp.dir": temporary},
        "yarn-site.xml": settings,
        "capacity-scheduler.xml": {
            f"{queue}.queues": "default",
            f"{queue}.default.capacity": 100,
            "yarn.scheduler.capacity.maximum-am-resource-percent": 0.5,
        },
    }
    for name, properties in files.items():
        (place / name).write_text(_document(properties))
    (place / "log4j.properties").write_text(_LOG)
    return place


def _document(properties: Mapping[str, object]) -> str:
    lines = (
        f"<property><name>{name}</name><value>{escape(str(value))}</value></property>\n"
        for name, value in properties.items()
    )
    return f"<configuration>\n{''.join(lines)}</configuration>\n"
