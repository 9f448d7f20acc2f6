"""On real Spark: the driver's process is killed, and the command starts the job from its newest checkpoint in S3."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fault.job import is_truth, published
from tests.fault.spark_driver import TOTAL
from tests.fault.support import ROOT

if TYPE_CHECKING:
    from tests.services.s3 import S3Server

pytestmark = [pytest.mark.s3, pytest.mark.spark, pytest.mark.fault]

#: Longest wait for a sign of life; a busy machine starts a JVM slowly.
PATIENCE_S = 400
PROGRAM = Path(__file__).with_name("program.py")


def start(directory: Path, server: S3Server, checkpoints: str, *options: str) -> subprocess.Popen[bytes]:
    """Run the program with the command; the configuration alone says how S3 is reached, for driver and tasks."""
    settings = ("-D", f"execution.checkpointing.dir={checkpoints}", "-D", "execution.checkpointing.interval=1s")
    state = ("-D", "execution.checkpointing.data-inline-threshold=120 bytes")
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "penstock", "run", *settings, *state, *options, PROGRAM, directory],
            cwd=ROOT,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
                **server.penstock_variables,
                "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
                "PENSTOCK_LOG__LEVEL": "DEBUG",
                "PENSTOCK_LOG__FORMAT": "text",
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def test_killed_job_goes_on_from_its_checkpoint_in_s3(tmp_path: Path, server: S3Server, bucket: str) -> None:
    checkpoints = f"s3://{bucket}/checkpoints"
    first = start(tmp_path, server, checkpoints)
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not (tmp_path / "waiting").exists():
            assert first.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)
    finally:
        first.kill()
        first.wait()
    assert 0 < len(published(tmp_path)) < TOTAL

    keys = server.keys(bucket)
    assert any("/shared/" in key for key in keys)
    newest = max(keys, key=lambda key: int(found.group(1)) if (found := re.search(r"/chk-(\d+)/", key)) else 0)
    path = f"s3://{bucket}/{newest.removesuffix('/_metadata')}"
    second = start(tmp_path, server, checkpoints, "-s", path)
    try:
        assert second.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()
    finally:
        second.kill()
        second.wait()
    assert is_truth(tmp_path, TOTAL)
    assert server.secret_key not in (tmp_path / "log").read_text()
    assert not any(server.secret_key.encode() in content for content in server.objects(bucket).values())
