"""The long tests, one case after the other: seeded, resumable, and at the end a table for docs/benchmarks/campaign.md.

Usage: run.py [--seed N] [--only WORD] [--fresh]

A case that passed is not run again until the code it ran on has changed or `--fresh` is given: what was done stands in
``.campaign/results.json``. Each case is a command of its own, so that a crash of one says nothing about the next.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.campaign.case import Case  # noqa: E402 - this is run as a program
from tests.campaign.cases import cases  # noqa: E402 - this is run as a program

RESULTS = ROOT / ".campaign" / "results.json"


def code_version() -> str:
    """Return a hash of all that the cases run."""
    digest = hashlib.sha256()
    for folder in ("src", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def run_case(case: Case) -> dict[str, object]:
    """Run one case and return its result."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            case.command,
            cwd=ROOT,
            env={**os.environ, **case.environment},
            capture_output=True,
            text=True,
            timeout=case.limit_s,
            check=False,
        )
        # A case whose tests were all skipped shows nothing.
        passed = (
            done.returncode == 0 and re.search(r"\b[1-9]\d* (passed|of \d+ mutants caught)\b", done.stdout) is not None
        )
        tail = done.stdout[-2000:] + done.stderr[-2000:]
    except subprocess.TimeoutExpired:
        passed, tail = False, f"not done after {case.limit_s} s"
    seconds = round(time.monotonic() - start)
    return {"passed": passed, "seconds": seconds, "date": datetime.now(UTC).date().isoformat(), "tail": tail}


def main() -> int:
    """Run what is not done yet and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    options = parser.parse_args()

    version = code_version()
    done: dict[str, dict[str, object]] = {}
    if RESULTS.exists() and not options.fresh:
        stored = json.loads(RESULTS.read_text(encoding="utf-8"))
        done = stored["cases"] if stored["version"] == version else {}
    chosen = [case for case in cases(options.seed) if options.only in case.name]
    for case in chosen:
        if done.get(case.name, {}).get("passed"):
            continue
        print(f"{case.name}: {case.shows}", flush=True)
        done[case.name] = result = run_case(case)
        print(f"  {'passed' if result['passed'] else 'FAILED'} in {result['seconds']} s", flush=True)
        if not result["passed"]:
            print(result["tail"], flush=True)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({"version": version, "cases": done}, indent=1), encoding="utf-8")
    print("\n| case | shows | result | s | date |\n| --- | --- | --- | --- | --- |")
    for case in chosen:
        result = done[case.name]
        verdict = "passed" if result["passed"] else "**failed**"
        print(f"| {case.name} | {case.shows} | {verdict} | {result['seconds']} | {result['date']} |")
    failed = sum(not done[case.name]["passed"] for case in chosen)
    print(f"\n{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
