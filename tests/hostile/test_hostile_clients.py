"""Clients that send garbage, that never end, and that there are too many of: the job in the same process goes on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.endurance.watch import descriptors, private_mib
from tests.fault.job import is_truth, published
from tests.hostile.attack import Attack

from penstock._engine.rest.http import MAX_CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
#: Malformed requests a second; that many are sent on a quiet machine.
RATE = 500
#: A quarter of a second at most on a quiet machine.
GOOD_ANSWER_S = 5
#: What the attack may leave behind: threads that read the dashboard's files, as many as there may be, and memory.
FILE_THREADS = 40
MORE_MIB = 64
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
LIMIT_S = 60

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux to look at a process")


@dataclass
class Victim:
    """The process that is attacked, see ``victim``."""

    process: subprocess.Popen[str]
    directory: Path
    address: str
    job_id: str

    def checkpoint(self) -> int:
        """Return the number of the newest checkpoint."""
        return max(int(path.name[4:]) for path in self.directory.glob("checkpoints/*/chk-*"))

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def pace(self, seconds: float) -> float:
        """Return the checkpoints a second in a time to come."""
        first, start = self.checkpoint(), time.monotonic()
        time.sleep(seconds)
        return (self.checkpoint() - first) / (time.monotonic() - start)


@contextmanager
def victim(directory: Path) -> Iterator[Victim]:
    """Have a process to attack; in the end its job is drained, and what it has written is looked at."""
    with (
        (directory / "log").open("w+") as log,
        subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.victim", str(directory)],
            cwd=directory, env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        ) as process,
    ):  # fmt: skip
        try:
            assert process.stdout
            job_id = process.stdout.readline().strip()
            address = re.search(r"http://(\S+)", (directory / "log").read_text())
            assert address, (directory / "log").read_text()
            yield Victim(process, directory, address.group(1), job_id)
            process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0, (directory / "log").read_text()
        finally:
            process.kill()


def comes_down_to(most: int, look: Callable[[], int]) -> bool:
    """Wait until a figure of a process is not above what it was."""
    end = time.monotonic() + LIMIT_S
    while look() > most and time.monotonic() < end:
        time.sleep(0.1)
    return look() <= most


@pytest.mark.fault
@pytest.mark.parametrize(
    ("quiet_s", "seconds"),
    [pytest.param(3, 5, id="short"), pytest.param(20, 60, id="minute", marks=pytest.mark.endurance)],
)
def test_hostile_clients_cost_the_job_nothing_and_nobody_else_an_answer(
    tmp_path: Path, quiet_s: float, seconds: float
) -> None:
    with victim(tmp_path) as attacked:
        pid = attacked.process.pid
        assert httpx.get(f"http://{attacked.address}/v1/jobs").status_code == 200  # from now on the server is there
        usual = attacked.pace(quiet_s)
        files, threads, memory = descriptors(pid), attacked.threads(), private_mib(pid)
        with Attack(attacked.address, attacked.job_id, RATE, seed=SEED) as attack:
            pace = attacked.pace(seconds)
            most_files, most_memory = descriptors(pid), private_mib(pid)
        seen = attack.seen
        each_s = f"{seen.connections / seconds:.0f} connections/s with {seen.answers.total() / seconds:.0f} requests/s"
        print(f"{each_s}, answers {dict(sorted(seen.answers.items()))}")
        print(
            f"checkpoints/s {usual:.2f}, then {pace:.2f}; {len(seen.good)} good answers, {max(seen.good):.2f} s at most"
        )
        print(f"memory {memory}, then {most_memory} MiB; descriptors {files}, then {most_files}; threads {threads}")

        assert seen.broken == []
        assert seen.answers.total() > RATE * seconds / 10  # of a machine that does other work, too
        assert pace > 0.6 * usual
        assert len(seen.good) > seconds / 2
        assert max(seen.good) < GOOD_ANSWER_S
        assert most_files < files + MAX_CONNECTIONS + 40
        assert comes_down_to(files + 2, lambda: descriptors(pid))
        assert comes_down_to(threads + FILE_THREADS, attacked.threads)
        assert comes_down_to(memory + MORE_MIB, lambda: private_mib(pid))
        assert httpx.get(f"http://{attacked.address}/v1/jobs").status_code == 200
        print(f"afterwards {private_mib(pid)} MiB, {descriptors(pid)} descriptors, {attacked.threads()} threads")
    written = published(tmp_path)
    assert written
    assert is_truth(tmp_path, len(written))
