"""Finds a driver that runs a job already, among those that this user's registry of running jobs lists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.coordinator import events as ev
from penstock._engine.processes.registry import JobRegistry, default_directory
from penstock.common import option_table

if TYPE_CHECKING:
    from penstock._engine.coordinator import instructions as do
    from penstock.common.configuration import Configuration


class OtherDrivers:
    """The drivers of this user that serve REST, on this machine and on those that share the registry.

    Args:
        configuration: Says where the registry is.
        run_id: This driver's run.
    """

    def __init__(self, configuration: Configuration, run_id: str) -> None:
        directory = configuration.get(option_table.REST_REGISTRY_DIRECTORY)
        self._registry = JobRegistry(Path(directory) if directory else default_directory())
        self._run_id = run_id

    def find(self, instruction: do.FindDriver) -> ev.Event:
        """Look for another driver of a job."""
        for entry in self._registry.entries():
            if entry.job_id == instruction.job_id and entry.run_id != self._run_id:
                where = "" if entry.is_local else f" on {entry.host}"
                return ev.DriverFound(f"process {entry.pid}{where} ({entry.address})")
        return ev.DriverFound("")
