"""What a batch job with recovery loses with its driver, and what the recovery costs where nothing is lost.

    python benchmarks/recovery.py                               about a quarter of an hour
    python benchmarks/recovery.py --seconds 8 --records 100000 --rounds 1     small

A job of 60 s, once with one long last stage and once with ten short ones, is killed at 90 % of its work and started
again: that may take its start-up and the time of the tasks that had not finished, and 10 % more. Its records take time
and no processor, so other programs on the machine disturb little. The price is the time of a job with real work with
recovery beside that without it, in turns: by the clock, and by the processor time of all its processes, which other
programs disturb less.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any, cast

from figures import Figures

PROGRAM = Path(__file__).parent / "programs" / "penstock_recovery.py"
SLOTS = 2
#: Linux gives children whose parents have died to this process.
_BE_SUBREAPER = 36
KILLED_AT = 0.9


class Run:
    """One process of the job."""

    def __init__(self, place: Path, shape: str, size: int, recovery: str = "on") -> None:
        self.notes = place / "notes"
        self._before = self._named("began")
        self._has_ended, self._cpu_s = threading.Event(), dict[int, float]()
        others = {pid for pid, _ in running_cpu_s()}
        threading.Thread(target=self._watch, args=[others], daemon=True).start()
        self.began_s = time.time()
        command = [sys.executable, str(PROGRAM), str(place), shape, str(size), recovery]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def end(self) -> tuple[float, list[float]]:
        """Wait for the end; return the seconds since the begin, and the figures of the program."""
        told, _ = self.process.communicate()
        if self.process.returncode:
            sys.exit("the job has failed")
        self._has_ended.set()
        return time.time() - self.began_s, [float(figure) for figure in told.split()[-3:]]

    @property
    def whole_cpu_s(self) -> float:
        """The processor time of all processes of the job, but for what each has used since it was last looked at."""
        return sum(self._cpu_s.values())

    def _watch(self, others: set[int]) -> None:
        while not self._has_ended.wait(0.3):
            self._cpu_s.update({pid: used_s for pid, used_s in running_cpu_s() if pid not in others})

    def kill(self) -> None:
        if self.process.poll() is not None:
            sys.exit("the job has ended before its kill")
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        self._has_ended.set()

    @property
    def start_up_s(self) -> float | None:
        """The time to the first task."""
        first = min((at for name, at in self._named("began").items() if name not in self._before), default=None)
        return None if first is None else first - self.began_s

    @property
    def last_end_s(self) -> float:
        """The time until the last task has come to its end."""
        return max(self._named("ended").values()) - self.began_s

    def tasks(self) -> dict[str, float]:
        """Return the times of the tasks that have come to their end, by stage and subtask."""
        began, ended = self._named("began"), self._named("ended")
        return {name.rpartition("-")[0]: ended[name] - began[name] for name in ended}

    def work_s(self, whole: dict[str, float]) -> float:
        """Return the time of the tasks so far, by the times that they took in another run."""
        began, ended, now_s = self._named("began"), self._named("ended"), time.time()
        parts = {name: whole[name.rpartition("-")[0]] for name in began}
        return sum(part if name in ended else min(part, now_s - began[name]) for name, part in parts.items())

    def _named(self, end: str) -> dict[str, float]:
        paths = self.notes.glob(f"*-{end}") if self.notes.exists() else ()
        return {path.name.removesuffix(f"-{end}"): path.stat().st_mtime for path in paths}


def running_cpu_s() -> list[tuple[int, float]]:
    """Return the processor times so far of the processes that this one has started, and of those that they have."""
    parents, used_s = dict[int, int](), dict[int, float]()
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = place.read_text().rpartition(")")[2].split()
            pid = int(place.parent.name)
            parents[pid] = int(fields[1])
            used_s[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return [(pid, used_s[pid]) for pid in found - {os.getpid()}]


def restart(figures: Figures, shape: str, seconds: int) -> None:
    """Kill a job, start it again, and compare what that takes with what it may take."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        whole = Run(Path(scratch) / "whole", shape, seconds)
        whole_s, _ = whole.end()
        start_up_s, tasks = whole.start_up_s or 0.0, whole.tasks()
        killed = Run(Path(scratch) / "killed", shape, seconds)
        while killed.work_s(tasks) < KILLED_AT * sum(tasks.values()):
            time.sleep(0.1)
        killed.kill()
        done = killed.tasks()
        again = Run(Path(scratch) / "killed", shape, seconds)
        again_s, _ = again.end()
        its_start_up_s, its_end_s = again.start_up_s or 0.0, again_s - again.last_end_s
    unfinished_s = sum(taken for name, taken in tasks.items() if name not in done) / SLOTS
    may_s = 1.1 * (start_up_s + unfinished_s)
    value = f"{again_s:.1f} s of {whole_s:.1f} s; start-up {start_up_s:.1f} s, unfinished tasks {unfinished_s:.1f} s; "
    value += f"of the restart until its first task {its_start_up_s:.1f} s, behind its last one {its_end_s:.1f} s"
    figures.add(f"{shape}: restart after a kill at 90 %", value, f"{may_s:.1f} s", met=again_s <= may_s)


def price(figures: Figures, records: int, rounds: int) -> None:
    """Run a job with recovery and without it in turns."""
    times, processor, own, waits = list[float](), list[float](), list[float](), list[float]()
    lasted, whole = list[float](), list[float]()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        for number in range(rounds):
            off = Run(Path(scratch) / f"{number}-off", "work", records, "off")
            off_s, (off_cpu, _, _) = off.end()
            whole_off = off.whole_cpu_s
            on = Run(Path(scratch) / f"{number}-on", "work", records, "on")
            on_s, (on_cpu, store_cpu, wait_ms) = on.end()
            whole_on = on.whole_cpu_s
            whole.append(whole_on / whole_off)
            lasted.append(off_s)
            told = (
                f"{on_s:.0f} s with recovery beside {off_s:.0f} s, processor {whole_on:.0f} s beside {whole_off:.0f} s"
            )
            print(f"round {number + 1}: {told}", flush=True)
            times.append(on_s / off_s)
            processor.append(on_cpu / off_cpu)
            own.append(store_cpu / on_cpu)
            waits.append(wait_ms)
    told = ", ".join(f"{ratio:.2f}" for ratio in times)
    what = f"switched on beside off, {records:,} records, {median(lasted):.0f} s"
    figures.add(what, f"{told} x the time", "1.3", met=median(times) <= 1.3)
    figures.add("the same, processor time of all processes", ", ".join(f"{ratio:.2f} x" for ratio in whole))
    figures.add("the same, of the driver's process", f"{median(processor):.2f} x")
    figures.add("event store's threads, of that", f"{100 * median(own):.2f} %", "1 %", met=median(own) <= 0.01)
    figures.add("longest time that the main loop gives to the store", f"{max(waits):.2f} ms")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60, help="of the jobs that are killed; 0 for none")
    parser.add_argument("--records", type=int, default=4_000_000, help="of each source of the job with real work")
    parser.add_argument("--rounds", type=int, default=3, help="of the job with real work; 0 for none")
    options = parser.parse_args()
    cast("Any", ctypes.CDLL(None)).prctl(_BE_SUBREAPER, 1)  # then each process of a job is found
    figures = Figures("Recovery of batch jobs")
    for shape in ("long", "short") if options.seconds else ():
        restart(figures, shape, options.seconds)
    if options.rounds:
        price(figures, options.records, options.rounds)
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())
