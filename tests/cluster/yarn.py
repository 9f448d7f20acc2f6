"""A YARN cluster on this machine, of isolated hosts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.hosts import SHORT_LIVED, SPARK_HOME, Cluster
from tests.services import yarn as service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.hosts import Host
    from tests.cluster.network import Spot

#: A host has room for one executor and the ApplicationMaster, so no two executors share one.
_HOST_MB = 2304


class Yarn(Cluster):
    """A ResourceManager and its NodeManagers."""

    def __init__(self, hosts: int = 2, cores: int = 1, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(hosts, cores, settings)
        self.manager = service.ResourceManager(self._spot("master").address)
        self._clients = service.configure(self._place / "hadoop", self.manager.settings, self.own / "tmp")

    @property
    def settings(self) -> dict[str, str]:
        return {
            "spark.executor.instances": "2",
            "spark.executor.memoryOverhead": "768m",
            "spark.yarn.am.memory": "256m",
            "spark.yarn.am.extraJavaOptions": SHORT_LIVED,
            "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",  # they need not be uploaded: all hosts have them
            "spark.yarn.stagingDir": str(self.shared),
        }

    @property
    def url(self) -> str:
        return "yarn"

    def alive(self) -> int:
        try:
            return len(self.manager.nodes())
        except OSError:
            return 0

    @staticmethod
    def masters_on(host: Host) -> list[int]:
        """Return the processes of ApplicationMasters on a host."""
        return host.javas("ExecutorLauncher")

    def application_masters(self) -> list[int]:
        """Return the processes of all ApplicationMasters."""
        return [pid for host in self.hosts for pid in self.masters_on(host)]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "HADOOP_CONF_DIR": str(self._clients)}

    def _master_command(self) -> list[str]:
        return service.command("master", self._java, self._clients)

    def _host_command(self, name: str, spot: Spot, cores: int) -> list[str]:
        of_host = service.host_settings(spot.address, self.own, self._place / f"{name}-logs", _HOST_MB, 4 * cores)
        place = service.configure(self._place / name, {**self.manager.settings, **of_host}, self.own / "tmp")
        return service.command("host", self._java, place)

    @property
    def _java(self) -> Path:
        return Path(self.environment()["JAVA_HOME"])
