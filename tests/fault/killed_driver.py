"""A driver that kills or stops itself at a point of its work; Spark's part is played in its own process.

Usage: python -m tests.fault.killed_driver DIRECTORY [--kill POINT] [--stop POINT] [--put-off] [--suspend | --drain]
       [--restore SAVEPOINT] [--checkpoints DIRECTORY]

Steps are the coordinator's instructions, a sink's commit (``publish_parts``), a task of an epoch (``task``), and what
changes the disk at once: a name given (``link_…``), replaced (``replace_…``) or taken away (``unlink_…``). All points
that were passed stand in DIRECTORY/points.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.fault.job import SteadyRunner, assembled, counting_graph
from tests.fault.points import Points

from penstock._connectors.files.committer import FileCommitter
from penstock._engine.coordinator.checkpoints import snapshots
from penstock._engine.protocol.control import StopMode
from penstock.errors import PenstockError

#: The first checkpoint of a fresh start is complete.
CHECKPOINTED = "publish_progress-1-before"


def main() -> int:
    """Run the job once; 0 when it finished, 3 when it ended with an error."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kill")
    parser.add_argument("--stop")
    parser.add_argument("--put-off", action="store_true", help="the committer puts everything off")
    parser.add_argument("--suspend", action="store_true", help="stop with a savepoint after the first checkpoint")
    parser.add_argument("--drain", action="store_true", help="the same, and all input ends")
    parser.add_argument("--restore", default="latest", help="the checkpoint or savepoint to go on from")
    parser.add_argument("--checkpoints", help="where checkpoints are kept; below the directory by default")
    options = parser.parse_args()

    logging.basicConfig(level=logging.INFO)
    snapshots.MAX_INLINE = 0  # small state goes to files of the driver's, too: StoreState
    checkpoints = options.checkpoints or str(options.directory / "checkpoints")
    graph = counting_graph(options.directory)
    driver, loop = assembled(graph, options.directory, checkpoints=checkpoints, recover=options.restore)
    if options.put_off:
        FileCommitter.commit = put_off  # type: ignore[method-assign]
    kind = StopMode.DRAIN if options.drain else StopMode.SUSPEND
    stop = partial(driver.savepoint, str(options.directory / "savepoints"), kind)
    actions = {
        CHECKPOINTED if options.suspend or options.drain else None: stop,
        options.kill: partial(os.kill, os.getpid(), signal.SIGKILL),
        options.stop: partial(os.kill, os.getpid(), signal.SIGSTOP),
    }
    points = Points(actions, options.directory / "points")
    points.watch(loop)
    SteadyRunner._run_task = points.around(SteadyRunner._run_task, lambda *_: "task")  # type: ignore[method-assign]
    FileCommitter.commit = points.around(FileCommitter.commit, lambda *_: "publish_parts")  # type: ignore[method-assign]
    for verb, position in (("link", 1), ("replace", 1), ("unlink", 0)):
        setattr(os, verb, points.around(getattr(os, verb), partial(name_of_step, verb, position)))
    driver.run(loop)
    try:
        driver.result.result()
    except PenstockError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 3
    return 0


def name_of_step(verb: str, position: int, *paths: Any) -> str | None:
    """Return what is done to which kind of file; None for one that only its writer knows."""
    name, folders = Path(paths[position]).name, Path(paths[position]).parts
    if name.startswith((".tmp-", ".probe-")) or ".joined-" in name:
        return None
    kinds = {"metadata": name == "_metadata", "segment": name.endswith(".staged"), "part": "out" in folders}
    return f"{verb}_{next((kind for kind, fits in kinds.items() if fits), 'state')}"


def put_off(_: FileCommitter, requests: Any) -> None:
    """Do what a committer does whose target is away."""
    for request in requests:
        request.retry_later()


if __name__ == "__main__":
    sys.exit(main())
