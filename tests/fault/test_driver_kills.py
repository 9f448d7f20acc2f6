"""SIGKILL of the driver before and after each of its steps: the next one goes on, and the files hold the truth.

A real process with real checkpoints and files; its epochs run in the process itself, so a case takes two seconds. In
``make test`` a few points stand for all of them; ``make campaign`` takes each one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fault.job import is_truth, published
from tests.fault.support import finish, killed_at, last, points, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fault

#: Both sides of a commit point: while the commit before it runs, and before anything has followed from it.
TELLING = ("put_chain_entry-4-before", "link_metadata-3-after")
#: Leaves a checkpoint whose commit is outstanding, so that a recovery has all there is to do.
COMPLETED = "put_chain_entry-3-after"


@pytest.mark.parametrize("point", points(*TELLING))
@pytest.mark.behaviour(29)
def test_kill_at_any_point_leaves_the_truth_to_the_next_driver(tmp_path: Path, point: str) -> None:
    killed_at(tmp_path, point)
    finish(tmp_path)


@pytest.mark.parametrize("point", points("link_metadata-1-after", kills=(COMPLETED,)))
def test_kill_of_the_driver_that_recovers_leaves_the_truth_to_the_third(tmp_path: Path, point: str) -> None:
    killed_at(tmp_path, COMPLETED)
    killed_at(tmp_path, point)
    finish(tmp_path)


@pytest.mark.both_exchanges
@pytest.mark.parametrize("point", points("write_savepoint-1-after", options=("--suspend",)))
def test_kill_at_any_point_of_a_stop_with_savepoint_loses_neither_the_job_nor_a_record(
    tmp_path: Path, point: str
) -> None:
    killed_at(tmp_path, point, "--suspend")
    ended = run(tmp_path)  # where the stop was past its commit point, it ends here, and the next start goes on
    assert ended.has_finished, ended.log
    finish(tmp_path)


@pytest.mark.parametrize("point", points("link_metadata-4-after", options=("--drain",)))
def test_kill_at_any_point_of_a_drain_loses_neither_the_job_nor_a_record(tmp_path: Path, point: str) -> None:
    killed_at(tmp_path, point, "--drain")
    ended = run(tmp_path)  # where the drain was past its commit point, it ends here, and nothing more is read
    assert ended.has_finished, ended.log
    if is_truth(tmp_path):
        return
    [savepoint] = (path.parent for path in (tmp_path / "savepoints").glob("*/_metadata"))
    finish(tmp_path, "--restore", str(savepoint))


@pytest.mark.parametrize("point", points("put_chain_entry-2-before", first=("--suspend",)))
def test_kill_of_a_driver_that_restores_a_savepoint_leaves_the_truth_to_the_next(tmp_path: Path, point: str) -> None:
    assert run(tmp_path, "--suspend").has_finished
    killed_at(tmp_path, point)
    finish(tmp_path)


def test_kill_between_the_last_commit_and_the_exit_leaves_the_truth(tmp_path: Path) -> None:
    killed_at(tmp_path, last("publish_parts"))
    finish(tmp_path)


def test_commit_that_is_still_put_off_when_the_next_checkpoint_lands_is_done_by_the_next_driver(
    tmp_path: Path,
) -> None:
    killed_at(tmp_path, COMPLETED, "--put-off")
    assert published(tmp_path) == []
    finish(tmp_path)
