"""What a job that ended leaves in its directory of checkpoints, whatever it went through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.driving import CrashError
from tests.kit.stories import Sheet, Story

from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver

STATE_IN_FILES = {"inline": "0 b", "job_id": "ab" * 16}


def totals(sheet: Sheet) -> None:
    numbers = sheet.source("numbers", list(range(40)))
    sheet.collect(numbers.key_by(lambda number: number % 3).reduce(lambda a, b: a + b).uid("totals"))


def kill_behind_an_epoch(instruction: do.Instruction, perform: Callable[[do.Instruction], None]) -> None:
    """End the process when its epoch has written files that no checkpoint names yet."""
    if isinstance(instruction, do.PutChainEntry) and instruction.entry.kind is ChainEntryKind.CHECKPOINT:
        raise CrashError
    perform(instruction)


def cancel(driver: JobDriver) -> None:
    driver.cancel()


@pytest.mark.parametrize("ends", ["finished", "stopped", "cancelled", "cancelled, and to keep nothing"])
def test_directory_of_an_ended_job_holds_its_records_and_only_what_its_retention_asks_for(
    ends: str, tmp_path: Path
) -> None:
    story, keeps = Story(tmp_path), ends == "cancelled"
    settings = dict(STATE_IN_FILES)
    if ends.endswith("nothing"):
        settings["retention"] = "DELETE_ON_CANCELLATION"
    story.run(totals, asks={3: StopMode.SUSPEND}, **settings)
    with pytest.raises(CrashError):
        story.run(totals, step=kill_behind_an_epoch, recover="latest", **settings)
    job = tmp_path / "checkpoints" / ("ab" * 16)
    assert list((job / "shared").iterdir()), "the killed run has left files of its epoch"
    asks = {2: StopMode.SUSPEND} if ends == "stopped" else {} if ends == "finished" else {3: cancel}
    last = story.run(totals, asks=asks, recover="latest", **settings)
    assert last.status is (JobStatus.CANCELED if "cancelled" in ends else JobStatus.FINISHED)
    kinds = [record.kind for record in story.records_of_jobs()]
    assert (ChainEntryKind.CHECKPOINT in kinds) == keeps
    assert {ChainEntryKind.TAKEOVER} <= {*kinds} <= {*ChainEntryKind}
    files = {path for path in job.rglob("*") if path.is_file()}
    assert {path for path in files if path.name == "_metadata"} == {*job.glob("chk-*/_metadata")}
    assert any(path.parent.name == "shared" for path in files) == keeps
    assert keeps or files == {*job.glob("chk-*/_metadata")}
