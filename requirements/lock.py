"""Writes the locks of the dependencies in pyproject.toml anew; arguments, such as --upgrade, go to uv."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The groups of pyproject.toml that have locks, in the order in which they are made.
GROUPS = ("build", "dev", "demo", "lowest", "flink", "flink-client", "go", "postgres-server", "pyflink")
#: Those whose package alone is wanted, without what it depends on.
ALONE = ("postgres-server", "pyflink")
#: These have what Penstock needs itself: the environment is made of the first two; the last has the lowest versions
#: that users may have of what pyproject.toml names, for the campaign, and has no group.
ENVIRONMENT = ("dev", "demo", "lowest")


def lock(group: str, arguments: list[str]) -> int:
    """Write the lock of one group; return uv's exit code."""
    wanted = ["pyproject.toml"] if group in ENVIRONMENT else []
    if group == "dev":  # whose tests try each connector
        arguments = ["--all-extras", *arguments]
    if group == "lowest":
        arguments = ["--all-extras", "--resolution", "lowest-direct", *arguments]
    if group == "demo":  # of what dev has, in the same versions
        arguments = ["--extra", "demo", "--constraint", "requirements/dev.txt", *arguments]
    if group in ALONE:
        arguments = ["--no-deps", *arguments]
    options = ("--universal", "--python-version", "3.11", "--generate-hashes", "--quiet")
    hidden = ("--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command", "python3 dev.py lock")
    target = (*(() if group == "lowest" else ("--group", group)), "--output-file", f"requirements/{group}.txt")
    command = [sys.executable, "-m", "uv", "pip", "compile", *wanted, *options, *hidden, *target, *arguments]
    return subprocess.call(command, cwd=ROOT)


if __name__ == "__main__":
    sys.exit(next((code for group in GROUPS if (code := lock(group, sys.argv[1:]))), 0))
