"""Lives of a job whose topics change at random moments: it ends right, or with an error that names the change."""

from __future__ import annotations

import os
import random
import re
from typing import TYPE_CHECKING

import pytest
from tests.fault.job import are_truth
from tests.kafka.job import PARTITIONS, Route, Running, counting
from tests.kafka.test_faults import SOON

from penstock._connectors.kafka import topics as looking
from penstock.errors import JobExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kafka.conftest import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.fault]

LIVES = int(os.environ.get("PENSTOCK_TEST_LIVES", "3"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
NUMBERS = 400


class Life:
    """One job, its topics, and what happens to them."""

    def __init__(self, topics: Topics, place: Path, draw: random.Random) -> None:
        self._topics, self._place, self._draw = topics, place, draw
        self._route = Route(topics.bootstrap, topics.new(PARTITIONS), topics.new(2), SOON)
        topics.fill(self._route.numbers, [str(number) for number in range(NUMBERS)])
        #: What topics had that were made anew since.
        self.before: list[str] = []
        self.count = NUMBERS
        #: What the error says, if there is one.
        self.says = ""
        of_source = [self.more_partitions, self.source_anew, self.source_deleted]
        self.change: Callable[[], None] = draw.choice(
            [*of_source, self.sink_anew, self.sink_compacted, self.sink_small]
        )

    def more_partitions(self) -> None:
        more = 50
        self._topics.extend(self._route.numbers, PARTITIONS + 1)
        self._topics.fill(self._route.numbers, [str(NUMBERS + one) for one in range(more)], partition=PARTITIONS)
        self.count += more

    def source_anew(self) -> None:
        self.says = f"{self._route.numbers}.*(made anew|was deleted)"
        self._topics.make_anew(self._route.numbers, self._draw.choice([1, PARTITIONS]))
        more = self._draw.choice([0, 3 * NUMBERS])
        self._topics.fill(self._route.numbers, [str(NUMBERS + one) for one in range(more)])

    def source_deleted(self) -> None:
        self.says = f"{self._route.numbers}.*was deleted"
        self._topics.delete(self._route.numbers)

    def sink_anew(self) -> None:
        self.before += self._topics.values(self._route.counts, 2)
        self._topics.make_anew(self._route.counts, 2)

    def sink_compacted(self) -> None:
        self.says = f"{self._route.counts}.*(has no key|[Cc]ompacted|validate record)"
        self._topics.configure(self._route.counts, **{"cleanup.policy": "compact"})

    def sink_small(self) -> None:
        self._topics.configure(self._route.counts, **{"max.message.bytes": "300"})

    def job(self) -> Running:
        route = self._route
        if self.change == self.more_partitions:  # a bounded source looks once
            source = route.source().set_property("partition.discovery.interval.ms", "100")
            job = counting(route, self._place, source, 25, attempts="4")
            job.drain_behind(1, NUMBERS + 50, self._place / "savepoints")
            return job
        return counting(route, self._place, route.bounded(), 25, attempts="4")

    def live(self) -> None:
        """Run the job to its end, with a change while an epoch runs, before a commit, or between two runs."""
        moments = ["epoch", "commit", "between"]
        if self.change == self.more_partitions:
            moments.remove("between")
        if self.change == self.sink_anew:  # a commit may be under way, and go with the old topic
            moments.remove("epoch")
        moment, number = self._draw.choice(moments), self._draw.randrange(2, 5)
        job = self.job()
        if moment == "between":
            job.at_epoch(number, job.driver.cancel)
            job.run()
            self.change()
            job = self.job()
        elif moment == "epoch":
            job.at_epoch(number, self.change)
        else:
            job.at_commit(number, self.change)
        job.to_end()


def test_lives_of_jobs_whose_topics_change_end_right_or_with_an_error_that_names_the_change(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_KNOWN_S", 0.2)
    for number in range(LIVES):
        life = Life(topics, tmp_path / str(number), random.Random(SEED + number))
        told = ""
        (tmp_path / str(number)).mkdir()
        try:
            life.live()
        except JobExecutionError as error:
            told = str(error)
        found = [*life.before, *topics.values(life._route.counts, 2)]
        note = f"PENSTOCK_TEST_SEED={SEED + number}, {life.change.__name__}: {told}"
        if not told:
            assert are_truth(found, life.count), note
            continue
        assert re.search(life.says or "nothing", told), note
        assert len(set(found)) == len(found), note
        assert all(int(line.split(",")[1]) < NUMBERS for line in found), note
