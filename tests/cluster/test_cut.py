"""A job whose driver's host, and then a worker's host, are cut off: packets are lost, and no process ends or stops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.network import alone

pytestmark = [
    *(pytest.mark.spark, pytest.mark.s3, pytest.mark.fault),
    pytest.mark.skipif("PENSTOCK_TEST_CUT" not in os.environ, reason="takes minutes: for the campaign"),
]

ROOT = Path(__file__).parents[2]
#: For how long each of the two hosts is cut off.
CUT_S = os.environ.get("PENSTOCK_TEST_CUT", "60")
PATIENCE_S = 1200


def test_job_is_exact_and_goes_on_after_cuts_of_the_network_and_tells_of_them() -> None:
    ended = subprocess.run(
        [*alone(), sys.executable, "-m", "tests.cluster.cut_off", CUT_S],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-6000:]  # it has compared the output
    result = json.loads(ended.stdout)
    assert not any(counted for _, counted in result["failures"])
    assert any(reason.startswith("ExecutorLostError") for reason, _ in result["failures"]), result["failures"]
