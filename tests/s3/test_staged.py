"""Batch jobs with recovery whose events and results are in S3: killed, two at once, and without S3 for a while."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from tests.fault.staged import KILLED, StagedDrivers, StagedLife, now_s
from tests.fault.staged_job import TRUTH, WHOLE, attempts, published
from tests.services.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.s3, pytest.mark.fault]

#: So long S3 is away, in seconds; half a minute in the campaign.
AWAY_S = float(os.environ.get("PENSTOCK_S3_AWAY_S", "4"))


@pytest.fixture(scope="module")
def drivers() -> Iterator[StagedDrivers]:
    with StagedDrivers() as started:
        yield started


def test_drivers_that_die_and_one_that_was_stopped_leave_the_truth_with_their_events_in_s3(
    tmp_path: Path, server: S3Server, bucket: str, drivers: StagedDrivers
) -> None:
    where = {"checkpoints": f"s3://{bucket}/jobs", "settings": server.settings}
    life = StagedLife(tmp_path, where["checkpoints"], server.settings)
    assert drivers.run(tmp_path, **where, actions={"event-3-after": ["kill"]}) == KILLED
    life.killed(now_s())
    assert life.recorded()
    old = drivers.start(tmp_path, **where, actions={"event-2-before": ["stop"]})
    assert drivers.wait(old) is None
    life.killed(now_s())
    assert drivers.run(tmp_path, **where) == 0, (tmp_path / "log").read_text()
    life.check_end()
    os.kill(old, signal.SIGCONT)
    assert drivers.wait(old) == 3
    assert "FencedError: " in (tmp_path / "log").read_text()
    assert life.left("events") == []
    assert published(tmp_path) == TRUTH


def test_s3_that_is_away_for_a_while_costs_a_job_no_record_and_no_restart(
    tmp_path: Path, drivers: StagedDrivers
) -> None:
    with S3Server() as server:
        where = {"checkpoints": f"{server.make_bucket('away')}/jobs", "settings": server.settings}
        job = drivers.start(tmp_path, **where, actions={"event-3-before": ["stop"]})
        assert drivers.wait(job) is None
        server.kill()
        threading.Timer(AWAY_S, server.start).start()
        os.kill(job, signal.SIGCONT)
        assert drivers.wait(job) == 0, (tmp_path / "log").read_text()
        StagedLife(tmp_path, where["checkpoints"], server.settings).check_end()
    assert len(attempts(tmp_path)) == 2 * len(WHOLE)
