"""A copy of the tree, in which the program is changed and tests run: the one that people work on stays as it is."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".campaign" / "mutants"
TREE = WORK / "tree"
#: What a process may have, as a mutant may fill its memory for ever.
MAX_BYTES = 6 << 30


def copy_tree() -> None:
    """Make the copy anew."""
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(parents=True)
    for path in ROOT.iterdir():
        if path.is_dir() and not path.name.startswith(".") and path.name not in ("out", "build", "dist"):
            shutil.copytree(path, TREE / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.is_file():
            shutil.copy2(path, TREE / path.name)


@contextmanager
def content(path: str, source: bytes) -> Iterator[None]:
    """Let a file of the copy have another content for a while."""
    place = TREE / path
    before = place.read_bytes()
    _forget_compiled(place)
    place.write_bytes(source)
    try:
        yield
    finally:
        place.write_bytes(before)
        _forget_compiled(place)


def _forget_compiled(path: Path) -> None:
    """Delete what Python compiled of a file: two mutants of one second and one size look the same to it."""
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def run_tests(options: list[str], tests: list[str], limit_s: float | None = None, **extra: str) -> str | None:
    """Run tests in the copy.

    Args:
        options: Of pytest.
        tests: Which tests, or files of tests; all when there are none.
        limit_s: After so many seconds they count as failed.
        **extra: Variables of the environment.

    Returns:
        What failed first, or None.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", *options]
    if any("::" in test for test in tests):
        (WORK / "tests").write_text("\n".join(tests), encoding="utf-8")
        extra["PENSTOCK_CHOSEN_TESTS"] = str(WORK / "tests")
        command += ["-p", "tests.campaign.choosing"]
    command += [file for file in dict.fromkeys(test.split("::")[0] for test in tests) if (TREE / file).exists()]
    environment = {key: value for key, value in os.environ.items() if key != "HYPOTHESIS_PROFILE"}
    environment |= {"PYTHONPATH": str(TREE / "src"), **extra}
    with (WORK / "output").open("w") as output:
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
    # 5: there are no such tests, or no longer.
    return None if code in (0, 5) else next(iter(failed_tests()), f"exit code {code}")


def failed_tests() -> list[str]:
    """Return the tests that failed in the last run."""
    text = (WORK / "output").read_text(encoding="utf-8", errors="replace")
    return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE)
