"""A job whose levels run at the same time, on a Spark of its own."""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from typing import TYPE_CHECKING

import pytest
from tests.spark.pipelined_job import INTERVAL_MS, NUMBERS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark


def test_records_reach_the_sink_while_their_epoch_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.pipelined_job", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for file in (tmp_path / "out").iterdir() for line in file.read_text().splitlines()]
    found = sorted((int(number), int(count)) for number, count, _ in lines)
    assert found == [(number, number // 7 + 1) for number in range(NUMBERS)]
    late_ms = sorted(int(late) for *_, late in lines)
    assert median(late_ms) < INTERVAL_MS / 4  # with the other exchange it is about half of the interval at least
    for seconds in done.stdout.splitlines()[-2:]:  # nor does a request wait for the end of an epoch, nor a failure
        assert float(seconds) < INTERVAL_MS / 1_000 / 3
