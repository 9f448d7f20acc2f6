"""Looks for known advisories about the locked versions of dependencies, and about the lowest ones that users may have.

Usage: python3 dev.py audit. It asks the Python Package Index itself; a mirror that has packages alone knows none, and
then it fails rather than to say that all is well.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
_PIP_AUDIT = (
    *(sys.executable, "-m", "uv", "tool", "run", "pip-audit"),
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


def problems(report: str) -> list[str]:
    """Return what pip-audit has found, a line for each advisory and for each package that it could not ask about."""
    lines: list[str] = []
    for package in json.loads(report)["dependencies"]:
        if "skip_reason" in package:
            lines.append(f"{package['name']}: {package['skip_reason']}")
        for advisory in package.get("vulns", ()):
            fixed = ", ".join(advisory["fix_versions"]) or "no version yet"
            lines.append(f"{package['name']} {package['version']}: {advisory['id']}, mended in {fixed}")
    return lines


def audit(pins: list[str]) -> list[str]:
    """Ask for advisories about some versions."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pins))
        file.flush()
        command = [*_PIP_AUDIT, "-r", file.name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        msg = "pip-audit gave no report; see above."
        raise SystemExit(msg)
    return problems(done.stdout)


def main() -> int:
    """Audit both, and return 1 where there is anything to tell."""
    wrong = 0
    groups = {"lock": locked(*sorted(HERE.glob("*.txt"))), "lowest": lowest(HERE.parent / "pyproject.toml")}
    for name, pins in groups.items():
        lines = audit(pins)
        wrong += len(lines)
        sys.stdout.write("".join(f"{name}: {line}\n" for line in lines))
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
