"""A Spark standalone cluster on this machine, of isolated hosts."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tests.cluster.hosts import SHORT_LIVED, SPARK_HOME, Cluster
from tests.services.process import free_port

if TYPE_CHECKING:
    from tests.cluster.hosts import Host
    from tests.cluster.network import Spot


class Standalone(Cluster):
    """A Master and its Workers."""

    @cached_property
    def port(self) -> int:
        return free_port()

    @cached_property
    def _page(self) -> int:
        return free_port()

    @property
    def url(self) -> str:
        return f"spark://{self._spot('master').address}:{self.port}"

    def alive(self) -> int:
        page = f"http://{self._spot('master').address}:{self._page}/json/"
        try:
            with urllib.request.urlopen(page, timeout=2) as answer:
                state: dict[str, Any] = json.load(answer)
        except OSError:
            return 0
        return int(state["aliveworkers"])

    @staticmethod
    def decommission(host: Host) -> None:
        """Tell a worker that its host will go away; it needs `spark.decommission.enabled`."""
        for pid in host.javas("deploy.worker.Worker"):
            os.kill(pid, signal.SIGPWR)

    def _master_command(self) -> list[str]:
        address = ("--host", self._spot("master").address, "--port", str(self.port), "--webui-port", str(self._page))
        return [*_class("master.Master"), *address]

    def _host_command(self, name: str, spot: Spot, cores: int) -> list[str]:
        resources = ("--host", spot.address, "--cores", str(cores), "--memory", "1g")
        return [*_class("worker.Worker"), *resources, "--work-dir", f"{self.own}/work", "--webui-port", "0", self.url]

    def _server_variables(self, spot: Spot) -> dict[str, str]:
        return {
            **super()._server_variables(spot),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_DIRS": str(self.own / "tmp"),
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "200m",
            "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
        }


def _class(name: str) -> list[str]:
    return [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
