"""A worker process of another host, user or directory: runs the epochs that it reads, and writes their outcomes."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.kit.epochs import Job
from tests.kit.program import Program

from penstock._engine.state.local import local_backend
from penstock.testing.in_process import InProcessEpochRunner


def running_sums(place: Path) -> Job:
    """Return a job with keyed state."""
    program = Program(place)
    sums = program.source([(number % 3, number) for number in range(60)]).key_by(lambda pair: pair[0])
    program.collect(sums.reduce(lambda one, other: (one[0], one[1] + other[1])))
    return Job(program.graph(), place)


def main() -> None:
    if user := os.environ.get("AS_USER"):
        with tempfile.TemporaryDirectory() as place:
            running_sums(Path(place)).run()  # loads all modules: that user may not be allowed to read them
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
    os.umask(0)  # the tests' users share a checkpoint directory
    local_backend._MAX_PENDING_DELTAS = 0  # all state goes to the local disk
    runner = InProcessEpochRunner()
    with suppress(EOFError):
        while True:
            plan = pickle.load(sys.stdin.buffer)
            pickle.dump(plan and runner.run(plan), sys.stdout.buffer)
            sys.stdout.flush()
            if plan is None:
                runner.release("run-1")
                return


if __name__ == "__main__":
    main()
