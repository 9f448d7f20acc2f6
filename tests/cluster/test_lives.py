"""Random lives of a job on a cluster, in which executors, workers, hosts and drivers are killed: nothing is lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cluster.standalone import counts_of, expected_counts, lines_in
from tests.fault.processes import descendants

if TYPE_CHECKING:
    from tests.cluster.standalone import Standalone
    from tests.services.s3 import S3Server

pytestmark = [
    *(pytest.mark.spark, pytest.mark.s3, pytest.mark.fault),
    pytest.mark.skipif("PENSTOCK_TEST_LIVES" not in os.environ, reason="takes half a minute a life: for the campaign"),
]

COUNTING = Path(__file__).with_name("counting.py")
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
LIVES = int(os.environ.get("PENSTOCK_TEST_LIVES", "1"))
TOTAL = 8_000
KILLS = 4
PATIENCE_S = 300


class Life:
    """A job, and the driver that runs it now."""

    def __init__(self, cluster: Standalone, server: S3Server, name: str) -> None:
        self.cluster, self._server, self._name = cluster, server, name
        self._bucket = server.make_bucket(name)
        self._notes = cluster.shared / name
        self._notes.mkdir()
        self.start()

    def start(self) -> None:
        """Start the driver; it goes on from the newest checkpoint."""
        variables = {
            **self.cluster.environment(),
            **self._server.penstock_variables,
            "SPARK_MASTER": self.cluster.url,
            "PENSTOCK_REST__ENABLED": "false",
            "PENSTOCK_EXECUTION__STATE_RECOVERY__PATH": "latest",
        }
        places = f"{self._bucket}/checkpoints", f"{self._bucket}/out", self._notes
        with (self.cluster.shared / f"{self._name}.log").open("ab") as log:
            self.driver = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    sys.executable,
                    COUNTING,
                    *places,
                    str(TOTAL),
                ],  # ends with the tests
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, dice: random.Random) -> str:
        """Kill something, and put another one in its place where that does not happen by itself."""
        victim = dice.choice(["executor", "python worker", "host", "driver"])
        host = dice.choice(self.cluster.hosts)
        if victim == "driver":
            for pid in [*descendants(self.driver.pid), self.driver.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.driver.wait()
            self.start()
        elif victim == "host":
            self.cluster.lose_host(host)
            self.cluster.add_host()
        else:
            found = host.executors() if victim == "executor" else host.python_workers()
            for pid in dice.sample(found, min(1, len(found))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return victim

    def end(self) -> None:
        """Wait for the end of the job, and look at what it has written."""
        log = (self.cluster.shared / f"{self._name}.log").read_text
        assert self.driver.wait(PATIENCE_S) == 0, log()[-4000:]
        assert counts_of(lines_in(self._server.bucket(self._name), "out")) == expected_counts(TOTAL), log()[-4000:]

    def close(self) -> None:
        """End the driver."""
        for pid in [*descendants(self.driver.pid), self.driver.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.driver.wait()


@pytest.mark.parametrize("number", range(LIVES))
def test_life_with_kills_of_all_that_can_be_killed_loses_nothing(
    cluster: Standalone, server: S3Server, number: int
) -> None:
    dice = random.Random(SEED + number)
    life = Life(cluster, server, f"life-{SEED + number}")
    killed: list[str] = []
    try:
        for _ in range(KILLS):
            time.sleep(dice.uniform(3, 12))
            if life.driver.poll() is None:
                killed.append(life.kill(dice))
        life.end()
    except AssertionError as error:
        error.add_note(f"killed: {', '.join(killed)}")
        raise
    finally:
        life.close()
