"""The demo on a cluster, by the commands of docs/cluster.md: a year of flights, also killed on the way and resumed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

if TYPE_CHECKING:
    from tests.cluster.standalone import Standalone

pytestmark = [
    *(pytest.mark.spark, pytest.mark.fault),
    pytest.mark.skipif("PENSTOCK_FLIGHTS_CRASH" not in os.environ, reason="takes minutes: for the campaign"),
]

ROOT = Path(__file__).resolve().parents[2]
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
SECONDS = 900


def printed(cluster: Standalone, command: list[str], **more: str) -> str:
    """Run a command with the cluster's environment, and return what it printed."""
    variables = {**cluster.environment(), "PYSPARK_PYTHON": sys.executable, "PENSTOCK_REST__ENABLED": "false", **more}
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_demo_is_killed_and_resumed_on_a_cluster_and_writes_the_same_lines(cluster: Standalone) -> None:
    command = [sys.executable, "-m", "penstock", "demo", "--out", str(cluster.shared / "killed"), "--crash"]
    assert "Both runs wrote the same lines" in printed(cluster, command, SPARK_MASTER=cluster.url)


def test_demo_runs_by_spark_submit(cluster: Standalone) -> None:
    program = "src/penstock/_demo/__main__.py"
    command = [str(SUBMIT), "--master", cluster.url, program, "--out", str(cluster.shared / "submitted")]
    assert "328,521 departures" in printed(cluster, command)
