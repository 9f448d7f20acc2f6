"""Drivers of the batch job of six vertices, each in a process of its own, made by a fork, so that it begins at once.

Usage: python -m tests.fault.staged_drivers

Standard input has commands, one JSON list a line: ``["start", Orders]`` is answered with the id of the new process,
``["wait", id]`` with its exit code, or with null when it has stopped. The stages run in the process itself, with real
threads, clocks and storage.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from tests.fault.points import Points
from tests.fault.staged_job import NAME, Notes, environment, graph_of

from penstock._connectors.files.committer import FileCommitter
from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.driver.stages.event_store import JobEventStore
from penstock.common import Configuration
from penstock.errors import PenstockError
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Callable


class Orders(TypedDict, total=False):
    """What one driver is to do."""

    directory: str
    #: Where checkpoints, events and results are kept; below the directory by default.
    checkpoints: str
    #: By point of its work (see `points`): what happens there, a word and its arguments, see `action_of`. Steps are
    #: instructions, writes of events (``event``: the first one is the claim), commits (``publish``) and records
    #: (``note_left`` …).
    actions: dict[str, list[Any]]
    settings: dict[str, str]


def main() -> None:
    """Do what is asked for, one command after the other."""
    graph_of(environment(Path()))  # loads all that is loaded when it is used, once for all of them
    for line in sys.stdin:
        command, argument = json.loads(line)
        answer: int | None
        if command == "start":
            answer = os.fork()
            if not answer:
                os._exit(drive(argument))
        else:
            _, status = os.waitpid(argument, os.WUNTRACED)
            answer = None if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


def drive(orders: Orders) -> int:
    """Run a driver; 0 when the job finished, 3 when it ended with an error."""
    directory = Path(orders["directory"])
    log = os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    logging.basicConfig(level=logging.INFO)
    (directory / "calls").mkdir(exist_ok=True)
    env = environment(directory, orders.get("checkpoints"), **orders.get("settings", {}))
    world = RuntimeEnvironment(InProcessEpochRunner(), 2, directory / "state")
    driver, loop = assemble(graph_of(env), Configuration(env._configuration), None, world)
    actions = {point: action_of(directory, *words) for point, words in orders.get("actions", {}).items()}
    points = Points(actions, directory / "points")
    points.watch(loop)
    JobEventStore._put = points.around(JobEventStore._put, lambda *_: "event")  # type: ignore[method-assign]
    FileCommitter.commit = points.around(FileCommitter.commit, lambda *_: "publish")  # type: ignore[method-assign]
    Notes.note = points.around(Notes.note, lambda notes: f"note_{notes.vertex}")  # type: ignore[method-assign]
    driver.run(loop)
    try:
        driver.result.result()
    except PenstockError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 3
    return 0


def action_of(directory: Path, word: str, *arguments: Any) -> Callable[[], object]:
    """Return what happens at a point."""

    def shift(seconds: int) -> None:
        """Have the clock of the process set."""
        time_s, time_ns = time.time, time.time_ns
        time.time = lambda: time_s() + seconds
        time.time_ns = lambda: time_ns() + seconds * 1_000_000_000

    def bring(hidden: str, place: str) -> None:
        """Let files turn up."""
        for path in (directory / hidden).iterdir():
            path.rename(directory / place / path.name)

    def note_time() -> None:
        """Add the seconds of a clock that nobody sets to the file of times."""
        with (directory / "times").open("a") as times:
            times.write(f"{time.monotonic()}\n")

    known: dict[str, Callable[..., object]] = {
        "kill": partial(os.kill, os.getpid(), signal.SIGKILL),
        "stop": partial(os.kill, os.getpid(), signal.SIGSTOP),
        "shift": shift,
        "bring": bring,
        "note-time": note_time,
    }
    return partial(known[word], *arguments)


if __name__ == "__main__":
    from tests.fault import staged_drivers  # what is pickled is found there

    assert NAME
    staged_drivers.main()
