"""Random lives of a job on a cluster, in which executors, workers, hosts and drivers are killed: nothing is lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.cluster.life import Life

if TYPE_CHECKING:
    from tests.cluster.standalone import Standalone
    from tests.services.s3 import S3Server

pytestmark = [
    *(pytest.mark.spark, pytest.mark.s3, pytest.mark.fault),
    pytest.mark.skipif("PENSTOCK_TEST_LIVES" not in os.environ, reason="takes half a minute a life: for the campaign"),
]

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
LIVES = int(os.environ.get("PENSTOCK_TEST_LIVES", "1"))
TOTAL = 8_000
KILLS = 4


def kill(life: Life, dice: random.Random) -> str:
    """Kill something, and put another one in its place where that does not happen by itself."""
    victim = dice.choice(["executor", "python worker", "host", "driver"])
    host = dice.choice(life.cluster.hosts)
    if victim == "driver":
        life.close()
        life.start()
    elif victim == "host":
        life.cluster.lose_host(host)
        life.cluster.add_host()
    else:
        found = host.executors() if victim == "executor" else host.python_workers()
        for pid in dice.sample(found, min(1, len(found))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return victim


@pytest.mark.parametrize("number", range(LIVES))
def test_life_with_kills_of_all_that_can_be_killed_loses_nothing(
    cluster: Standalone, server: S3Server, number: int
) -> None:
    dice = random.Random(SEED + number)
    life = Life(cluster, server, f"life-{SEED + number}", TOTAL)
    killed: list[str] = []
    try:
        for _ in range(KILLS):
            time.sleep(dice.uniform(3, 12))
            if life.driver.poll() is None:
                killed.append(kill(life, dice))
        life.run_without_pauses()
        life.end()
    except AssertionError as error:
        error.add_note(f"killed: {', '.join(killed)}")
        raise
    finally:
        life.close()
