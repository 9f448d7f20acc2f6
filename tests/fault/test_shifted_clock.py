"""A process that is told another time of day while its job runs: nothing waits for it, and nothing is hurried by it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.fault.shifted_clock import RECORDS

if TYPE_CHECKING:
    from pathlib import Path

#: An epoch begins each 200 ms; a machine under load may be late, but no minute or hour.
LATEST_MS = 10_000


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-60, r"set back by (\d+\.\d) s"), (3_600, r"went ahead by (\d+\.\d) s")],
    ids=["back", "ahead"],
)
def test_real_driver_keeps_its_pace_when_the_clock_of_its_process_is_set(
    tmp_path: Path, seconds: int, told: str
) -> None:
    command = [sys.executable, "-m", "tests.fault.shifted_clock", str(tmp_path), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    gaps, status, runtime_ms, log, numbers = json.loads(done.stdout)
    assert status == "FINISHED"
    assert numbers == list(range(RECORDS))
    assert len(gaps) > 2
    assert max(gaps) < LATEST_MS
    assert 0 <= runtime_ms < 50_000
    [line] = log
    found = re.search(told, line)
    assert found
    assert abs(float(found[1]) - abs(seconds)) < 0.5
