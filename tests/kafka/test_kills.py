"""SIGKILL of a job from Kafka to Kafka, at each step of its sink and at random moments: each record is there once."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest
from tests.fault.job import are_truth
from tests.fault.support import PATIENCE_S, Driver
from tests.kafka.job import PARTITIONS, Route

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fault.support import Run
    from tests.kafka.conftest import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.fault]

KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "2"))
#: One life after the other: what kills it, in the order of the protocol. The first commit of a life is that of the
#: checkpoint which the one before it left.
STEPS = (
    "stage-3-after",
    "publish-2-before",
    "produce-2-after",
    "committing_a_transaction-2-after",
    "put_chain_entry-4-after",
)
#: In the campaign.
MORE_STEPS = (
    "take_over-1-after",
    "adding_the_checkpoint-2-after",
    "committing_a_transaction-2-before",
    "put_chain_entry-4-before",
)
NUMBERS = 5000
#: How long a life is at most behind its first checkpoint; it reads some thousand numbers in that time.
LIFE_S = 0.5
NUMBERS_OF_A_LIFE = 4000


class Lives:
    """Runs one job again and again.

    Args:
        topics: The broker's.
        directory: Where its checkpoints lie.
        count: How many numbers it has to read.
    """

    def __init__(self, topics: Topics, directory: Path, count: int) -> None:
        self._topics, self._directory, self._count = topics, directory, count
        self._route = Route(topics.bootstrap, topics.new(PARTITIONS), topics.new(2))
        topics.fill(self._route.numbers, [str(number) for number in range(count)])

    def driver(self, *options: str) -> Driver:
        route = self._route
        places = (route.bootstrap, route.numbers, route.counts)
        (self._directory / "points").unlink(missing_ok=True)
        return Driver(self._directory, *places, *options, program="tests.kafka.killed_job")

    def points(self) -> str:
        path = self._directory / "points"
        return path.read_text() if path.exists() else ""

    def counts(self, *, has_open: bool = False) -> list[str]:
        return self._topics.values(self._route.counts, 2, has_open=has_open)

    def has_open_transaction(self) -> bool:
        return self._topics.has_open_transaction(self._route.counts, 2)

    def killed(self, ended: Run) -> None:
        """Check how a life ended: by the kill, and with nothing twice."""
        assert ended.was_killed, f"{ended.log}\n{self.points()}"
        found = self.counts(has_open=True)
        assert len(found) == len(set(found))

    def finish(self) -> None:
        """Run the job to its end, and compare its topic with the truth."""
        with self.driver("--records", "4000") as driver:
            ended = driver.end()
        assert ended.has_finished, ended.log
        assert are_truth(self.counts(), self._count)


@pytest.mark.behaviour(124)
def test_a_job_that_is_killed_at_each_step_of_its_sink_has_written_each_record_once(
    topics: Topics, tmp_path: Path
) -> None:
    lives = Lives(topics, tmp_path, NUMBERS)
    for step in (*STEPS, *(MORE_STEPS if KILLS > 2 else ())):
        with lives.driver("--kill", step) as driver:
            lives.killed(driver.end())
        if step in {"produce-2-after", *MORE_STEPS[1:3]}:
            assert lives.has_open_transaction(), step
    lives.finish()


def test_a_job_that_is_killed_at_random_moments_has_written_each_record_once(topics: Topics, tmp_path: Path) -> None:
    rng = random.Random(int(os.environ.get("PENSTOCK_TEST_SEED", "20171")))
    lives = Lives(topics, tmp_path, KILLS * NUMBERS_OF_A_LIFE)
    for _ in range(KILLS):
        with lives.driver() as driver:
            deadline = time.monotonic() + PATIENCE_S
            while "committing_a_transaction-1-after" not in lives.points():
                assert driver.process.poll() is None, driver.end().log
                assert time.monotonic() < deadline, "the job committed nothing"
                time.sleep(0.02)
            time.sleep(rng.uniform(0, LIFE_S))
            driver.process.kill()
            lives.killed(driver.end())
    lives.finish()
