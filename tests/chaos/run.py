"""Random jobs with random lives, the least tested pair of a feature and a trouble first.

Usage: python -m tests.chaos.run [--seed N] [--minutes M] [--only NAME[+NAME…]] [--life SEED[:NAME+…]]

A run prints its seed, which draws the same lives again; each failing life is shrunk, told, and can be lived alone. The
table of pairs is written to ``.campaign/chaos.txt``. It exits with 1 if a life has failed.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import re
import secrets
import shutil
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.chapters import TROUBLES, draw_life, possible
from tests.chaos.jobs import draw_job
from tests.chaos.lives import Life, StuckError
from tests.chaos.pairs import Pairs
from tests.chaos.shrink import Drawn, shrunk, story

TABLE = Path(__file__).parents[2] / ".campaign" / "chaos.txt"
MEMORY = Path("/dev/shm")
#: Processor seconds for shrinking a life.
SHRINKING_S = 60.0


@dataclass
class Failure:
    """A life that has failed."""

    #: What `--life` takes.
    life: str
    error: str
    drawn: Drawn

    def __str__(self) -> str:
        return f"{story(self.drawn)}\n{self.error}\nAgain: make chaos ARGS='--life \"{self.life}\"'"


def drawn_life(seed: int, wanted: frozenset[str]) -> Drawn:
    """Draw a job and its chapters."""
    choose, troubles = random.Random(seed), set(wanted) & set(TROUBLES)
    while True:
        job = draw_job(choose, set(wanted) - troubles)
        if all(possible(feature, trouble) for feature in job.features() for trouble in troubles):
            return job, draw_life(choose, job, troubles)


def lived(drawn: Drawn, seed: int) -> tuple[str | None, Life]:
    """Live a life; return the error, or None, and what was met."""
    job, chapters = drawn
    place = Path(tempfile.mkdtemp(prefix="penstock-chaos-", dir=MEMORY if MEMORY.is_dir() else None))
    life = Life(job, chapters, place / "life", seed)
    try:
        life.live()
    except (Exception, StuckError) as error:  # noqa: BLE001 - whatever it is, it is the result
        lines = traceback.format_exception(error.__cause__) if error.__cause__ else []
        return "\n".join([f"{type(error).__name__}: {error}", *life.tale, *lines[-3:]]), life
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return None, life


@dataclass
class Report:
    """What a run of lives has come to."""

    pairs: Pairs
    lives: int = 0
    failures: list[Failure] = field(default_factory=list[Failure])
    #: The names of failed lives by what their errors have in common; the first of each is shrunk.
    known: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    #: Milliseconds of processor time, by the name of the life.
    times: dict[str, int] = field(default_factory=dict[str, int])


def run(seed: int, seconds: float, only: frozenset[str] = frozenset()) -> Report:
    """Live lives for some seconds."""
    choose, report, until = random.Random(seed), Report(Pairs(only)), time.monotonic() + seconds
    while time.monotonic() < until:
        wanted, life_seed = report.pairs.draw(choose), choose.randrange(1 << 31)
        drawn, began = drawn_life(life_seed, wanted), time.process_time()
        error, life = lived(drawn, life_seed)
        name = f"{life_seed}:{'+'.join(sorted(wanted))}"
        report.lives += 1
        report.times[name] = round(1_000 * (time.process_time() - began))
        report.pairs.note(drawn[0].features(), life.met, "ok" if error is None else "failed")
        if error is not None:
            kind = error.partition(":")[0]
            if signature(error) in report.known:
                report.known[signature(error)].append(name)
                continue

            def fails(candidate: Drawn, kind: str = kind, life_seed: int = life_seed) -> bool:
                return (lived(candidate, life_seed)[0] or "").partition(":")[0] == kind

            small = shrunk(drawn, fails, SHRINKING_S)
            report.failures.append(Failure(name, lived(small, life_seed)[0] or error, small))
            report.known[signature(error)] = [name]
            print(report.failures[-1], "\n", flush=True)
    return report


def signature(error: str) -> str:
    """Return what errors of one cause have in common: the words of their first line without names and numbers."""
    return re.sub(r"/\S+|\(.*\)|\b\w*\d\w*\b", "", error.partition("\n")[0])[:80]


def _names(text: str) -> frozenset[str]:
    names = frozenset(filter(None, text.split("+")))
    try:
        Pairs(names)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return names


def _life(text: str) -> tuple[int, frozenset[str]]:
    seed, _, names = text.partition(":")
    if not seed.isdecimal():
        msg = f"{text!r} is no SEED:NAMES, such as 7:list source+kill"
        raise argparse.ArgumentTypeError(msg)
    return int(seed), _names(names)


def main() -> int:
    """Run lives as the command line says."""
    parser = argparse.ArgumentParser(prog="make chaos", description="Random jobs with random lives.")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 31), help="draws the same lives again")
    parser.add_argument("--minutes", type=float, default=10, help="how long (10)")
    parser.add_argument(
        "--only", type=_names, default=frozenset(), help="names of features and troubles, with + between; see the table"
    )
    parser.add_argument("--life", type=_life, help="SEED:NAMES, one life, as a failure names it")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets have an order
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.chaos.run", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    logging.disable(logging.CRITICAL)
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - jobs say there how they start
    if options.life:
        seed, names = options.life
        drawn = drawn_life(seed, names)
        error, life = lived(drawn, seed)
        met = f"Met: {', '.join(sorted(life.met)) or 'nothing'}."
        print(story(drawn), *life.tale, error or "ok", met, sep="\n")
        return error is not None
    print(f"seed {options.seed}", flush=True)
    report = run(options.seed, 60 * options.minutes, options.only)
    table = TABLE.with_name("chaos-only.txt") if options.only else TABLE
    report.pairs.write(table)
    print(report.pairs.shortly())
    failed = sum(map(len, report.known.values()))
    print(f"{report.lives} lives, {report.lives / options.minutes:.0f} a minute, {failed} failed.")
    for kind, names in report.known.items():
        print(f"  {len(names)} x {kind}: {', '.join(names[:4])}")
    times = sorted(report.times.values())
    print(
        f"Processor time of a life: {times[len(times) // 2]} ms in the median, {sum(times) // len(times)} on average."
    )
    print(f"The table of pairs is in {table}.")
    return bool(report.failures)


if __name__ == "__main__":
    sys.exit(main())
