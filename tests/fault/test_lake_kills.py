"""SIGKILL of a driver that appends to a Delta table and an Iceberg table: both hold each record once.

In ``make test`` two telling points, in one life; the campaign draws points of all that there are.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from tests.connectors.catalogs import rows_of
from tests.fault.job import NUMBERS
from tests.fault.support import PATIENCE_S, ROOT

if TYPE_CHECKING:
    from pathlib import Path

#: Right behind what makes a checkpoint visible in a table, before anything knows of it; the first that a life makes
#: visible, because a slow committer gets several checkpoints together.
TELLING = ("version-1-after", "catalog-1-after")
KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "0"))


def run(directory: Path, *options: str) -> int:
    directory.mkdir(exist_ok=True)
    with (directory / "log").open("ab") as log:
        command = [sys.executable, "-m", "tests.fault.lake_driver", str(directory), *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, timeout=PATIENCE_S, check=False
        )
    return done.returncode


def ids(directory: Path) -> tuple[list[int], list[int]]:
    """Return what readers see in both tables, in order."""
    delta = directory / "delta"
    found = DeltaTable(str(delta)).to_pyarrow_table()["id"].to_pylist() if (delta / "_delta_log").exists() else []
    return sorted(found), [row["id"] for row in rows_of(directory / "iceberg")]


def drawn(place: Path) -> list[str]:
    """Return points at which the lives end: random ones of an undisturbed run."""
    if not KILLS:
        return list(TELLING)
    assert run(place) == 0, (place / "log").read_text()
    points = (place / "points").read_text().split()
    return random.Random(os.environ.get("PENSTOCK_TEST_SEED", "1")).choices(points, k=KILLS)


@pytest.mark.fault
def test_tables_hold_each_record_once_after_kills_at_points_of_a_commit(tmp_path: Path) -> None:
    place = tmp_path / "job"
    killed = 0
    for point in drawn(tmp_path / "undisturbed"):
        code = run(place, "--kill", point)
        assert code in {0, -signal.SIGKILL}, (place / "log").read_text()
        killed += code != 0
        for found in ids(place):
            assert len(found) == len(set(found)), f"killed at {point}: rows twice"
    assert killed == len(TELLING) if not KILLS else killed > 0
    assert run(place) == 0, (place / "log").read_text()
    assert ids(place) == (list(range(NUMBERS)), list(range(NUMBERS)))
