"""The example of orders from Kafka and sums in Elasticsearch: killed and started again, the sums are right.

In ``make test`` the lives that are killed run in a process of their own and the last one on Spark; in the campaign all
run on Spark.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

import pytest
from tests.fault.processes import Watched, descendants
from tests.search.conftest import require_servers
from tests.services import search
from tests.services.process import free_port

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "orders"
KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "3"))
ALL_ON_SPARK = "PENSTOCK_TEST_ON_SPARK" in os.environ
#: Written before the job starts, and after each kill.
ORDERS = 5_000
#: All processes of a job are gone so long after they were killed; longest wait for a sign of life.
END_S, PATIENCE_S = 10, 240

pytestmark = [pytest.mark.search, pytest.mark.kafka, pytest.mark.spark, pytest.mark.fault]


@pytest.fixture
def servers() -> Iterator[tuple[str, search.Cluster]]:
    """The servers of the command that the example's README names, and how that ends."""
    require_servers()
    ports = free_port(), free_port()
    command = [sys.executable, "-m", "tests.services.servers", *map(str, ports)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(3)]
        assert said[-1] == "Ctrl-C ends both.\n", said
        yield f"localhost:{ports[0]}", search.Cluster(f"http://127.0.0.1:{ports[1]}")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


class Job:
    """The example as users start it, in processes of its own."""

    def __init__(self, place: Path, kafka: str, address: str) -> None:
        self._place = place
        settings = {
            "execution.checkpointing.dir": place / "checkpoints",
            "execution.checkpointing.interval": "300 ms",
            "parallelism.default": "2",
        }
        words = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
        self._command = ["run", *words, "-s", "latest", "--allow-first-start", str(EXAMPLE / "job.py"), kafka, address]

    def checkpoints(self) -> set[Path]:
        return set(self._place.glob("checkpoints/*/chk-*/_metadata"))

    def log(self) -> str:
        return (self._place / "log").read_text()

    def start(self, *, on_spark: bool) -> subprocess.Popen[bytes]:
        program = ["penstock"] if on_spark else ["tests.search.penstock_without_spark", str(self._place)]
        with (self._place / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *program, *self._command],
                cwd=self._place,
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_for(self, process: subprocess.Popen[bytes], seen: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not seen():
            assert process.poll() is None, self.log()
            assert time.monotonic() < deadline, f"nothing is seen:\n{self.log()[-3000:]}"
            time.sleep(0.05)


def kill(process: subprocess.Popen[bytes]) -> None:
    watched = Watched(descendants(process.pid))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert watched.still_alive_after(END_S) == []


def write_orders(kafka: str, seed: int) -> Counter[str]:
    """Write orders as users do."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        import orders
    finally:
        sys.path.remove(str(EXAMPLE))
    return orders.write(ORDERS, kafka, seed)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux to look at foreign processes")
def test_sums_are_the_truth_after_the_job_was_killed_three_times(
    tmp_path: Path, servers: tuple[str, search.Cluster]
) -> None:
    kafka, elasticsearch = servers
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", "20131"))
    dice = random.Random(seed)
    truth = write_orders(kafka, seed)
    job = Job(tmp_path, kafka, elasticsearch.url)
    for number in range(KILLS):
        before, counted = job.checkpoints(), count(elasticsearch)
        process = job.start(on_spark=ALL_ON_SPARK)
        job.wait_for(process, lambda before=before: job.checkpoints() - before)
        job.wait_for(process, lambda counted=counted: count(elasticsearch) > counted)
        truth += write_orders(kafka, seed + number + 1)
        time.sleep(dice.uniform(0.0, 1.0))
        kill(process)

    process = job.start(on_spark=True)
    job.wait_for(process, lambda: sums(elasticsearch) == truth)
    before = job.checkpoints()
    job.wait_for(process, lambda: job.checkpoints() - before)
    kill(process)
    assert sums(elasticsearch) == truth
    assert count(elasticsearch) == ORDERS * (KILLS + 1)


def sums(elasticsearch: search.Cluster) -> dict[str, int]:
    return {name: one["cents"] for name, one in found(elasticsearch).items()}


def count(elasticsearch: search.Cluster) -> int:
    return sum(one["orders"] for one in found(elasticsearch).values())


def found(elasticsearch: search.Cluster) -> dict[str, Any]:
    """Return what is in the index; nothing while the cluster makes it."""
    try:
        return elasticsearch.documents("revenue")
    except HTTPError as error:
        error.close()
        if error.code != 503:
            raise
        return {}
