"""Runs the flights job and shows what it found: `penstock demo`, or with `--crash` kills it in the middle first.

Below --out are afterwards the results (`results/hourly`, `results/alerts`, `results/cancelled`), the page
`delay-by-hour.html`, and the stream that was prepared (`events`), which the next run uses again.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

from rich.console import Console

from penstock._demo.crash import run_with_crash
from penstock._demo.job import build
from penstock._demo.prepare import prepare
from penstock._demo.report import read_report, show, write_page
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment


def main() -> int:
    options = parse_options()
    console = Console()
    own_folder(options.out)
    if not options.events.exists():
        console.print("Preparing the flights of 2013, this once …")
    events = prepare(options.events)
    if options.crash:
        return run_with_crash(events, options.out, options.parallelism, console)

    results, checkpoints = options.out / "results", options.out / "checkpoints"
    if not options.resume:
        shutil.rmtree(results, ignore_errors=True)
        shutil.rmtree(checkpoints, ignore_errors=True)
    started = time.monotonic()
    run(events, results, checkpoints, options.parallelism, resume=options.resume)
    if not options.keep:
        shutil.rmtree(checkpoints, ignore_errors=True)
    if not options.no_report:
        report = read_report(results)
        show(report, console)
        chart = options.out / "delay-by-hour.html"
        write_page(report, chart)
        console.print(
            f"\nDone in {time.monotonic() - started:.0f} s. Results: {results}. Chart: {chart}", soft_wrap=True
        )
    return 0


def run(events: Path, results: Path, checkpoints: Path, parallelism: int, *, resume: bool) -> None:
    settings = {
        "parallelism.default": str(parallelism),
        "execution.checkpointing.interval": "2 s",
        "execution.checkpointing.dir": str(checkpoints),
        "penstock.progress.enabled": "true",
    }
    if resume:
        settings["execution.state-recovery.path"] = "latest"
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    build(env, events, results)
    env.execute("flights")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="penstock demo", description="The flights that left New York in 2013, as a stream."
    )
    parser.add_argument("--crash", action="store_true", help="kill the job half-way, start it again, compare the files")
    parser.add_argument("--parallelism", type=int, default=2, metavar="N", help="subtasks of each operator (2)")
    parser.add_argument(
        "--out", type=Path, default=Path("out/flights"), metavar="DIR", help="where to write (out/flights)"
    )
    parser.add_argument("--events", type=Path, metavar="DIR", help="where the prepared stream is kept (OUT/events)")
    parser.add_argument("--keep", action="store_true", help="keep the checkpoints")
    parser.add_argument("--resume", action="store_true", help="continue from the newest checkpoint of the last run")
    parser.add_argument("--no-report", action="store_true", help="run the job and show nothing afterwards")
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.events = (options.events or options.out / "events").resolve()
    return options


def own_folder(out: Path) -> None:
    """Stop if `out` has other things in it, because a run deletes the results of the one before."""
    marker = out / ".penstock-flights"
    if out.exists() and any(out.iterdir()) and not marker.exists():
        sys.exit(f"{out} is not empty, and not from an earlier run of this demo. Give --out a new folder.")
    out.mkdir(parents=True, exist_ok=True)
    marker.touch()


if __name__ == "__main__":
    sys.exit(main())
