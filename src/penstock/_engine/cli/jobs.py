"""Finds a running job by its id, the first digits of its id or its name: in this user's registry or at an address."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock._engine.cli.output import say
from penstock._engine.cli.rest_client import ENDED, Credentials, RestClient, full_address
from penstock._engine.gateway.registry import JobRegistry, RegistryEntry, default_directory
from penstock._engine.gateway.supervision import is_supervising, waiting_jobs
from penstock.errors import CommandError, JobNotFoundError, JobRestartingError

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock._engine.cli.rest_client import Poller


@dataclass(frozen=True, slots=True)
class RestTarget:
    """The place of jobs: the registry of this user, or a REST server.

    Args:
        address: One server; None for all servers in the registry.
        token: The bearer token for the servers; it overrides the registry's.
        authorities: A PEM file with the authorities of servers' certificates; the system's by default.
    """

    address: str | None = None
    token: str | None = None
    authorities: str | None = None

    def servers(self) -> dict[str, Credentials]:
        """Return the addresses, each with its credentials."""
        known = {
            full_address(job.address): Credentials(self.token or job.token, job.certificate, job.client_files)
            for job in registered_jobs()
        }
        if self.address is None:
            return known
        address = full_address(self.address)
        return {address: known.get(address) or Credentials(self.token, authorities=self.authorities)}


def registered_jobs() -> list[RegistryEntry]:
    """Return the jobs of this user that this machine can reach, oldest first."""
    entries = JobRegistry(default_directory()).entries()
    return [entry for entry in entries if entry.is_local or not _is_loopback(entry.address)]


def _is_loopback(address: str) -> bool:
    host = urlsplit(full_address(address)).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job, and the client of its server."""

    job_id: str
    name: str
    client: RestClient


def overview(place: RestTarget) -> list[dict[str, Any]]:
    """Return a row for each job, with its server's ``address``.

    A job of the registry whose server does not answer has the state UNREACHABLE. A supervised job between two processes
    is RESTARTING, has no address, and names its ``supervisor`` process.

    Raises:
        JobUnreachableError: Nothing answers at the address that was given.
    """
    rows: list[dict[str, Any]] = []
    for address, credentials in place.servers().items():
        try:
            with RestClient(address, credentials) as client:
                rows += [{**row, "address": address} for row in client.jobs()]
        except CommandError:
            if place.address is not None:
                raise
            silent = (job for job in registered_jobs() if full_address(job.address) == address)
            rows += [
                {"jid": job.job_id, "name": job.name, "state": "UNREACHABLE", "address": address} for job in silent
            ]
    return rows if place.address is not None else rows + _waiting_rows({row["jid"] for row in rows})


def _waiting_rows(with_process: set[str]) -> list[dict[str, Any]]:
    return [
        {"jid": job.job_id, "name": job.job_name, "state": "RESTARTING", "address": "-", "supervisor": job.supervisor}
        for job in waiting_jobs()
        if job.job_id not in with_process
    ]


@contextmanager
def found(place: RestTarget, wanted: str, wait: Poller | None = None) -> Generator[FoundJob]:
    """Find one job, and keep its connection open during the block.

    Args:
        place: Where to look.
        wanted: The job's id, the first digits of its id, or its name; running jobs are preferred to ended ones.
        wait: How long to wait for the next process of a supervised job.

    Raises:
        JobNotFoundError: No job or several jobs match.
        JobUnreachableError: Nothing answers at the address that was given.
        JobRestartingError: The job is between two processes, and the caller does not wait, or its supervisor has ended.
        CommandTimeoutError: Its next process did not start in time.
    """
    row = find_row(place, wanted)
    if "supervisor" in row:
        row = _with_process(place, row, wait)
    address = str(row["address"])
    with RestClient(address, place.servers().get(address) or Credentials()) as client:
        yield FoundJob(str(row["jid"]), str(row["name"]), client)


def find_row(place: RestTarget, wanted: str) -> dict[str, Any]:
    """Return the row of one job, see `overview`; raises what `found` does."""
    return _choose(overview(place), wanted)


def _with_process(place: RestTarget, row: dict[str, Any], wait: Poller | None) -> dict[str, Any]:
    """Return the row of a job once it has a process."""
    job, supervisor = f"{row['name']!r} ({row['jid']})", int(row["supervisor"])
    if wait is None:
        raise JobRestartingError(job, supervisor, "it starts the next one; ask again in a moment")
    say(f"Job {job} has no process at this moment; waiting until process {supervisor} has started the next one.")
    running: list[dict[str, Any]] = []

    def started() -> bool:
        is_supervised = is_supervising(supervisor)  # asked before the jobs: its last process may have been the one
        rows = [one for one in overview(place) if one["jid"] == row["jid"] and "supervisor" not in one]
        running.extend(one for one in rows if one["state"] not in {*ENDED, "UNREACHABLE"})
        if not running and (not is_supervised or any(one["state"] in ENDED for one in rows)):
            raise JobRestartingError(job, supervisor, "it has ended meanwhile, so there is no other process")
        return bool(running)

    wait.until(started)
    return running[0]


def _choose(rows: list[dict[str, Any]], wanted: str) -> dict[str, Any]:
    named = [row for row in rows if wanted in (row["jid"], row["name"])]
    matching = named or [row for row in rows if row["jid"].startswith(wanted.lower())]
    running = [row for row in matching if row["state"] not in ENDED]
    choice = running or matching
    if len(choice) == 1:
        return choice[0]
    shown = tuple(f"{row['name']} ({row['jid']})" for row in choice or rows if choice or row["state"] not in ENDED)
    reason = "there is no such job" if not choice else f"{len(choice)} jobs are called that"
    raise JobNotFoundError(wanted, reason, shown)
