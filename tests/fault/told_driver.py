"""A driver whose job tells what its sinks have committed, and that kills itself at a point of its work.

Usage: python -m tests.fault.told_driver DIRECTORY [--kill POINT]

The sink of numbers has a post-commit topology with a sink, and that one has another: folders ``out``, ``told`` and
``told-of-told``. Steps are the coordinator's instructions, tasks, and the commits (``commit_out``, ``commit_told`` …).
All points that were passed stand in DIRECTORY/points.
"""

from __future__ import annotations

import argparse
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

from tests.fault.job import SteadyRunner, assembled, numbers
from tests.fault.points import Points
from tests.lifecycle.sink import FolderCommitter, FolderSink
from tests.unit.driver.life.post_commit_jobs import Answers, ToldSink

from penstock._engine.graph.chaining import build_job_graph
from penstock.datastream import StreamExecutionEnvironment


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kill")
    given = parser.parse_args()
    place = given.directory
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    told = ToldSink(place / "told", FolderSink(place / "told-of-told"), Answers())
    numbers(env).sink_to(ToldSink(place / "out", told, Answers(later=frozenset({7, 300})))).uid("out")
    driver, loop = assembled(build_job_graph(env._stream_graph("told")), place)
    points = Points({given.kill: partial(os.kill, os.getpid(), signal.SIGKILL)}, place / "points")
    points.watch(loop)
    SteadyRunner._run_task = points.around(SteadyRunner._run_task, lambda *_: "task")  # type: ignore[method-assign]
    FolderCommitter.commit = points.around(FolderCommitter.commit, name_of_commit)  # type: ignore[method-assign]
    driver.run(loop)
    driver.result.result()


def name_of_commit(committer: FolderCommitter, *_: Any) -> str:
    """Return the step that a committer takes."""
    return f"commit_{committer.folder.name}"


if __name__ == "__main__":
    main()
