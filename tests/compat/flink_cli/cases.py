"""What Flink's own command line is asked to do with a job, and what has to come of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What the client of Flink 2.3.0 sent, as `record` wrote it down.
RECORDED = Path(__file__).with_name("requests.json")


@dataclass(frozen=True)
class Case:
    """One call."""

    name: str
    #: ``{job}``, ``{directory}``, ``{file}`` and ``{savepoint}`` stand for the job's id and paths.
    arguments: tuple[str, ...]
    #: Has to be found in what it prints.
    says: str
    exit_code: int = 0
    #: How the job stands afterwards.
    leaves: str = "RUNNING"
    #: Settings of the job that differ.
    settings: tuple[tuple[str, str], ...] = ()


_NO_DIRECTORY = (("execution.checkpointing.savepoint-dir", ""),)
_UNKNOWN = "0123456789abcdef0123456789abcdef"

CASES = (
    Case("list", ("list",), r"{job} : count \d+ \(RUNNING\)"),
    Case("list all", ("list", "-a"), r"{job} : count \d+ \(RUNNING\)"),
    Case("list scheduled", ("list", "-s"), "No scheduled jobs"),
    Case("savepoint", ("savepoint", "{job}", "{directory}"), r"Path: file:{directory}/savepoint-"),
    Case("savepoint by default", ("savepoint", "{job}"), r"Path: file:.*/savepoints/savepoint-"),
    Case("savepoint native", ("savepoint", "-type", "native", "{job}"), r"Path: file:"),
    Case("dispose", ("savepoint", "-d", "{savepoint}"), "disposed"),
    Case("dispose nothing", ("savepoint", "-d", "{directory}"), "the jobs of this process know", 1),
    Case("checkpoint", ("checkpoint", "{job}"), r"Checkpoint \d+ for job {job} completed"),
    Case("checkpoint full", ("checkpoint", "-full", "{job}"), r"Checkpoint\(FULL\) \d+ for job {job} completed"),
    Case("savepoint of nothing", ("savepoint", _UNKNOWN), "Could not find Flink job", 1),
    Case("savepoint nowhere", ("savepoint", "{job}"), "is not set", 1, settings=_NO_DIRECTORY),
    Case("savepoint refused", ("savepoint", "{job}", "{file}/below"), "There is no savepoint", 1),
    Case("stop of nothing", ("stop", _UNKNOWN), "Could not find Flink job", 1),
    Case("cancel of nothing", ("cancel", _UNKNOWN), "Job could not be found", 1),
    Case("stop", ("stop", "{job}"), r"Path: file:.*/savepoints/savepoint-", leaves="FINISHED"),
    Case(
        "stop drained",
        ("stop", "--drain", "-p", "{directory}", "{job}"),
        r"Path: file:{directory}/savepoint-",
        leaves="FINISHED",
    ),
    Case("cancel", ("cancel", "{job}"), "Cancelled job {job}", leaves="CANCELED"),
    Case("cancel with savepoint", ("cancel", "-s", "{directory}", "{job}"), "Savepoint stored in", leaves="CANCELED"),
)


def general(requests: list[dict[str, Any]], known: dict[str, str]) -> list[dict[str, Any]]:
    """Return requests with names in place of what differs from run to run, each once."""
    found: list[dict[str, Any]] = []
    for request in requests:
        text = json.dumps(request)
        for name, value in known.items():
            text = text.replace(value, f"{{{name}}}")
        text = re.sub(r"(savepoints|checkpoints|savepoint-disposal)/[0-9a-f]{32}", r"\1/{trigger}", text)
        if json.loads(text) not in found:
            found.append(json.loads(text))
    return found
