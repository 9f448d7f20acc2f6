"""Run one program from outside: wall time of the whole process, its result, its load and its workers' memory."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from environments import CACHE, HERE, Environment

SAMPLE_S = 0.05
PROCESSOR_SAMPLE_S = 0.5


class RunError(Exception):
    """A program that timed out, crashed or printed no result."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measured process: start-up, job and shutdown."""

    records: int
    seconds: float
    result: tuple[int, ...]
    load: float
    #: Of all its processes, as far as a look every half second shows it.
    processor_seconds: float = 0.0
    memory: dict[str, int] = field(default_factory=dict[str, int])


def run(
    system: str,
    environment: Environment,
    workload: str,
    records: int,
    options: tuple[str, ...],
    *,
    timeout_s: float,
    sample_memory: bool = False,
) -> Run:
    """Run a program to its end and return what was measured.

    Raises:
        RunError: With the reason, and the log file that has the program's standard error.
    """
    log = CACHE / "logs" / f"{system}-{workload}{''.join('-' + option for option in options)}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [environment.python, HERE / "programs" / f"{system}_programs.py", workload, str(records), *options]
    load = os.getloadavg()[0]
    started = time.perf_counter()
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **environment.variables},
            start_new_session=True,
        ) as process,
    ):
        sampler = MemorySampler(process.pid) if sample_memory else contextlib.nullcontext(None)
        processor = _ProcessorTime(process.pid)
        try:
            with sampler as memory, processor:
                output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            reason = f"{system} {workload} with {records:,} records did not end within {timeout_s:.0f} s"
            raise RunError(reason) from error
        finally:
            _kill_tree(process)
    seconds = time.perf_counter() - started
    last = [line for line in output.splitlines() if "RESULT " in line]
    if process.returncode != 0 or not last:
        reason = f"{system} {workload} with {records:,} records ended with code {process.returncode}, see {log}"
        raise RunError(reason)
    result = tuple(map(int, last[-1].split("RESULT ")[1].split()))
    return Run(records, seconds, result, load, processor.seconds, memory.peaks if memory else {})


@dataclass(frozen=True, slots=True)
class Spent:
    """What a program has taken so far: by the clock, and of the processor with all its processes."""

    seconds: float
    processor_seconds: float

    def since(self, before: "Spent") -> "Spent":
        return Spent(self.seconds - before.seconds, self.processor_seconds - before.processor_seconds)


class Session:
    """A program that does one task after the other and prints a line behind each; what each takes is told.

    Args:
        command: The program.
        variables: Of its environment.
        log: Takes its standard error.
    """

    def __init__(self, command: Sequence[str | Path], variables: dict[str, str], log: Path) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
            env={**os.environ, **variables},
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _kill_tree(self._process)
        self._process.communicate()

    def wait_for(self, number: int, timeout_s: float) -> tuple[bool, Spent]:
        """Return whether a task has ended well, and what the program has taken by then.

        Raises:
            RunError: The program said nothing of it.
        """
        timer = threading.Timer(timeout_s, _kill_tree, [self._process])
        timer.start()
        assert self._process.stdout is not None
        lines = (line.strip() for line in iter(self._process.stdout.readline, ""))
        found = next((line for line in lines if line in (f"DONE {number}", f"FAILED {number}")), None)
        timer.cancel()
        if found is None:
            reason = f"the program ended, or was ended, before its task {number} did, see {self._log}"
            raise RunError(reason)
        pids = (self._process.pid, *_descendants(self._process.pid))
        spent = Spent(time.perf_counter(), sum(map(_ticks, pids)) / os.sysconf("SC_CLK_TCK"))
        return found.startswith("DONE"), spent


def _ticks(pid: int) -> int:
    """Return the processor time of a process and of its children that have ended."""
    try:
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    except OSError:  # it has just ended
        return 0


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    return children


def _descendants(pid: int) -> list[int]:
    children = _children()
    found = [pid]
    for each in found:
        found.extend(children.get(each, ()))
    return found[1:]


def _kill_tree(process: subprocess.Popen[str]) -> None:
    """End what the program started: Spark's and Beam's workers put themselves into process groups of their own."""
    if process.poll() is not None:
        return
    for pid in (*_descendants(process.pid), process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class _Sampler(ABC):
    """Looks at the processes of a program from time to time, on a thread of its own."""

    def __init__(self, pid: int, pause_s: float) -> None:
        self._pid, self._pause_s = pid, pause_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._pause_s):
            self._look([self._pid, *_descendants(self._pid)])

    @abstractmethod
    def _look(self, pids: list[int]) -> None:
        """Take what is wanted of the processes."""


class _ProcessorTime(_Sampler):
    """The processor time of all processes of a program: unlike wall time, it does not grow with other work."""

    def __init__(self, pid: int) -> None:
        super().__init__(pid, PROCESSOR_SAMPLE_S)
        self._ticks: dict[int, int] = {}

    @property
    def seconds(self) -> float:
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def _look(self, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(OSError):  # it has just ended, and what it took by then counts
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                self._ticks[pid] = int(fields[11]) + int(fields[12])


class MemorySampler(_Sampler):
    """Peaks over the Python workers of one program, in bytes, each the greatest of any single worker.

    `private` is RSS - shared: what would be freed if the worker ended. `anonymous` leaves out mapped files (LMDB's
    pages are page cache that the kernel can take back).
    """

    def __init__(self, pid: int) -> None:
        super().__init__(pid, SAMPLE_S)
        self.peaks = {"private": 0, "anonymous": 0, "rss": 0}
        self._workers: set[int] = set()
        self._others: set[int] = set()

    def _look(self, pids: list[int]) -> None:
        for pid in pids:
            if pid not in self._workers and pid not in self._others:
                (self._workers if _is_worker(pid) else self._others).add(pid)
            if pid in self._workers:
                self._read(pid)

    def _read(self, pid: int) -> None:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        except OSError:  # the worker has just ended
            return
        sizes = {name: int(rest.split()[0]) * 1024 for name, rest in (line.split(":") for line in lines)}
        private = sizes["Rss"] - sizes["Shared_Clean"] - sizes["Shared_Dirty"]
        now = {"private": private, "anonymous": min(private, sizes["Pss_Anon"]), "rss": sizes["Rss"]}
        for name, size in now.items():
            self.peaks[name] = max(self.peaks[name], size)


def _is_worker(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
