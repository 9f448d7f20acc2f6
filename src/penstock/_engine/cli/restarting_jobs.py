"""Commands on a supervised job between two processes: they wait for the next process, or end the supervisor."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock._engine.cli.output import print_json, say, waiting
from penstock._engine.cli.rest_client import Poller
from penstock._engine.processes.supervision_note import is_supervising

if TYPE_CHECKING:
    from collections.abc import Callable


class CommandDeadline:
    """The deadline of a command, shared by all its waits.

    Args:
        timeout: The time in seconds; None for any time.
        now: Seconds that pass.
    """

    def __init__(self, timeout: int | None, now: Callable[[], float] = time.monotonic) -> None:
        self._timeout, self._now, self._began = timeout, now, now()

    def wait(self, what: str, way_out: str) -> Poller:
        """Return a poller with the remaining time."""
        left_s = None if self._timeout is None else max(0, self._timeout - int(self._now() - self._began))
        return Poller(what, left_s, way_out)

    def for_process(self, job: str) -> Poller:
        """Return a poller for the next process of a job."""
        way_out = "The job was asked for nothing; `penstock cancel` ends its supervisor."
        return self.wait(f"The start of the next process of job {job!r}", way_out)


def end_supervision(row: dict[str, Any], clock: CommandDeadline, *, as_json: bool) -> None:
    """End the supervisor of a job between two processes, so that the job is not started again.

    Args:
        row: The job, see `jobs.overview`.
        clock: How long the command may wait.
        as_json: Print JSON.

    Raises:
        CommandTimeoutError: It has not ended in time, because it had started the next process, which must end first.
    """
    supervisor, name = int(row["supervisor"]), f"{row['name']!r} ({row['jid']})"
    with suppress(ProcessLookupError), waiting(f"Ending the supervisor of {row['name']}"):
        os.kill(supervisor, signal.SIGTERM)
    way_out = "It was asked to end, with its program; a second signal makes that quicker."
    clock.wait(f"The end of process {supervisor}", way_out).until(lambda: not is_supervising(supervisor))
    if as_json:
        print_json({"job": row["jid"], "status": None})
    else:
        text = f"Job {name} had no process. Its supervisor, process {supervisor}, has ended and does not start it again"
        say(f"{text}; its checkpoints stay.")
