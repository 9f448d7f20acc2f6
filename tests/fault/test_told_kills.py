"""SIGKILL of a driver between a commit and the operators behind it: each committable is passed on once.

Only in the campaign: in ``make test`` drivers of such jobs die at their steps in the process of the tests itself
(``test_post_commit``).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.fault.job import NUMBERS
from tests.fault.support import Driver
from tests.lifecycle.sink import published
from tests.unit.driver.life.post_commit_jobs import check_told

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fault.support import Run

pytestmark = [pytest.mark.fault, pytest.mark.endurance]

#: Behind a commit, before an entry says so; behind the entry with which an epoch has passed it on; and the same for the
#: sink that is told.
TELLING = ("commit_out-1-after", "put_chain_entry-2-before", "put_chain_entry-3-after", "commit_told-1-after")
KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "6"))


def run(directory: Path, *options: str) -> Run:
    directory.mkdir(exist_ok=True)
    with Driver(directory, *options, program="tests.fault.told_driver") as driver:
        return driver.end()


def drawn(place: Path) -> list[str]:
    """Return points at which lives end: the telling ones, and random ones of an undisturbed run."""
    undisturbed = run(place)
    assert undisturbed.has_finished, undisturbed.log
    points = (place / "points").read_text().split()
    assert set(TELLING) <= set(points)
    return [*TELLING, *random.Random(os.environ.get("PENSTOCK_TEST_SEED", "1")).choices(points, k=KILLS)]


def test_operators_behind_a_commit_get_each_committable_once_after_kills_at_points_around_it(tmp_path: Path) -> None:
    killed = 0
    for number, point in enumerate(drawn(tmp_path / "undisturbed")):
        place = tmp_path / str(number)
        for _ in range(2):  # the driver that goes on is killed as well, if it comes to that point
            ended = run(place, "--kill", point)
            assert ended.was_killed or ended.has_finished, ended.log
            killed += ended.was_killed
        last = run(place)
        assert last.has_finished, last.log
        assert published(place / "out") == Counter(range(NUMBERS)), point
        check_told(place / "out", place / "told")
        check_told(place / "told", place / "told-of-told")
    assert killed >= len(TELLING)
