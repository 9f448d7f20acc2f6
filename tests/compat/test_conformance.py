"""Whole programs give what PyFlink 2.3.0 gave: values, types, order where it is defined, and printed text.

Each program runs in a process of its own, through the same runner that recorded ``expected`` with PyFlink.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "conformance"
SOURCES = Path(__file__).parents[2] / "src"
PROGRAMS = sorted(path.stem for path in (HERE / "programs").glob("*.py"))


@pytest.mark.spark
@pytest.mark.parametrize("program", PROGRAMS)
def test_program_gives_what_pyflink_gave(program: str) -> None:
    command = [sys.executable, str(HERE / "run.py"), "penstock", program, "--compare", "--modes", "STREAMING"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"PASS {program}\n")
