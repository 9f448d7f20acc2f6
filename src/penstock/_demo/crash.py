"""Kills the job's processes without warning, starts the job again from its last checkpoint, and compares the files.

SIGKILL of the driver takes Java and the Python tasks along. That is to them what a power cut is to a machine; none of
them gets to tidy up.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from penstock._demo.report import read_lines

OUTPUTS = ("hourly", "alerts", "cancelled")
PUBLISHED_BEFORE_KILL = 0.25  # of the hourly lines


def run_with_crash(events: Path, out: Path, parallelism: int, console: Console) -> int:
    """Run the job twice, once undisturbed and once with a crash, and return 0 if both wrote the same."""
    if os.name != "posix":
        sys.exit("--crash kills a process group, which only Linux and macOS have.")
    undisturbed, crash = out / "undisturbed", out / "crashed"
    for folder in (undisturbed, crash):
        shutil.rmtree(folder, ignore_errors=True)
    common = ["--events", str(events), "--parallelism", str(parallelism), "--no-report"]

    console.rule("1. An undisturbed run")
    run_to_end("--out", str(undisturbed), *common)

    console.rule("2. The same job, killed on the way")
    enough = PUBLISHED_BEFORE_KILL * len(read_lines(undisturbed / "results" / "hourly"))
    with job("--out", str(crash), *common) as process:
        wait_for_lines(process, crash / "results" / "hourly", enough)
        time.sleep(random.uniform(0, 0.5))  # noqa: S311 - somewhere between two checkpoints
        os.killpg(process.pid, signal.SIGKILL)
    console.show_cursor()  # the progress bar had hidden it
    if process.returncode != -signal.SIGKILL:
        sys.exit("The job ended before there was anything to kill.")
    last = newest_checkpoint(crash / "checkpoints")
    console.print(f"\nkill -9. The last checkpoint that was complete is number {last}.")
    published = {name: Counter(read_lines(crash / "results" / name)) for name in OUTPUTS}

    console.rule("3. Started again")
    run_to_end("--out", str(crash), *common, "--resume")
    return compare(undisturbed / "results", crash / "results", published, console)


@contextmanager
def job(*options: str) -> Generator["subprocess.Popen[bytes]"]:
    """Start the job in its own process group, and leave nothing of it behind, whatever happens here."""
    # -P: a module in the working directory must not hide one that the job needs.
    command = [sys.executable, "-P", "-m", "penstock", "demo", *options]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_to_end(*options: str) -> None:
    with job(*options) as process:
        if process.wait() != 0:
            sys.exit(f"The job failed with exit code {process.returncode}.")


def wait_for_lines(process: "subprocess.Popen[bytes]", folder: Path, enough: float) -> None:
    """Wait until there are so many lines in a sink's finished files, or the process has ended."""
    while process.poll() is None and len(read_lines(folder)) < enough:
        time.sleep(0.05)


def newest_checkpoint(checkpoints: Path) -> int:
    """The number of the newest complete checkpoint: one is complete once its `_metadata` is there."""
    complete = checkpoints.glob("*/chk-*/_metadata")
    return max((int(metadata.parent.name.removeprefix("chk-")) for metadata in complete), default=0)


def compare(undisturbed: Path, crash: Path, published: dict[str, Counter[str]], console: Console) -> int:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("lines in")
    for column in ("undisturbed", "at the kill", "in the end", "missing", "too many"):
        table.add_column(column, justify="right")
    same = True
    for name in OUTPUTS:
        expected, found = (Counter(read_lines(results / name)) for results in (undisturbed, crash))
        missing, extra = (expected - found).total(), (found - expected).total()
        counts = (expected.total(), published[name].total(), found.total(), missing, extra)
        table.add_row(name, *(f"{count:,}" for count in counts))
        same = same and not missing and not extra
    console.print(table)
    console.print("[green]Both runs wrote the same lines.[/]" if same else "[red]The two runs differ.[/]")
    return 0 if same else 1
