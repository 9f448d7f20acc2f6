"""Whether memory grows in a query that goes on: Nexmark at full speed over events that do not end.

    python benchmarks/nexmark/lasting.py                                     Q9 for five minutes
    python benchmarks/nexmark/lasting.py --query q20 --minutes 30 --chart docs/images/q20.svg
    python benchmarks/nexmark/lasting.py --memory "32 mb"                    with less room for keyed state

Notes the memory of the driver, the JVM and the Python workers each five seconds, what lives in the JVM's heap
twelve times, and the bytes of the checkpoint directory. Each subtask keeps rows of its state in memory until they fill
the room that it has, so what grows with that room is no leak. The notes are in `.bench/nexmark/lasting-QUERY.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path[1:1] = [str(HERE.parent), str(PROJECT)]

from environments import prepare  # noqa: E402 - behind the path
from figures import Figures  # noqa: E402
from run import FOLDER, port_queries  # noqa: E402
from tests.endurance.drawing import Panel, drawing  # noqa: E402
from tests.endurance.program_notes import (  # noqa: E402
    KINDS,
    Look,
    add_live_heap,
    ask,
    growth_of_processes,
    largest,
    live_heap,
    processes,
    size_of,
)
from tests.fault.processes import kill  # noqa: E402
from tests.services.process import free_port  # noqa: E402

LOOK_S, END_S = 5, 20
#: How often the JVM's heap is seen: it has to collect its garbage for that.
HEAPS = 12
#: Moments that the table shows, as shares of the time.
SHOWN = (0.1, 0.25, 0.5, 0.75, 1)


def watch(query: str, seconds: float, notes: Path, memory: str) -> list[Look]:
    """Run a query for a time from its first event on; return the looks at it."""
    ported, environment, port = FOLDER / "ported", prepare("penstock"), free_port()
    port_queries(ported)
    path = os.pathsep.join(filter(None, (str(ported), str(HERE), environment.variables.get("PYTHONPATH"))))
    looks, heaps = list[Look](), 0
    with tempfile.TemporaryDirectory(prefix="nexmark-") as place, notes.with_suffix(".log").open("w") as log:
        program = subprocess.Popen(
            [environment.python, "-m", "endless", place, query, str(port), memory],
            env={**os.environ, **environment.variables, "PYTHONPATH": path}, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            while not looks or looks[-1]["at_s"] < seconds:
                time.sleep(LOOK_S)
                if program.poll() is not None:
                    sys.exit(f"{query} ended, see {log.name}")
                records = _records(port)
                if records:
                    looks.append(_look(program.pid, records, Path(place), looks))
                    if looks[-1]["at_s"] >= heaps * seconds / HEAPS:
                        add_live_heap(looks[-1])
                        heaps += 1
        finally:
            kill(program, END_S)
    notes.write_text("".join(json.dumps(look) + "\n" for look in looks))
    return looks


def _look(pid: int, records: int, place: Path, looks: list[Look]) -> Look:
    now = time.monotonic()
    return {
        "clock": now,
        "at_s": now - looks[0]["clock"] if looks else 0,
        "records": records,
        "processes": processes(pid),
        "checkpoint_kib": size_of(place / "checkpoints")[0],
        "load": os.getloadavg()[0],
    }


def _records(port: int) -> int:
    """Return how many records the source has given; 0 before it runs."""
    try:
        jobs = ask(port, "jobs")["jobs"]
        vertices = ask(port, f"jobs/{jobs[0]['id']}")["vertices"] if jobs else []
    except OSError:
        return 0
    return max((vertex["metrics"]["write-records"] for vertex in vertices), default=0)


def chart(query: str, looks: list[Look]) -> str:
    """Return the drawing."""
    minutes = [look["at_s"] / 60 for look in looks]
    memory = {
        kind: [(at, largest(look, kind) or 0.0) for at, look in zip(minutes, looks, strict=True)] for kind in KINDS
    }
    checkpoints = [(at, look["checkpoint_kib"] / 1024) for at, look in zip(minutes, looks, strict=True)]
    records = [(at, look["records"] / 1e6) for at, look in zip(minutes, looks, strict=True)]
    panels = [
        Panel("Anonymous memory, MB (of the largest worker)", memory),
        Panel("Checkpoint directory, MiB", {"checkpoints": checkpoints}),
        Panel("Records, millions", {"records": records}),
    ]
    return drawing(f"Nexmark's {query.upper()} at full speed", panels)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query", default="q9")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--memory", default="256 mb", help="penstock.state.memory (256 mb)")
    parser.add_argument("--chart", type=Path, help="the drawing to write")
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    figures = Figures(f"{arguments.query.upper()} for {arguments.minutes:g} minutes, {arguments.memory} for its state")
    looks = watch(
        arguments.query, 60 * arguments.minutes, FOLDER / f"lasting-{arguments.query}.jsonl", arguments.memory
    )
    chosen = [looks[int(share * (len(looks) - 1))] for share in SHOWN]
    figures.add("Seen after minutes", ", ".join(f"{look['at_s'] / 60:.1f}" for look in chosen))
    figures.add("records, millions", ", ".join(f"{look['records'] / 1e6:.1f}" for look in chosen))
    figures.add("checkpoint directory, MiB", ", ".join(f"{look['checkpoint_kib'] / 1024:.0f}" for look in chosen))
    for kind in KINDS:
        sizes = ", ".join(f"{largest(look, kind) or 0:.0f}" for look in chosen)
        grows = growth_of_processes(looks[len(looks) // 2 :], kind)
        figures.add(f"{kind}, anonymous MB", f"{sizes}; a line through the second half: {grows or 0:+.0f} MB/h")
    heaps = ", ".join(f"{heap:.0f}" for look in looks if (heap := live_heap(look)) is not None)
    figures.add("JVM, MB that live in its heap", heaps)
    if arguments.chart:
        arguments.chart.write_text(chart(arguments.query, looks))
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())
