"""The demo on a cluster, by the command of docs/cluster.md: a year of flights, killed on the way and resumed."""

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


def test_demo_is_killed_and_resumed_by_spark_submit_and_writes_the_same_lines(cluster: Standalone) -> None:
    out = cluster.shared / "flights"
    command = [str(SUBMIT), "--master", cluster.url, "examples/flights/run.py", "--out", str(out), "--crash"]
    variables = {**cluster.environment(), "PYSPARK_PYTHON": sys.executable, "PENSTOCK_REST__ENABLED": "false"}
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "Both runs wrote the same lines" in done.stdout
