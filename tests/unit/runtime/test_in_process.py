"""The runner without Spark: what it promises to those who test with it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from tests.kit.epochs import EpochFailedError, Job
from tests.kit.program import Program

from penstock._engine.protocol.rows import PayloadKind
from penstock.errors import EpochCancelledError, EpochInfrastructureError
from penstock.testing.in_process import Chaos, InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._engine.protocol.rows import Row


@pytest.fixture
def program(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    stream = program.source(list(range(40))).rebalance().map(lambda n: n).set_parallelism(4)
    program.collect(stream.key_by(lambda n: n % 3).map(lambda n: n).set_parallelism(3))
    return program


def test_one_seed_gives_one_course_of_events(program: Program, tmp_path: Path) -> None:
    courses: list[list[str]] = []
    for attempt in ("first", "second"):
        runner = InProcessEpochRunner(workers=3, chaos=Chaos(retries=0.2, mixtures=0.1, losses=0.1), seed=11)
        job, course = Job(program.graph(), tmp_path / attempt, runner, slots=3), list[str]()
        while not job.finished:
            try:
                voids = job.voids
                job.epoch(5)
                course.append("void" if job.voids > voids else "accepted")
            except EpochInfrastructureError:
                course.append("lost")
        courses.append(course)
        assert sorted(job.outputs["out"]) == list(range(40))
    assert courses[0] == courses[1]
    assert set(courses[0]) == {"accepted", "void", "lost"}


def test_cancel_interrupts_the_next_epoch_and_no_other(program: Program, tmp_path: Path) -> None:
    job = Job(program.graph(), tmp_path)
    job.runner.cancel()
    with pytest.raises(EpochCancelledError):
        job.epoch(5)
    job.epoch(5)
    assert job.checkpoint_id == 1


def test_the_garbage_collector_is_left_as_it_was(program: Program, tmp_path: Path) -> None:
    before = gc.get_threshold()
    Job(program.graph(), tmp_path).epoch(5)
    assert gc.get_threshold() == before


def test_hosts_do_not_share_local_state(program: Program, tmp_path: Path) -> None:
    program.collect(program.source(["a"] * 30).key_by(lambda x: x).reduce(lambda a, b: a + b).set_parallelism(2), "sum")
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(workers=2, hosts=2, seed=2))
    job.run(2)
    assert sorted(path.name for path in (tmp_path / "local").iterdir()) == ["host-0", "host-1"]
    assert job.outputs["sum"][-1] == "a" * 30


# ------------------------------------------------------------------------------- rows that a shuffle does not deliver


class Damaging(InProcessEpochRunner):
    """What a task reads is damaged once: the rows of one sender to one subtask."""

    def __init__(self, damage: Callable[[list[Row]], list[Row]], kind: PayloadKind = PayloadKind.DATA) -> None:
        super().__init__()
        self.damage, self.kind, self.times = damage, kind, 1

    def _read(self, attempts: list[list[Row]], slot: int) -> list[Row]:
        rows = super()._read(attempts, slot)
        blocks = [row for row in rows if row.kind == self.kind]
        if not blocks or not self.times:
            return rows
        self.times = 0
        own = [row for row in blocks if (row.target, row.channel) == (blocks[0].target, blocks[0].channel)]
        return [*self.damage(own), *(row for row in rows if row not in own)]


def test_a_row_that_comes_twice_breaks_the_epoch_off(program: Program, tmp_path: Path) -> None:
    with pytest.raises(EpochFailedError, match="came out of order"):
        Job(program.graph(), tmp_path, Damaging(lambda rows: [*rows, rows[-1]])).epoch(40)


@pytest.mark.parametrize("kind", [PayloadKind.DATA, PayloadKind.CLOSING])
def test_an_epoch_does_not_count_in_which_the_last_row_of_a_sender_is_missing(
    program: Program, tmp_path: Path, kind: PayloadKind
) -> None:
    job = Job(program.graph(), tmp_path, Damaging(lambda rows: rows[:-1], kind))
    assert job.epoch(40) == {}
    assert job.voids == 1
    job.run(40)
    assert job.voids == 1
