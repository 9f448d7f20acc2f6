"""Long runs on Spark: `pytest -m endurance`. Each program runs in a process of its own and prints what it saw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

pytestmark = pytest.mark.endurance

ROOT = Path(__file__).parents[2]
#: Epochs before a source ends, and as many again after it.
EPOCHS = int(os.environ.get("PENSTOCK_TEST_EPOCHS", "1000"))
LIMIT_S = max(1_700, 5 * EPOCHS)


def run(program: str, *arguments: object) -> tuple[list[dict[str, Any]], str]:
    """Run a program to its end; return what it printed, and what it logged."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.endurance.{program}", *map(str, arguments)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for line in lines:
        print(json.dumps(line))
    return lines, done.stderr


def assert_flat(looks: list[dict[str, int]], name: str, slack: int) -> None:
    """Compare the last third of the looks at a running job with the second fifth, when all has warmed up.

    A single look may meet connections or files of an epoch that are there for a moment.
    """
    values = [each[name] for each in looks]
    early, late = values[len(values) // 5 : 2 * len(values) // 5], values[-(len(values) // 3) :]
    assert median(late) <= median(early) + slack, f"{name} grew: {values}"


def test_two_thousand_epochs_leave_nothing_behind(tmp_path: Path) -> None:
    (*looks, last), _ = run("long_job", tmp_path, EPOCHS)
    assert looks[-1]["checkpoint"] > 1.9 * EPOCHS
    for name, slack in {
        "driver_mib": 30,
        "driver_threads": 2,
        "driver_descriptors": 5,
        "jvm_heap_mib": 15,
        "jvm_threads": 10,
        "jvm_descriptors": 10,
        "workers": 0,
        "worker_mib": 15,
        "worker_descriptors": 3,
        "checkpoint_files": 10,
        "checkpoint_kib": 300,
        "spark_files": 20,
    }.items():
        assert_flat(looks, name, slack)
    assert max(each["spark_jobs"] for each in looks) <= 1
    assert last["spark_jobs"] == 0
    assert last["driver_threads"] <= looks[0]["driver_threads"]

    lines = [line for path in (tmp_path / "out").rglob("part-*") for line in path.read_text().splitlines()]
    assert len(lines) == 3 * EPOCHS * 100


def test_fast_source_before_a_slow_map_stays_in_its_bounds(tmp_path: Path) -> None:
    (seen,), log = run("pressure", "slow_map", tmp_path, 120)
    assert "runs again" not in log
    assert seen["epochs"] > 2
    # The first epoch does not know yet how slow the map is, and reads 1,000 records.
    assert seen["p50_s"] < 6
    assert seen["most_s"] < 30
    assert seen["worker_mib"][-1] <= seen["worker_mib"][len(seen["worker_mib"]) // 3] + 10


def test_three_sources_on_two_cores_all_get_on(tmp_path: Path) -> None:
    (seen,), log = run("pressure", "three_sources", tmp_path, 60)
    assert "runs again" not in log
    assert max(seen["longest_gap_s"].values()) < 10
    most, least = max(seen["records"].values()), min(seen["records"].values())
    assert least > most / 4


def test_ten_thousand_files_are_read_once_each(tmp_path: Path) -> None:
    (seen,), log = run("pressure", "many_files", tmp_path, 300)
    assert "runs again" not in log
    assert seen["right"], f"{seen['records']} lines were written"
