"""Looks for known advisories about the locked versions of dependencies, and about the lowest ones that users may have.

Usage: python3 dev.py audit [--where-answered]. First it compares with `advisories.toml`, which needs no network; then
it asks the Python Package Index itself. A mirror that has packages alone knows no advisories: then nothing was audited,
which is an error (exit code 3). With `--where-answered`, as in continuous integration, that is said and is no error.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HERE = Path(__file__).parent
ADVISORIES = HERE / "advisories.toml"
_PATIENCE_S = 300
_PIP_AUDIT = (
    *(sys.executable, "-m", "uv", "tool", "run", "pip-audit==2.10.1"),
    *("--no-deps", "--disable-pip", "--format", "json"),
)
_LOCKED = re.compile(r"(?m)^([A-Za-z0-9._-]+)==([^ \\]+)")
_LOWEST = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?>=([0-9.]+)")


def lowest(pyproject: Path) -> list[str]:
    """Return the lower bounds of what users install, as pins."""
    dependencies = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["dependencies"]
    found = [_LOWEST.match(each) for each in dependencies]
    missing = [each for each, match in zip(dependencies, found, strict=True) if match is None]
    if missing:
        msg = f"These dependencies have no lower bound: {', '.join(missing)}."
        raise SystemExit(msg)
    return [f"{match[1]}=={match[2]}" for match in found if match is not None]


def locked(*files: Path) -> list[str]:
    """Return the versions of lock files, as pins."""
    return sorted({f"{name}=={version}" for file in files for name, version in _LOCKED.findall(file.read_text())})


def known_problems(pins: Iterable[str], advisories: Path = ADVISORIES) -> list[str]:
    """Return the pins below the mends of known advisories, a line for each."""
    mended = tomllib.loads(advisories.read_text(encoding="utf-8"))["mended"]
    lines: list[str] = []
    for pin in pins:
        name, _, version = pin.partition("==")
        found = mended.get(name.lower().replace("_", "-"))
        if found is not None and Version(version) < Version(found["version"]):
            lines.append(f"{pin}: {', '.join(found['advisories'])}, mended in {found['version']}")
    return lines


def rounds(pins: Iterable[str]) -> list[list[str]]:
    """Share pins out so that each list has a package once, as pip-audit wants it: locks differ by Python and group."""
    shared: list[dict[str, str]] = []
    for pin in pins:
        name = pin.partition("==")[0].lower()
        free = next((one for one in shared if name not in one), None)
        if free is None:
            shared.append(free := {})
        free[name] = pin
    return [list(one.values()) for one in shared]


def problems(report: str) -> tuple[list[str], int]:
    """Return what pip-audit has found, a line for each advisory, and how many packages it has had an answer about.

    Where it has had any, each package without one is a line, too.
    """
    packages = json.loads(report)["dependencies"]
    answered = sum("skip_reason" not in package for package in packages)
    lines: list[str] = []
    for package in packages:
        if answered and "skip_reason" in package:
            lines.append(f"{package['name']}: {package['skip_reason']}")
        for advisory in package.get("vulns", ()):
            fixed = ", ".join(advisory["fix_versions"]) or "no version yet"
            lines.append(f"{package['name']} {package['version']}: {advisory['id']}, mended in {fixed}")
    return lines, answered


def audit(pins: list[str]) -> tuple[list[str], int]:
    """Ask for advisories about some versions, each of another package; without an answer it counts none."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pins))
        file.flush()
        command = [*_PIP_AUDIT, "-r", file.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            return [], 0
    if not done.stdout:
        sys.stderr.write(done.stderr[-500:])
        return [], 0
    return problems(done.stdout)


def in_red(text: str) -> str:
    """Return a text in red where it is read on a terminal or in the log of continuous integration."""
    shown = sys.stderr.isatty() or os.environ.get("CI")
    return f"\033[1;31m{text}\033[0m" if shown and not os.environ.get("NO_COLOR") else text


def main(arguments: Sequence[str]) -> int:
    """Audit both, and return 1 where there is anything to tell, and 3 where nobody has answered."""
    groups = {"lock": locked(*sorted(HERE.glob("*.txt"))), "lowest": lowest(HERE.parent / "pyproject.toml")}
    lines = [f"{name}: {line}" for name, pins in groups.items() for line in known_problems(pins)]
    unanswered = 0
    for name, pins in groups.items():
        for each in rounds(pins):
            found, answered = ([], 0) if unanswered else audit(each)  # who has not answered once is not asked again
            unanswered += 0 if answered else len(each)
            lines += [f"{name}: {line}" for line in found]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    if lines:
        return 1
    if unanswered:
        sys.stderr.write(
            in_red(
                f"NOT AUDITED: there was no answer about {unanswered} versions. The index in use may have packages "
                "alone, or there is no network. They are above the advisories of requirements/advisories.toml; newer "
                "ones are unknown."
            )
            + "\n"
        )
    return 3 if unanswered and "--where-answered" not in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
