"""A driver is stopped, another one does its job, and the old one goes on: it changes nothing any more and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fault.job import is_truth
from tests.fault.support import Driver, finish, last, not_reached, points

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fault

#: The driver has put its claim and found it to be the first of its place.
CLAIMED = "list_chain_entries-2-after"


@pytest.mark.parametrize("point", points("put_chain_entry-4-before", "link_part-2-before"))
def test_driver_that_was_stopped_while_another_did_its_job_is_fenced_and_says_so(tmp_path: Path, point: str) -> None:
    with Driver(tmp_path, "--stop", point) as old:
        if not old.wait_until_stopped():
            not_reached(point)
            pytest.fail(f"the driver ended before {point}")
        passed = (tmp_path / "points").read_text().split()
        finish(tmp_path)
        ended = old.go_on()
    if CLAIMED in passed and last("link_metadata") not in passed:
        assert ended.was_fenced, ended.log
    else:  # it finds the job finished, or had finished it
        assert ended.has_finished, ended.log
    assert is_truth(tmp_path)
