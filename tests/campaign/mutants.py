"""Puts small faults into a copy of the program, one at a time, and sees whether the tests catch them.

Usage: mutants.py [--seed N] [--count N] [--survivors suite|near|none] [--list]

Each mutant runs against the tests that cover its line, the quickest first; one that they let live runs against the
whole suite (`near`: against the tests without Spark and services). What was done stands in ``.campaign/mutants`` and is
not done again until the program changes; the tests of a mutant that lived run again when tests have changed.

``mutants.toml`` names mutants that are no faults, which are not drawn, and those that may live, each with its reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.campaign.mutations import Mutation, draw

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".campaign" / "mutants"
#: Where coverage.py is: nothing but this needs it.
PACKAGES = ROOT / ".campaign" / "packages"
TREE, COVERAGE, PASSED, STATE = WORK / "tree", WORK / "coverage", WORK / "passed.json", WORK / "state.json"
#: What is mutated: the parts that hold what must not be lost.
TARGETS = (
    *(f"_engine/{layer}/**/*.py" for layer in ("coordinator", "driver", "operators", "state")),
    *(f"_connectors/files/{name}.py" for name in ("writer", "committer", "staging", "local", "object_store")),
)
#: Tests that run in this process, which coverage.py can see.
NEAR = "not (spark or fault or browser or endurance or flink or s3 or kafka or postgres)"
#: The bar: so many of 60.
WANTED = 55 / 60
#: The quickest tests of a line go first, together up to so many seconds.
QUICK_S = 20.0
MAX_BYTES = 6 << 30


def digest(paths: list[Path]) -> str:
    """Return a hash of files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()[:16]


def failed_tests(output: Path) -> list[str]:
    """Return the tests that failed by the output of pytest."""
    text = output.read_text(encoding="utf-8", errors="replace")
    return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE)


def get_coverage() -> None:
    """Install coverage.py beside the environment, once."""
    if not PACKAGES.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        lock = ROOT / "requirements/campaign.txt"
        subprocess.run([*pip, "--target", str(PACKAGES), "--requirement", str(lock)], check=True)
    sys.path.append(str(PACKAGES))


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
        stored = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}
        fresh: dict[str, Any] = {"source": source, "files": {}, "results": {}, "unsteady": []}
        self._state: dict[str, Any] = stored if stored.get("source") == source else fresh
        paths = sorted(path for glob in TARGETS for path in (ROOT / "src/penstock").glob(glob))
        self._paths = [str(path.relative_to(ROOT)) for path in paths]
        mutations = (mutation for mutation in draw(ROOT, self._paths, seed) if mutation.name not in self.equivalent)
        self.chosen = [mutation for mutation, _ in zip(mutations, range(count), strict=False)]

    def run(self) -> None:
        """Do what is not done yet."""
        if all(self._is_done(mutation) for mutation in self.chosen):
            return
        get_coverage()
        self._copy()
        self._cover()
        lines = self._tests_by_line()
        while todo := [mutation for mutation in self.chosen if not self._is_done(mutation)]:
            for mutation in todo:
                print(f"{mutation.name}", flush=True)
                result = self.results[mutation.name] = self._try(mutation, lines)
                print(f"  {result['verdict']} by {result['by']} in {result['seconds']} s", flush=True)
                self._save()
            self._doubt()

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """By a mutant's name: what came of it."""
        return self._state["results"]

    def _is_done(self, mutation: Mutation) -> bool:
        result = self.results.get(mutation.name)
        if result is None or result["verdict"] == "caught":
            return result is not None
        return result["tests"] == self._tests and result["survivors"] == self._survivors

    def _save(self) -> None:
        STATE.write_text(json.dumps(self._state, indent=1), encoding="utf-8")

    def _copy(self) -> None:
        """Make the tree that is mutated; the one that people work on stays as it is."""
        shutil.rmtree(TREE, ignore_errors=True)
        TREE.mkdir(parents=True)
        ours = [path for path in ROOT.iterdir() if not path.name.startswith(".") and path.name not in ("out", "build")]
        for path in ours:
            if path.is_dir():
                shutil.copytree(path, TREE / path.name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(path, TREE / path.name)

    def _cover(self) -> None:
        """Run the tests that are not known yet, and keep which lines they run."""
        known: dict[str, str] = self._state["files"]
        if not known:
            COVERAGE.unlink(missing_ok=True)
            PASSED.unlink(missing_ok=True)
        now = {str(path.relative_to(ROOT)): digest([path]) for path in ROOT.glob("tests/**/test_*.py")}
        new = [path for path, content in now.items() if known.get(path) != content]
        if not new:
            return
        before = json.loads(PASSED.read_text(encoding="utf-8")) if PASSED.exists() else {}
        include = ",".join(f"*/penstock/{target.replace('/**', '')}" for target in TARGETS)
        run = ["-m", "coverage", "run", "--append", f"--data-file={COVERAGE}", f"--include={include}"]
        print(f"coverage of {len(new)} files of tests", flush=True)
        self._pytest(run, ["-p", "tests.campaign.covering", "-m", NEAR], new if known else [])
        after = json.loads(PASSED.read_text(encoding="utf-8"))
        kept = {name: seconds for name, seconds in before.items() if name.split("::")[0] not in new}
        PASSED.write_text(json.dumps({**kept, **after}), encoding="utf-8")
        self._state["files"] = now
        self._state["unsteady"] = sorted({*self._state["unsteady"], *failed_tests(WORK / "output")})
        self._save()

    def _tests_by_line(self) -> dict[str, dict[int, list[str]]]:
        import coverage

        data = coverage.CoverageData(str(COVERAGE))
        data.read()
        self._seconds: dict[str, float] = json.loads(PASSED.read_text(encoding="utf-8"))
        return {path: data.contexts_by_lineno(str(TREE / path)) for path in self._paths}

    def _try(self, mutation: Mutation, lines: dict[str, dict[int, list[str]]]) -> dict[str, Any]:
        """Run tests against a mutant until one catches it."""
        start, by, path = time.monotonic(), None, TREE / mutation.path
        source = path.read_bytes()
        self._forget_compiled(path)
        path.write_bytes(mutation.apply(source))
        try:
            for options, tests, limit_s in self._stages(self._tests_of(mutation, lines[mutation.path])):
                by = by or self._pytest([], ["-x", *options], tests, limit_s)
        finally:
            path.write_bytes(source)
            self._forget_compiled(path)
        verdict = "alive" if by is None else "caught"
        seconds = round(time.monotonic() - start)
        result = {"verdict": verdict, "by": by, "seconds": seconds, "line": mutation.line}
        return {**result, "tests": self._tests, "survivors": self._survivors}

    def _stages(self, tests: list[str]) -> list[tuple[list[str], list[str], float]]:
        """Return what to run one after the other: options, tests, limit."""
        quick, together = 0, 0.0
        while quick < len(tests) and together < QUICK_S:
            together += self._seconds[tests[quick]]
            quick += 1
        parts = [part for part in (tests[:quick], tests[quick:]) if part]
        stages = [(list[str](), part, 60 + 5 * sum(self._seconds[name] for name in part)) for part in parts]
        longest_s = 60 + 5 * sum(self._seconds.values())
        without = [f"--deselect={name}" for name in self._state["unsteady"]]
        last = {"suite": [(without, [], 2 * longest_s)], "near": [([*without, "-m", NEAR], [], longest_s)], "none": []}
        return stages + last[self._survivors]

    def _tests_of(self, mutation: Mutation, lines: dict[int, list[str]]) -> list[str]:
        """Return the tests of a mutant's line, the quickest first: for one that runs at import, those of its module."""
        of_line = lines.get(mutation.line) or lines.get(mutation.statement) or []
        if of_line == [""]:
            of_line = [name for names in lines.values() for name in names]
        steady = {name for name in of_line if name in self._seconds and name not in self._state["unsteady"]}
        return sorted(steady, key=lambda name: (self._seconds[name], name))

    def _doubt(self) -> None:
        """Take back what was caught by a test that fails without the mutant too."""
        catchers = {name: result["by"] for name, result in self.results.items() if "::" in (result["by"] or "")}
        while catchers and (failed := self._pytest([], [], sorted(set(catchers.values())))):
            print(f"{failed} fails by itself", flush=True)
            self._state["unsteady"].append(failed)
            for name in [name for name, catcher in catchers.items() if catcher == failed]:
                del catchers[name], self.results[name]
            self._save()

    def _pytest(
        self, before: list[str], options: list[str], tests: list[str], limit_s: float | None = None
    ) -> str | None:
        """Run tests in the copy, or all; return what failed first, or None."""
        (WORK / "tests").write_text("\n".join(tests), encoding="utf-8")
        command = [sys.executable, *before, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", *options]
        command += [f"@{WORK / 'tests'}"] if tests else []
        environment = {key: value for key, value in os.environ.items() if key != "HYPOTHESIS_PROFILE"}
        environment |= {"PYTHONPATH": f"{TREE / 'src'}{os.pathsep}{PACKAGES}", "PENSTOCK_PASSED_TESTS": str(PASSED)}
        with (WORK / "output").open("w+") as output:
            process = subprocess.Popen(
                command,
                cwd=TREE,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES)),  # noqa: PLW1509
            )
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                return f"the limit of {limit_s:.0f} s"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if code == 0:
            return None
        return next(iter(failed_tests(WORK / "output")), f"exit code {code}")

    @staticmethod
    def _forget_compiled(path: Path) -> None:
        """Delete what Python compiled of a file: two mutants of one second and one size look the same to it."""
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()


def main() -> int:
    """Run the pass and print what lives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument(
        "--survivors", choices=("suite", "near", "none"), default="suite", help="what runs against them"
    )
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
