"""Measure the queries of Nexmark on Penstock, and beside it on PyFlink, Bytewax, Spark and in plain Python.

    python benchmarks/nexmark/run.py                              all queries beside PyFlink's thread mode and the floor
    python benchmarks/nexmark/run.py --only q5,q7 --systems pyflink-process --pairs 3
    python benchmarks/nexmark/run.py --quick                      each program once with few events: is all right?

Each run is added to `.bench/nexmark/runs.jsonl`; `report.py` makes the table and the chart of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import events as nexmark_events  # noqa: E402 - behind the path
import truth  # noqa: E402
from environments import CACHE, prepare  # noqa: E402
from measure import RunError, Session, Spent  # noqa: E402

FOLDER = CACHE / "nexmark"
RUNS = FOLDER / "runs.jsonl"
QUICK = 20_000


class System(NamedTuple):
    """How the programs of a system are started."""

    #: Its environment's name.
    environment: str
    #: The events of the smaller and of the larger run.
    sizes: tuple[int, int]
    #: What follows Python in the command; a folder, the mode and the tasks come behind it.
    program: tuple[str, ...]
    mode: str = "-"
    queries: tuple[str, ...] = tuple(truth.TRUTHS)


SYSTEMS = {
    "penstock": System("penstock", (200_000, 600_000), ("-m", "queries")),
    "plain": System("plain", (200_000, 600_000), (str(HERE / "plain.py"),)),
    "pyflink-thread": System("pyflink", (100_000, 300_000), ("-m", "queries"), "thread"),
    "pyflink-process": System("pyflink", (100_000, 300_000), ("-m", "queries"), "process"),
    "bytewax": System("bytewax", (100_000, 300_000), (str(HERE / "bytewax_queries.py"),), queries=("q5", "q7", "q11")),
    "spark": System("pyspark", (50_000, 150_000), (str(HERE / "spark_queries.py"),), queries=("q18", "q19")),
}


class Bench:
    """One call.

    Args:
        timeout_s: Of a task.
        budget_s: Of all; what has not ended by then is left out.
        scale: Makes the sizes smaller or larger.
        quick: Whether each query runs once, with few events.
    """

    def __init__(self, timeout_s: float, budget_s: float, scale: float, *, quick: bool) -> None:
        self.timeout_s, self.scale, self.quick = timeout_s, scale, quick
        self._deadline = time.monotonic() + budget_s
        self.failed = 0
        self._commit = _commit()
        self._ported = FOLDER / "ported"
        port_queries(self._ported)

    def pair(self, queries: list[str], name: str) -> None:
        """Let Penstock and then another system run some queries, each at both of its sizes, in one session each."""
        pair = f"{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}-{name}"
        known = [query for query in queries if query in SYSTEMS[name].queries]
        for each in dict.fromkeys(("penstock", name)):
            self._session(known, each, pair)

    def _session(self, queries: list[str], name: str, pair: str) -> None:
        system = SYSTEMS[name]
        environment = prepare(system.environment)
        sizes = [QUICK] if self.quick else [int(size * self.scale) for size in system.sizes]
        # The first task warms up what starts once, and does not count.
        tasks = [("q0", QUICK), *((query, size) for query in queries for size in sizes)]
        place = self._ported if name == "penstock" else HERE
        path = os.pathsep.join(filter(None, (str(place), environment.variables.get("PYTHONPATH"))))
        with tempfile.TemporaryDirectory(prefix="nexmark-") as left:
            named = [f"{query}={_events(size)}" for query, size in tasks]
            session = Session(
                [environment.python, *system.program, left, system.mode, *named],
                {**environment.variables, "PYTHONPATH": path, "PENSTOCK_REST__ENABLED": "false"},
                CACHE / "logs" / f"nexmark-{pair}-{name}.log",
            )
            ended: list[tuple[bool, Spent, float]] = []
            try:
                with session:
                    self._run_tasks(session, tasks, name, ended)
            except RunError as error:
                self._say_failed(f"{name}: {error}")
            # Nothing else runs while a session does, so the results are looked at behind it.
            for number, ((query, size), (is_done, spent, load)) in enumerate(zip(tasks, ended, strict=False)):
                if not is_done:
                    self._say_failed(f"{name} {query}")
                elif number and self._is_right(query, size, Path(left, str(number), "out")) and not self.quick:
                    run = {"pair": pair, "system": name, "query": query, "events": size, "load": round(load, 1)}
                    run |= {"seconds": round(spent.seconds, 2), "processor": round(spent.processor_seconds, 2)}
                    self._keep({**run, "commit": self._commit, "versions": environment.versions})

    def _run_tasks(
        self, session: Session, tasks: list[tuple[str, int]], name: str, ended: list[tuple[bool, Spent, float]]
    ) -> None:
        before = Spent(0, 0)
        for number, (query, size) in enumerate(tasks):
            load = os.getloadavg()[0]
            is_done, now = session.wait_for(number, min(self.timeout_s, self._left()))
            spent, before = now.since(before), now
            ended.append((is_done, spent, load))
            if number:
                print(
                    f"{query} {name}: {size:,} events, {spent.processor_seconds:.1f} s of the processor, "
                    f"{spent.seconds:.1f} s by the clock, load {load:.1f}",
                    flush=True,
                )

    def _left(self) -> float:
        return max(0.1, self._deadline - time.monotonic())

    def _say_failed(self, what: str) -> None:
        self.failed += 1
        print(f"FAILED {what}", flush=True)

    def _is_right(self, query: str, size: int, out: Path) -> bool:
        found = truth.Events(_events(size))
        try:
            found.check(query, out)
        except truth.WrongResultError as error:
            self._say_failed(f"with a wrong result: {error}")
            return False
        finally:
            found.close()
            shutil.rmtree(out, ignore_errors=True)
        return True

    def _keep(self, run: dict[str, object]) -> None:
        with RUNS.open("a") as file:
            print(json.dumps(run), file=file)


def _events(count: int) -> Path:
    folder = FOLDER / f"events-{count}"
    if not folder.exists():
        half = folder.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        nexmark_events.write(half, count)
        half.rename(folder)
    return folder


def port_queries(place: Path) -> None:
    """Change the imports of the programs, as a user does."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(HERE / "queries", place / "queries", ignore=shutil.ignore_patterns("__pycache__"))
    environment = prepare("penstock")
    command = [environment.python, "-m", "penstock", "port", "--write", place / "queries"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment.variables})


def _commit() -> str:
    command = ["git", "-C", str(HERE), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _choice(known: tuple[str, ...], text: str) -> list[str]:
    chosen = text.split(",")
    unknown = [one for one in chosen if one not in known]
    if unknown:
        reason = f"{', '.join(unknown)}: not one of {', '.join(known)}"
        raise argparse.ArgumentTypeError(reason)
    return chosen


def main() -> int:
    queries, systems = tuple(truth.TRUTHS), tuple(SYSTEMS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: _choice(queries, text), default=list(queries), help="q5,q7")
    parser.add_argument(
        "--systems",
        type=lambda text: _choice(systems, text),
        default=["plain", "pyflink-thread"],
        help=", ".join(systems),
    )
    parser.add_argument("--pairs", type=int, default=3, help="of each query and system (3)")
    parser.add_argument("--scale", type=float, default=1, help="of the numbers of events (1)")
    parser.add_argument("--budget", type=float, default=1e6, help="seconds for all; the rest is left out")
    parser.add_argument("--timeout", type=float, default=240, help="seconds before a task is ended (240)")
    parser.add_argument("--quick", action="store_true", help="few events, each program once, nothing is kept")
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    bench = Bench(arguments.timeout, arguments.budget, arguments.scale, quick=arguments.quick)
    for _ in range(1 if arguments.quick else arguments.pairs):
        for system in arguments.systems:
            bench.pair(arguments.only, system)
    return int(bench.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
