"""Clients that send garbage, that never end, and that there are too many of: the job in the same process goes on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.endurance.watch import private_mib
from tests.fault.job import is_truth, published
from tests.fault.processes import descendants
from tests.hostile.attack import PATIENCE_S
from tests.hostile.victim import PER_SECOND_ON_SPARK

from penstock._engine.rest.http import MAX_CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
#: The bar is 500 malformed requests a second. So many are sent, because some are not taken for malformed.
RATE = 700
BAR = 500
#: Seconds and checkpoints of an attack beside other tests. An eighth of a processor refuses some 50 requests a second,
#: and the job in the same process gets what is left: what pace it keeps is asked on a machine of its own.
SHORT_S, CHECKPOINTS = 5, 10
#: What the job keeps of its pace: of the records that its source has for each second (it catches up after slow epochs,
#: so that for a while there may be more), and of the checkpoints that it made before.
OF_RECORDS, OF_CHECKPOINTS = 0.9, 0.6
#: A quarter of a second at most on a quiet machine. Nowhere does a good client wait behind the attack of so long.
GOOD_ANSWER_S = 5
#: What the attack may leave behind: threads that read the dashboard's files, as many as there may be, and memory.
FILE_THREADS = 40
MORE_MIB = 64
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
LIMIT_S = 90

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux to look at a process")


@dataclass(frozen=True)
class Course:
    """How a job and a good client fared for a while."""

    records: float
    checkpoints: float
    #: Seconds that each request of the good client took.
    good: list[float]
    #: Cores that the driver's process took, and those that it had started: Java and the workers.
    driver: float
    spark: float

    def __str__(self) -> str:
        good = f"{len(self.good)} good answers within {max(self.good):.2f} s"
        cores = f"{self.driver:.2f} cores of the driver, {self.spark:.2f} of Spark"
        return f"{self.records:.0f} records/s, {self.checkpoints:.2f} checkpoints/s, {good}, {cores}"


@dataclass
class Victim:
    """The process that is attacked, see ``victim``."""

    process: subprocess.Popen[str]
    directory: Path
    address: str
    job_id: str

    def ask(self, path: str) -> Any:
        """Send a request on a connection of its own."""
        answer = httpx.get(f"http://{self.address}/v1{path}", timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def checkpoint(self) -> int:
        """Return the number of the newest checkpoint."""
        return max((int(path.name[4:]) for path in self.directory.glob("checkpoints/*/chk-*")), default=0)

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def course(self, seconds: float, checkpoints: int = 0) -> Course:
        """Watch as a good client for a while, and until the job has made so many checkpoints."""
        first, start = (self._records(), self.checkpoint(), *self._cpu()), time.monotonic()
        good: list[float] = []
        while time.monotonic() < start + seconds or self.checkpoint() < first[1] + checkpoints:
            assert time.monotonic() < start + seconds + LIMIT_S, "the job does not go on"
            time.sleep(0.25)
            begin = time.monotonic()
            self._records()
            good.append(time.monotonic() - begin)
        last, took = (self._records(), self.checkpoint(), *self._cpu()), time.monotonic() - start
        records, checkpoints, driver, spark = (
            (after - before) / took for before, after in zip(first, last, strict=True)
        )
        return Course(records, checkpoints, good, driver, spark)

    def _records(self) -> int:
        job = self.ask(f"/jobs/{self.job_id}")
        assert job["state"] == "RUNNING"
        return job["vertices"][0]["metrics"]["write-records"]

    def _cpu(self) -> tuple[float, float]:
        pid = self.process.pid
        return cpu_seconds(pid), sum(map(cpu_seconds, descendants(pid)))


@contextmanager
def victim(directory: Path, *options: str) -> Iterator[Victim]:
    """Have a process to attack; in the end its job is drained, and what it has written is looked at."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    with (
        (directory / "log").open("w+") as log,
        subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.victim", str(directory), *options],
            cwd=directory, env={**environment, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        ) as process,
    ):  # fmt: skip
        try:
            assert process.stdout
            job_id = process.stdout.readline().strip()
            log_text = (directory / "log").read_text
            assert comes_to(lambda: "http://" in log_text()), log_text()
            address = re.search(r"http://(\S+)", log_text())
            assert address
            attacked = Victim(process, directory, address.group(1), job_id)
            assert comes_to(lambda: attacked.checkpoint() > 2)
            yield attacked
            process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0, (directory / "log").read_text()
        finally:
            process.kill()
    assert "ERROR" not in (directory / "log").read_text()
    written = published(directory)
    assert written
    assert is_truth(directory, len(written))


@contextmanager
def attack(attacked: Victim) -> Iterator[dict[str, Any]]:
    """Attack from another process meanwhile; what came of it is there afterwards."""
    seen: dict[str, Any] = {}
    arguments = [attacked.address, attacked.job_id, RATE, RATE, SEED]
    command = [sys.executable, "-m", "tests.hostile.attack", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield seen
            printed, _ = process.communicate(timeout=2 * LIMIT_S)
            assert process.returncode == 0
            seen.update(json.loads(printed))
        finally:
            process.kill()


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has taken; 0 for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def held(pid: int, directory: Path) -> int:
    """Return how many descriptors a process has, but for the files of its job, which opens its state when it likes."""
    count = 0
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # it has just been closed
            count += not path.readlink().is_relative_to(directory)
    return count


def comes_to(look: Callable[[], bool]) -> bool:
    """Wait until something about a process is so."""
    end = time.monotonic() + LIMIT_S
    while not look() and time.monotonic() < end:
        time.sleep(0.1)
    return look()


def refused(seen: dict[str, Any]) -> int:
    """Return how many requests were answered by a refusal, or by an end of the connection."""
    answers = sum((Counter(each) for each in seen["answers"].values()), Counter[str]())
    return sum(number for code, number in answers.items() if not code.startswith(("2", "3")))


def report(seen: dict[str, Any]) -> None:
    total, seconds = sum(seen["sent"].values()), seen["seconds"]
    print(f"{total / seconds:.0f} requests/s on {seen['connections'] / seconds:.0f} new connections/s", end=", ")
    print(f"{refused(seen) / seconds:.0f} refused, {seen['cpu_seconds'] / seconds:.2f} cores of the attackers")
    for kind, number in sorted(seen["sent"].items(), key=lambda entry: -entry[1]):
        print(f"{number:8} {kind}: {dict(sorted(seen['answers'][kind].items()))}")


def under_attack(attacked: Victim, seconds: float, checkpoints: int = 0) -> tuple[dict[str, Any], Course]:
    """Attack a job while it is watched, and look that the server withstands it and the job does not notice."""
    pid, directory = attacked.process.pid, attacked.directory
    files, threads, memory = held(pid, directory), attacked.threads(), private_mib(pid)
    with attack(attacked) as seen:
        course = attacked.course(seconds, checkpoints)
        most_files, most_memory = held(pid, directory), private_mib(pid)
    print(f"meanwhile: {course}")
    print(f"memory {memory}, then {most_memory} MiB; descriptors {files}, then {most_files}; threads {threads}")
    report(seen)

    assert seen["broken"] == []
    assert max(course.good) * sum(seen["sent"].values()) / seen["seconds"] < GOOD_ANSWER_S * RATE
    assert comes_to(lambda: held(pid, directory) <= files + 2)
    assert comes_to(lambda: attacked.threads() <= threads + FILE_THREADS)
    assert comes_to(lambda: private_mib(pid) <= memory + MORE_MIB)
    assert attacked.ask(f"/jobs/{attacked.job_id}/exceptions")["exceptionHistory"]["entries"] == []
    assert attacked.ask(f"/jobs/{attacked.job_id}/checkpoints")["counts"]["restored"] == 0
    print(f"afterwards {private_mib(pid)} MiB, {held(pid, directory)} descriptors, {attacked.threads()} threads")
    return {**seen, "descriptors": most_files - files}, course


@pytest.mark.fault
def test_job_goes_on_though_hostile_clients_ask_for_all_that_a_machine_has(tmp_path: Path) -> None:
    with victim(tmp_path) as attacked:
        seen, course = under_attack(attacked, SHORT_S, CHECKPOINTS)
        assert refused(seen) > BAR
        # A turn of the server's loop accepts as many connections as may wait, before it closes as many.
        assert seen["descriptors"] < 2 * MAX_CONNECTIONS + FILE_THREADS
        assert course.records > 0


@pytest.mark.endurance
@pytest.mark.fault
@pytest.mark.spark
def test_hostile_clients_cost_a_job_nothing_and_nobody_else_an_answer(tmp_path: Path) -> None:
    with victim(tmp_path, "--spark") as attacked:
        usual = attacked.course(30)
        seen, course = under_attack(attacked, 60)
        print(f"before: {usual}\nafterwards: {attacked.course(30)}")
        assert refused(seen) > BAR * seen["seconds"]
        assert course.records > OF_RECORDS * min(PER_SECOND_ON_SPARK, usual.records)
        assert course.checkpoints > OF_CHECKPOINTS * usual.checkpoints
        assert len(course.good) > 30
        assert max(course.good) < GOOD_ANSWER_S
        assert seen["descriptors"] < MAX_CONNECTIONS + FILE_THREADS
