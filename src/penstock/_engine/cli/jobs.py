"""Finds a running job by its id, the first digits of its id or its name: in this user's registry or at an address."""

from __future__ import annotations

import concurrent.futures
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock._engine.cli.output import say
from penstock._engine.cli.rest_client import ENDED, Credentials, RestClient, full_address
from penstock._engine.processes.registry import JobRegistry, RegistryEntry, default_directory, is_stopped
from penstock._engine.processes.supervision_note import is_supervising, waiting_jobs
from penstock.errors import CommandError, JobNotFoundError, JobRestartingError, JobUnreachableError

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock._engine.cli.rest_client import Poller


#: Seconds until an overview gives a server up, and after which it says whom it waits for.
_LOOK_S, _QUIET_S = 10.0, 2.0
SILENT, STARTING = "UNREACHABLE", "STARTING"


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

    A job of the registry whose server does not answer has the state UNREACHABLE, with a ``reason``. A supervised job
    between two processes is RESTARTING, has no address, and names its ``supervisor`` process. All servers are asked at
    the same time, and a line names those that are waited for.

    Raises:
        JobUnreachableError: Nothing answers at the address that was given.
    """
    rows: list[dict[str, Any]] = []
    silent: list[dict[str, Any]] = []
    for address, answer in _answers(place.servers()).items():
        if not isinstance(answer, CommandError):
            rows += [{**row, "address": address} for row in answer]
        elif place.address is not None:
            raise answer
        else:
            why = {}
            if isinstance(answer, JobUnreachableError):
                why = {"reason": answer.reason, "way-out": answer.way_out}
            silent += [
                {"jid": job.job_id, "name": job.name, "state": SILENT, "address": address, **why}
                for job in _jobs_at(address)
            ]
    rows += silent
    return rows if place.address is not None else rows + _waiting_rows({row["jid"] for row in rows})


def starting_rows() -> list[dict[str, Any]]:
    """Return a row for each job of this user whose program waits for Spark or looks at a cluster; it has no id yet."""
    return [
        {"jid": "-", "name": job.name, "state": STARTING, "start-time": job.started_ms, "address": "-"}
        for job in JobRegistry(default_directory()).starting()
    ]


def _answers(servers: dict[str, Credentials]) -> dict[str, list[dict[str, Any]] | CommandError]:
    """Ask servers at the same time, and return their jobs, or why there is no answer."""
    with concurrent.futures.ThreadPoolExecutor(max(1, len(servers))) as pool:
        asked = {address: pool.submit(_ask, address, credentials) for address, credentials in servers.items()}
        concurrent.futures.wait(asked.values(), timeout=_QUIET_S)
        for address, answer in asked.items():
            if not answer.done():
                names = ", ".join(f"{job.name!r} (process {job.pid})" for job in _jobs_at(address)) or "the server"
                say(f"Waiting for {names} at {address}, {_LOOK_S:.0f} s at most.")
        return {address: answer.result() for address, answer in asked.items()}


def _ask(address: str, credentials: Credentials) -> list[dict[str, Any]] | CommandError:
    for job in _jobs_at(address):
        if job.is_local and is_stopped(job.pid):
            return JobUnreachableError(
                address,
                f"its process {job.pid} was stopped by a signal, so the job stands still",
                f"kill -CONT {job.pid} lets it continue.",
            )
    try:
        with RestClient(address, credentials, patience_s=_LOOK_S) as client:
            return client.jobs()
    except CommandError as error:
        return error


def _jobs_at(address: str) -> list[RegistryEntry]:
    return [job for job in registered_jobs() if full_address(job.address) == address]


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
    if "reason" in row:
        raise JobUnreachableError(address, str(row["reason"]), str(row["way-out"]))
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
        running.extend(one for one in rows if one["state"] not in {*ENDED, SILENT})
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
