"""Kafka, PostgreSQL and files as sinks of one job: after kills of the job, the broker and the database all agree.

Three kills in ``make test``; the campaign kills twenty times, also on Spark.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.fault.job import are_truth, published
from tests.fault.processes import Watched, descendants
from tests.kafka.conftest import Topics, need_kafka
from tests.kafka.job import PARTITIONS, Route
from tests.postgres.conftest import new_server
from tests.services.kafka import new_server as new_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.services.kafka import KafkaServer
    from tests.services.postgres import PostgresServer

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.postgres,
    pytest.mark.fault,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux to look at foreign processes"),
]

KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "3"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "21"))
ON_SPARK = "PENSTOCK_TEST_ON_SPARK" in os.environ
ROOT = Path(__file__).parents[2]
#: Longest wait for a sign of life; all processes of a job are gone so long after they were killed.
PATIENCE_S, END_S = 240, 10
#: How long a life is at most once it has written something.
LIFE_S = 1.0


@pytest.fixture
def broker() -> Iterator[KafkaServer]:
    need_kafka()
    with new_broker() as server:
        yield server


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    with new_server() as server:
        server.run("CREATE TABLE counts (line text)")
        yield server


class Feeder(threading.Thread):
    """Writes numbers into the topic from 0 on until it is stopped, each once."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": "2"})
        self._topic, self._over = topic, threading.Event()
        self.written = 0

    def run(self) -> None:
        while not self._over.wait(0.02):
            for _ in range(10):
                self._producer.produce(self._topic, str(self.written), str(self.written))
                self.written += 1
            self._producer.poll(0)
        assert self._producer.flush(PATIENCE_S) == 0
        self._producer.close()

    def end(self) -> int:
        """Stop, and return how many numbers there are."""
        self._over.set()
        self.join()
        return self.written


class Life:
    """One process of the job; what is left of it behind a ``with`` is killed."""

    def __init__(self, directory: Path, *words: str) -> None:
        self._directory = directory
        with (directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.together.three_sinks", str(directory), *words],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *_: object) -> None:
        watched = Watched(descendants(self.process.pid))
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert watched.still_alive_after(END_S) == []

    def checkpoints(self) -> set[Path]:
        return set(self._directory.glob("checkpoints/*/chk-*/_metadata"))

    def wait(self, until: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            log = (self._directory / "log").read_text(errors="replace")
            assert self.process.poll() is None, log[-4000:]
            assert time.monotonic() < deadline, log[-4000:]
            time.sleep(0.05)


class Outputs:
    """What readers see of the three."""

    def __init__(self, topics: Topics, route: Route, database: PostgresServer, directory: Path) -> None:
        self._topics, self._route, self._database, self._directory = topics, route, database, directory

    def of_kafka(self, *, has_open: bool = False) -> list[str]:
        return self._topics.values(self._route.counts, 2, has_open=has_open)

    def of_postgres(self) -> list[str]:
        return [line for (line,) in self._database.rows("SELECT line FROM counts")]

    def of_files(self) -> list[str]:
        return published(self._directory)

    def check_each_once(self) -> None:
        """Nothing is there twice, while a life that was killed may have left a transaction open."""
        outputs = {"Kafka": self.of_kafka(has_open=True), "PostgreSQL": self.of_postgres(), "files": self.of_files()}
        for name, lines in outputs.items():
            assert len(lines) == len(set(lines)), name

    def have(self, count: int) -> bool:
        """Tell whether all have so many lines."""
        outputs = self.of_files, self.of_postgres, partial(self.of_kafka, has_open=True)
        return all(len(lines()) >= count for lines in outputs)


@pytest.mark.behaviour(124)
def test_three_sinks_of_one_job_hold_the_same_truth_after_kills_of_all(
    broker: KafkaServer, database: PostgresServer, tmp_path: Path
) -> None:
    dice, topics = random.Random(SEED), Topics(broker.bootstrap)
    route = Route(broker.bootstrap, topics.new(PARTITIONS), topics.new(2))
    outputs = Outputs(topics, route, database, tmp_path)
    words = [broker.bootstrap, route.numbers, route.counts, database.url, *(["--spark"] if ON_SPARK else [])]
    faults = {KILLS // 3: (broker.kill, broker.start), 2 * KILLS // 3: (database.crash, database.start)}
    feeder = Feeder(broker.bootstrap, route.numbers)
    feeder.start()
    try:
        for number in range(KILLS):
            before = len(outputs.of_postgres())
            with Life(tmp_path, *words) as life:
                life.wait(lambda before=before: len(outputs.of_postgres()) > before)
                for act in faults.get(number, ()):
                    act()
                    time.sleep(dice.uniform(0, LIFE_S))
                time.sleep(dice.uniform(0, LIFE_S))
            outputs.check_each_once()
    finally:
        total = feeder.end()
    with Life(tmp_path, *words) as life:
        life.wait(lambda: outputs.have(total))
        before = life.checkpoints()
        life.wait(lambda: life.checkpoints() - before)  # nothing comes behind the last record
    found = sorted(outputs.of_kafka())
    assert are_truth(found, total)
    assert found == sorted(outputs.of_postgres()) == sorted(outputs.of_files())
