"""A store over HTTP that lies once, at each request of a checkpoint, a stop and a restore in turn: nothing is lost.

The client asks again where an answer is missing. What it asks again may have been done, which the job has to know. It
does not ask again where the body of an answer is torn: that may cost a start, as an outage does.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Sheet, Story
from tests.lifecycle.sink import FolderSink, published
from tests.services.proxy import FAILED, UNAVAILABLE, Proxy
from tests.unit.driver.restore.test_finished_operators import Counts

from penstock._engine.protocol.control import StopMode
from penstock._engine.savepoints.leftovers import find_leftovers, remove_leftovers
from penstock._engine.savepoints.survey import LeftoverPlaces
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointStorageError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.services.s3 import S3Server

pytestmark = [pytest.mark.s3, pytest.mark.sampled(45)]

#: More requests than a life has, which the last case looks at; a case has one in so many of them.
MOST, PARTS = 108, 36
NUMBERS = range(10)
TRUTH = Counter((number, number // 3 + 1) for number in NUMBERS)
LIES: dict[str, Callable[[Proxy, Callable[[str], bool]], None]] = {
    "503": lambda proxy, choose: proxy.refuse(choose),
    "lost answer": lambda proxy, choose: proxy.lose(choose),
    "lost answer, then 503": lambda proxy, choose: proxy.lose(choose, UNAVAILABLE),
    "lost answer, then 500": lambda proxy, choose: proxy.lose(choose, FAILED),
    "torn answer": lambda proxy, choose: proxy.tear(choose),
}


def program(place: Path, sheet: Sheet) -> None:
    counts = sheet.source("numbers", NUMBERS).key_by(lambda number: number % 3).process(Counts()).uid("counts")
    counts.sink_to(FolderSink(place / "out")).uid("out")


def lived(place: Path, bucket: str, settings: dict[str, str]) -> list[Any]:
    """Run a job, stop it with a savepoint, and start it from there to its end; return the errors on the way."""
    story, errors = Story(place), list[Any]()
    where = {"checkpoints": f"s3://{bucket}/checkpoints", "savepoints": f"s3://{bucket}/savepoints", "inline": "0 b"}
    where |= {"job_id": "ab" * 16, "first": "true", **settings}
    start: dict[str, Any] = {"recover": "latest", "asks": {3: StopMode.SUSPEND}}
    while len(errors) < 3:
        try:
            chapter = story.run(partial(program, place), **start, **where)
        except PenstockError as error:  # before there is a driver
            errors.append(error)
            continue
        if chapter.status is not JobStatus.FINISHED:
            errors.append(chapter.error)
        elif chapter.answers and chapter.answers[0].exception(0) is None:
            start = {"recover": chapter.savepoint, "claim": "CLAIM"}
        elif not chapter.answers:
            return errors
    return errors


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("lie", LIES)
def test_one_lie_costs_no_record(tmp_path: Path, server: S3Server, bucket: str, lie: str, part: int) -> None:
    for at in range(part + 1, MOST, PARTS):
        place, prefix, requests = tmp_path / str(at), f"{bucket}/{at}", count(1)
        with Proxy(server.port) as proxy:
            LIES[lie](proxy, lambda _, at=at, requests=requests: next(requests) == at)  # type: ignore[misc]
            errors = lived(place, prefix, {**server.settings, "s3.endpoint": proxy.endpoint})
            told = [*proxy.lost, *proxy.refused, *proxy.torn]
        is_torn = lie == "torn answer"
        assert len(errors) <= is_torn, (at, told, errors)
        assert all(isinstance(error, CheckpointStorageError) for error in errors), (at, told, errors)
        assert published(place / "out") == TRUTH, (at, told)
        if is_torn:
            there = (f"s3://{prefix}/checkpoints",), (f"s3://{prefix}/savepoints",)
            options = tuple(server.settings.items())
            survey = find_leftovers(LeftoverPlaces(*there, local=False, options=options), min_age_ms=0)
            assert remove_leftovers(survey.leftovers, server.settings).failed == ()
        kept = [key for key in server.keys(bucket) if key.startswith(f"{at}/")]
        whole = {key.rpartition("/")[0] for key in kept if "/savepoints/" in key and key.endswith("/_metadata")}
        assert not whole or is_torn, "a claimed savepoint goes with its job"
        of_others = [key for key in kept if not key.endswith("/_metadata") and "/.starts/" not in key]
        assert [key for key in of_others if key.rpartition("/")[0] not in whole] == [], (at, told)
        assert at < MOST - 1 or not told, "a life has no more requests than this"
