"""Puts small faults into a copy of the program, one at a time, and sees whether the tests catch them.

Usage: mutants.py [--seed N] [--count N] [--survivors suite|near|none] [--list]

Each mutant runs against the tests that cover its line, the quickest first; one that they let live runs against the
whole suite (`near`: against the tests without Spark and services). What was done stands in ``.campaign/mutants`` and is
not done again until the program changes. Then the test that caught a mutant before comes first. The tests of a mutant
that lived run again when tests have changed.

It runs on Python 3.12 or later, which tells of lines at little cost (`sys.monitoring`).

``mutants.toml`` names mutants that are no faults, which are not drawn, and those that may live, each with its reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.campaign.mutations import Mutation, draw
from tests.campaign.scratch import ROOT, TREE, WORK, content, copy_tree, failed_tests, run_tests

if TYPE_CHECKING:
    from collections.abc import Iterator

COVERED, TESTS, STATE = WORK / "covered", WORK / "covered.json", WORK / "state.json"
#: What is mutated: what holds data or tells of it, but for connectors whose tests need a server.
TARGETS = (
    *(f"_engine/{layer}/**/*.py" for layer in ("coordinator", "driver", "operators", "runtime", "state")),
    *(f"_engine/{layer}/**/*.py" for layer in ("cli", "rest", "savepoints")),
    *(f"_connectors/{connector}/**/*.py" for connector in ("files", "hybrid", "lake")),
    *("_connectors/*.py", "_formats/**/*.py", "savepoint/*.py"),
)
#: Tests that run in this process, where their lines are seen; but for those of things far from the targets.
NEAR = (
    *("-m", "not (spark or fault or browser or endurance or flink or s3 or kafka or postgres)"),
    *(f"--ignore=tests/{far}" for far in ("compat", "docs", "unit/processes", "unit/test_imports.py")),
)
#: Runs to the end take two processes; one that a failure ends takes one, as two go on for a while.
TWO = ("-n", "2", "--dist", "loadfile")
#: The bar: so many of 120.
WANTED = 110 / 120
#: The quickest tests of a line go first, together up to so many seconds.
QUICK_S = 20.0


def digest(paths: list[Path]) -> str:
    """Return a hash of files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()[:16]


class Pass:
    """One pass over a drawn set of mutants, which goes on where an earlier one was broken off.

    Args:
        seed: Of the draw.
        count: How many to draw.
        survivors: What runs against those that the tests of their line let live.
    """

    def __init__(self, seed: int, count: int, survivors: str) -> None:
        reasons = tomllib.loads((ROOT / "tests/campaign/mutants.toml").read_text(encoding="utf-8"))
        self.equivalent: dict[str, str] = reasons["equivalent"]
        self.may_live: dict[str, str] = reasons["may_live"]
        self._survivors = survivors
        source, self._tests = digest([*ROOT.glob("src/**/*.py")]), digest([*ROOT.glob("tests/**/*.py")])
        stored = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {"catchers": {}, "results": {}}
        if stored.get("source") != source:
            catchers = stored["catchers"] | {name: result["by"] for name, result in stored["results"].items()}
            stored = {"source": source, "files": {}, "results": {}, "unsteady": [], "catchers": catchers}
        self._state: dict[str, Any] = stored
        paths = sorted(path for glob in TARGETS for path in (ROOT / "src/penstock").glob(glob))
        self._paths = [str(path.relative_to(ROOT)) for path in paths]
        mutations = (mutation for mutation in draw(ROOT, self._paths, seed) if mutation.name not in self.equivalent)
        self.chosen = [mutation for mutation, _ in zip(mutations, range(count), strict=False)]
        #: By file and line: the tests that run it; by test: how long it takes.
        self._lines: dict[str, dict[int, list[str]]] = {}
        self._seconds: dict[str, float] = {}

    def run(self) -> None:
        """Do what is not done yet."""
        if not self._todo():
            return
        copy_tree()
        for mutation in self._todo():
            if "::" in (catcher := self._state["catchers"].get(mutation.name) or ""):
                self._try(mutation, [([], [catcher], 120.0)], keep_alive=False)
        self._doubt()
        while self._todo():
            self._cover()
            for mutation in self._todo():
                self._try(mutation, self._stages(self._tests_of(mutation)))
            self._doubt()

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """By a mutant's name: what came of it."""
        return self._state["results"]

    def _todo(self) -> list[Mutation]:
        return [mutation for mutation in self.chosen if not self._is_done(self.results.get(mutation.name))]

    def _is_done(self, result: dict[str, Any] | None) -> bool:
        if result is None or result["verdict"] == "caught":
            return result is not None
        return result["tests"] == self._tests and result["survivors"] == self._survivors

    def _save(self) -> None:
        STATE.write_text(json.dumps(self._state, indent=1), encoding="utf-8")

    def _cover(self) -> None:
        """Learn which tests run which lines: of those that are not known yet."""
        known: dict[str, str] = self._state["files"]
        now = {str(path.relative_to(ROOT)): digest([path]) for path in ROOT.glob("tests/**/test_*.py")}
        new = [path for path, hashed in now.items() if known.get(path) != hashed]
        tests = self._read(TESTS) if known else []
        if new:
            print(f"the lines of {len(new)} files of tests", flush=True)
            tests = [test for test in tests if test["name"].split("::")[0] not in new]
            shutil.rmtree(COVERED, ignore_errors=True)
            COVERED.mkdir()
            environment = {"PENSTOCK_COVERED": str(COVERED), "PENSTOCK_COVERED_FILES": os.pathsep.join(self._paths)}
            options = ["-p", "tests.campaign.covering", *TWO, *NEAR]
            run_tests(options, new if known else [], **environment)
            for path in COVERED.iterdir():
                tests += self._read(path)
            if not any(test["name"] for test in tests):
                output = (WORK / "output").read_text(encoding="utf-8", errors="replace")
                sys.exit(f"No test passes in the copy of the program, as it is:\n{output[-2_000:]}")
            TESTS.write_text(json.dumps(tests), encoding="utf-8")
            self._state["files"] = now
            self._state["unsteady"] = sorted({*self._state["unsteady"], *failed_tests()})
            self._save()
        self._seconds = {test["name"]: test["seconds"] for test in tests if test["name"]}
        self._lines = {path: {} for path in self._paths}
        for test in tests:
            for path, lines in test["lines"].items():
                for line in lines:
                    self._lines[path].setdefault(line, []).append(test["name"])

    @staticmethod
    def _read(path: Path) -> list[dict[str, Any]]:
        return json.loads(path.read_text(encoding="utf-8"))

    def _try(self, mutation: Mutation, stages: Iterator[Stage] | list[Stage], *, keep_alive: bool = True) -> None:
        """Run tests against a mutant until one catches it."""
        print(mutation.name, flush=True)
        start, by = time.monotonic(), None
        with content(mutation.path, mutation.apply((TREE / mutation.path).read_bytes())):
            for options, tests, limit_s in stages:
                by = by or run_tests(["-x", *options], tests, limit_s)
        seconds, verdict = round(time.monotonic() - start), "caught" if by else "alive"
        print(f"  {verdict} by {by} in {seconds} s", flush=True)
        if by or keep_alive:
            about = {"tests": self._tests, "survivors": self._survivors, "line": mutation.line, "seconds": seconds}
            self.results[mutation.name] = {"verdict": verdict, "by": by, **about}
            self._save()

    def _stages(self, tests: list[str]) -> list[Stage]:
        """Return what to run one after the other."""
        quick, together = 0, 0.0
        while quick < len(tests) and together < QUICK_S:
            together += self._seconds[tests[quick]]
            quick += 1
        parts = [part for part in (tests[:quick], tests[quick:]) if part]
        stages: list[Stage] = [([], part, 60 + 5 * sum(self._seconds[name] for name in part)) for part in parts]
        longest_s = 60 + 5 * sum(self._seconds.values())
        without = [f"--deselect={name}" for name in self._state["unsteady"]]
        last: dict[str, list[Stage]] = {
            "suite": [(without, [], 2 * longest_s)],
            "near": [([*without, *NEAR], [], longest_s)],
            "none": [],
        }
        return stages + last[self._survivors]

    def _tests_of(self, mutation: Mutation) -> list[str]:
        """Return the tests of a mutant's line, the quickest first: for one that runs at import, those of its module."""
        lines = self._lines[mutation.path]
        of_line = lines.get(mutation.line) or lines.get(mutation.statement) or []
        if set(of_line) == {""}:
            of_line = [name for names in lines.values() for name in names]
        steady = {name for name in of_line if name in self._seconds and name not in self._state["unsteady"]}
        return sorted(steady, key=lambda name: (self._seconds[name], name))

    def _doubt(self) -> None:
        """Take back what was caught by a test that fails without the mutant too."""
        catchers = {name: result["by"] for name, result in self.results.items() if (result["by"] or "")[:6] == "tests/"}
        while catchers and (failed := run_tests([], sorted(set(catchers.values())))):
            print(f"{failed} fails by itself", flush=True)
            self._state["unsteady"].append(failed)
            for name in [name for name, catcher in catchers.items() if catcher == failed]:
                del catchers[name], self.results[name]
                self._state["catchers"].pop(name, None)
            self._save()


#: Options of pytest, tests, and the limit in seconds.
Stage = tuple[list[str], list[str], float]


def main() -> int:
    """Run the pass and print what lives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--survivors", choices=("suite", "near", "none"), default="suite")
    parser.add_argument("--list", action="store_true", help="only say what is drawn")
    options = parser.parse_args()
    work = Pass(options.seed, options.count, options.survivors)
    if options.list:
        print("\n".join(f"{mutation.name} (line {mutation.line})" for mutation in work.chosen))
        return 0
    work.run()
    alive = [mutation.name for mutation in work.chosen if work.results[mutation.name]["verdict"] == "alive"]
    for name in alive:
        print(f"alive: {name}\n  {work.may_live.get(name, 'without a reason')}")
    caught = len(work.chosen) - len(alive)
    print(f"{caught} of {len(work.chosen)} mutants caught, seed {options.seed}")
    return 0 if caught >= WANTED * len(work.chosen) and set(alive) <= set(work.may_live) else 1


if __name__ == "__main__":
    sys.exit(main())
