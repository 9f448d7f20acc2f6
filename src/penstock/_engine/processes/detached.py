"""Starts a detached program: a process in its own session, with a file for its output."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._engine.processes.log_limit import LOG_VARIABLE
from penstock._engine.processes.registry import JobRegistry, default_directory
from penstock._engine.processes.user_directories import user_state_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock._engine.processes.registry import RegistryEntry

#: How long to wait for the first job of a program; afterwards the program continues unobserved.
PATIENCE_S = 60.0
_PAUSE_S = 0.1
_LINES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class DetachedProgram:
    """A program that was started, as it stands once its first job answers."""

    pid: int
    log: Path
    #: Its first job; None without one, because the program has ended or takes longer.
    job: RegistryEntry | None
    #: The exit code of a program that ended before a job of it ran; None if it runs.
    code: int | None

    def last_lines(self) -> str:
        """Return the end of the log, or why it cannot be read."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LINES_SHOWN:])
        except OSError as error:  # the folder is being cleaned
            return f"(the log cannot be read: {error.strerror})"


def start_detached(
    command: Sequence[str], environment: Mapping[str, str], script: Path, log_file: Path | None
) -> DetachedProgram:
    """Start a program, and wait until its first job answers, it has ended, or `PATIENCE_S` have passed.

    Args:
        command: Starts the program.
        environment: Its further variables.
        script: The program, for the name of its log.
        log_file: The file for its output; a new file by default.
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
    job = _first_job(process)
    code = process.poll() if job is None else None
    process.returncode = 0  # it continues, and this process does not wait for it
    return DetachedProgram(process.pid, log, job, code)


def _first_job(process: subprocess.Popen[bytes]) -> RegistryEntry | None:
    """Wait for a job of a program or of its supervised processes; None if none starts before the end or in time."""
    registry = JobRegistry(default_directory())
    deadline = time.monotonic() + PATIENCE_S
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
