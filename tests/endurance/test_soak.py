"""A soak: a job from Kafka to Kafka and files that is killed every four minutes, and then runs without a kill.

``PENSTOCK_SOAK_S`` seconds of events, of which the first half has the kills. Its notes (a line of JSON each ten
seconds), the drawing and the figures are in ``.campaign/soak``, or where ``PENSTOCK_SOAK_OUT`` says.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.endurance import soak_report
from tests.endurance.program_notes import Look, add_live_heap, ask, processes, size_of
from tests.endurance.soak_events import PARTITIONS, events, truth
from tests.fault.job import published
from tests.fault.processes import kill
from tests.kafka.conftest import Topics, need_kafka
from tests.services.kafka import new_server as new_broker
from tests.services.process import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.services.kafka import KafkaServer

pytestmark = [
    pytest.mark.endurance,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.skipif("PENSTOCK_SOAK_S" not in os.environ, reason="takes PENSTOCK_SOAK_S seconds: for the campaign"),
]

ROOT = Path(__file__).parents[2]
SOAK_S = float(os.environ.get("PENSTOCK_SOAK_S", "7200"))
KILL_EVERY_S = float(os.environ.get("PENSTOCK_SOAK_KILL_S", "240"))
RATE = int(os.environ.get("PENSTOCK_SOAK_RATE", "1000"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
OUT = Path(os.environ.get("PENSTOCK_SOAK_OUT", ROOT / ".campaign" / "soak"))
LOOK_S = 10
#: What lives in the JVM's heap is seen at each so many looks; it has to collect its garbage for that.
HEAP_LOOKS = 6
#: The other tests have no server.
REST = {"PENSTOCK_REST__ENABLED": "true"}
#: Longest wait for a sign of life, and for the end of all processes of a job that was killed.
PATIENCE_S, END_S = 240, 20
#: The bars of a soak that is long enough for them: MB an hour, and how many times as much at the end.
BARS = {
    **{f"{what}, {where}, MB/h": 10 for what in soak_report.MEMORY for where in ("over lives", "within a life")},
    **{f"{what}, times": 1.5 for what in ("epochs", "checkpoints")},
}


@pytest.fixture
def broker() -> Iterator[KafkaServer]:
    need_kafka()
    with new_broker() as server:
        yield server


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name: sockets are below it."""
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as name:
        yield Path(name)


class Soak:
    """The lives of the job, and the looks at them.

    Args:
        place: Has all that the job writes.
        words: Of the job's command.
    """

    def __init__(self, place: Path, words: list[str]) -> None:
        self._place, self._words = place, words
        self._start, self._life = time.monotonic(), 0
        (place / "tmp").mkdir()
        OUT.mkdir(parents=True, exist_ok=True)
        self.notes = OUT / "notes.jsonl"
        self.notes.write_text("")

    def looks(self) -> list[Look]:
        return [json.loads(line) for line in self.notes.read_text().splitlines()]

    def at_s(self) -> float:
        return time.monotonic() - self._start

    def live(self, until: Callable[[float], bool], *, is_noted: bool = True) -> None:
        """Start the job, look at it until an answer about its age is yes, and kill its driver.

        All that the driver has started must end by itself.

        Args:
            until: Is asked each ten seconds.
            is_noted: Whether the looks are kept.
        """
        self._life += 1
        port, began = free_port(), time.monotonic()
        process = self._started(port)
        try:
            before, seen, asked = self._newest(), 0, began
            while not until(time.monotonic() - began):
                assert process.poll() is None, self._log()
                asked += LOOK_S
                time.sleep(max(0.0, asked - time.monotonic()))
                durations = _epochs(port, seen)
                seen = max([seen, *durations])
                if is_noted:
                    self._look(process.pid, time.monotonic() - began, list(durations.values()))
                assert self._newest() > before or time.monotonic() < began + PATIENCE_S, self._log()
        finally:
            left = kill(process, END_S)
        assert left == []

    def _started(self, port: int) -> subprocess.Popen[bytes]:
        path = f"{ROOT}:{ROOT / 'src'}"
        with (self._place / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.endurance.soak_job", str(self._place), *self._words, str(port)],
                cwd=ROOT, env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(self._place / "tmp"), **REST},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _look(self, pid: int, age_s: float, durations: list[int]) -> None:
        kib, files = size_of(self._place / "checkpoints")
        scratch_kib, scratch_files = size_of(self._place / "tmp")
        look: Look = {
            "at_s": round(self.at_s(), 1),
            "life": self._life,
            "age_s": round(age_s, 1),
            "processes": processes(pid),
            "epochs_ms": durations,
            "checkpoint_kib": kib,
            "checkpoint_files": files,
            "scratch_kib": scratch_kib,
            "scratch_files": scratch_files,
            "load": os.getloadavg()[0],
        }
        if age_s // LOOK_S % HEAP_LOOKS == 0:
            add_live_heap(look)
        with self.notes.open("a") as notes:
            print(json.dumps(look), file=notes)

    def _newest(self) -> int:
        return max((int(path.name[4:]) for path in self._place.glob("checkpoints/*/chk-*")), default=0)

    def _log(self) -> str:
        return (self._place / "log").read_text(errors="replace")[-4000:]


def _epochs(port: int, seen: int) -> dict[int, int]:
    """Ask a job for its checkpoints behind one that was seen: the milliseconds of each."""
    with contextlib.suppress(OSError):  # its server is not there yet
        for job in ask(port, "jobs")["jobs"]:
            history = ask(port, f"jobs/{job['id']}/checkpoints")["history"]
            return {
                one["id"]: one["end_to_end_duration"]
                for one in history
                if one["status"] == "COMPLETED" and one["id"] > seen
            }
    return {}


def start_producer(bootstrap: str, topic: str) -> subprocess.Popen[str]:
    """Start the program that writes the events."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.endurance.soak_producer", bootstrap, topic, *map(str, (SEED, RATE, SOAK_S))],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def same(found: list[str], expected: list[str]) -> None:
    """Check that each line is there once."""
    missing, more = Counter(expected), Counter(found)
    missing.subtract(more)
    wrong = {line: -times for line, times in missing.items() if times}
    assert not wrong, f"{len(wrong)} lines are too often (+) or missing (-): {list(wrong.items())[:5]}"


class Complete:
    """Tells whether the files have as many lines as the events that a producer has written make.

    Args:
        producer: Prints their number when it ends.
        place: What the job writes is below it.
    """

    def __init__(self, producer: subprocess.Popen[str], place: Path) -> None:
        self._producer, self._place = producer, place
        self.count, self.expected = 0, list[str]()

    def __call__(self, _: float) -> bool:
        if self._producer.poll() is None:
            return False
        if not self.expected:
            assert self._producer.returncode == 0
            self.count = int(self._producer.communicate()[0])
            self.expected = list(truth(itertools.islice(events(SEED), self.count)))
        return len(published(self._place)) >= len(self.expected)


@pytest.mark.behaviour(124)
def test_a_job_that_is_killed_again_and_again_loses_nothing_and_does_not_grow(broker: KafkaServer, place: Path) -> None:
    topics = Topics(broker.bootstrap)
    topic, into = topics.new(PARTITIONS), topics.new(2)
    soak = Soak(place, [broker.bootstrap, topic, into])
    producer = start_producer(broker.bootstrap, topic)
    complete = Complete(producer, place)
    try:
        while soak.at_s() < SOAK_S / 2:
            soak.live(lambda age_s: age_s >= KILL_EVERY_S)
        soak.live(complete)
    finally:
        producer.kill()
        producer.wait()
    soak.live(lambda age_s: age_s > 3 * LOOK_S, is_noted=False)  # one more start brings nothing more
    same(published(place), complete.expected)
    same(topics.values(into, 2), complete.expected)

    (OUT / "soak.svg").write_text(soak_report.draw(soak.looks()))
    found = {"events": complete.count, "results": len(complete.expected), **soak_report.figures(soak.looks())}
    (OUT / "figures.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))
    if max(soak_report.LEAST_S, soak_report.LEAST_LIVES * (KILL_EVERY_S + END_S)) <= SOAK_S / 2:
        wrong = [name for name, bar in BARS.items() if (value := found[name]) is None or value > bar]
        assert not wrong, found
