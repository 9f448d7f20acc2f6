"""Starts a detached program: a process in its own session, with a file for its output."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from typing import TYPE_CHECKING

from penstock._engine.cli.exit_codes import SIGNALLED, ExitCode
from penstock._engine.cli.log_limit import LOG_VARIABLE
from penstock._engine.cli.output import print_facts, print_json, say, waiting
from penstock._engine.gateway.registry import JobRegistry, default_directory
from penstock._engine.gateway.user_directories import user_state_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock._engine.gateway.registry import RegistryEntry

#: How long to wait for the first job of a program; afterwards the program continues unobserved.
_PATIENCE_S = 60.0
_PAUSE_S = 0.1
_LINES_SHOWN = 20


def start_detached(
    command: Sequence[str],
    environment: Mapping[str, str],
    script: Path,
    log_file: Path | None,
    *,
    as_json: bool,
    patience_s: float = _PATIENCE_S,
) -> int:
    """Start a program, wait until its first job answers, and print the job's address.

    Args:
        command: Starts the program.
        environment: Its further variables.
        script: The program, for names.
        log_file: The file for its output; a new file by default.
        as_json: Print JSON.
        patience_s: How long to wait for the job.
    """
    log = _new_log_file(script) if log_file is None else log_file.absolute()
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The output and the exceptions of a program may contain its data.
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment, LOG_VARIABLE: str(log)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with waiting(f"Starting {script.name}"):
        job = _first_job(process, patience_s)
    code = process.poll()
    if job is None and code is not None:
        say(f"penstock: {script.name} ended before a job of it ran, with code {code}. Its last lines ({log}):")
        say(_last_lines(log))
        return SIGNALLED - code if code < 0 else code
    if as_json:
        found = None if job is None else {"id": job.job_id, "name": job.name, "address": job.address}
        print_json({"pid": process.pid, "log": str(log), "job": found})
    else:
        facts: list[tuple[str, object]] = [("Process", process.pid), ("Log", log)]
        if job is not None:
            facts = [("Job", f"{job.name} ({job.job_id})"), ("Address", job.address), *facts]
        print_facts(facts)
    if job is None:
        say(
            f"{script.name} runs, but had no job that could be asked within {patience_s:.0f} s. `penstock list` shows "
            "it as soon as there is one; what the program prints is in the log."
        )
    process.returncode = 0  # it continues, and this process does not wait for it
    return ExitCode.OK


def _last_lines(log: Path) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-_LINES_SHOWN:])
    except OSError as error:  # the folder is being cleaned
        return f"(the log cannot be read: {error.strerror})"


def _first_job(process: subprocess.Popen[bytes], patience_s: float) -> RegistryEntry | None:
    """Wait for a job of a program or of its supervised processes; None if none starts before the end or in time."""
    registry = JobRegistry(default_directory())
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        job = next((job for job in registry.entries() if job.is_local and _session_of(job.pid) == process.pid), None)
        if job is not None or process.poll() is not None:
            return job
        time.sleep(_PAUSE_S)
    return None


def _session_of(pid: int) -> int:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        return os.getsid(pid)
    return 0


def _new_log_file(script: Path) -> Path:
    directory = user_state_directory() / "logs"
    return directory / f"{script.stem}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
