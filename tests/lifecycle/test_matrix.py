"""Every way in which a job ends, with all that may be pending then: calls come in order, and sinks hold the truth.

A job that is stopped or dies goes on afterwards: from its savepoint, or from its last checkpoint.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import CLOCK
from tests.kit.diaries import CUT_SHORT, LIFE, Ending, Run
from tests.kit.driving import CrashError
from tests.lifecycle.subjects import GATE, SUBJECTS, Place, Subject, flat, published_in

from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from pathlib import Path


STATUS = {Ending.CANCEL: JobStatus.CANCELED}
HOUR_MS = 3_600_000

CELLS = [pytest.param(ending, subject, id=f"{ending.value}, {subject}") for ending in Ending for subject in SUBJECTS]


@pytest.mark.parametrize(("ending", "subject"), CELLS)
@pytest.mark.behaviour(16, 38, 39, 40, 46, 47, 48, 49, 52, 63, 182, 186)
def test_calls_come_in_order_and_sinks_hold_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: Ending, subject: Subject
) -> None:
    due_ms = CLOCK.now_ms() + HOUR_MS
    out = tmp_path / "out"
    out.mkdir()

    def run_of_subject(restore: str | None = None) -> Run:
        return Run(lambda env: subject.build(Place(env, out, due_ms)), tmp_path, monkeypatch, restore)

    first = run_of_subject("latest")
    if ending is Ending.CRASH:
        with pytest.raises(CrashError):
            first.to_its_end(ending, after=GATE)
    else:
        assert first.to_its_end(ending, after=GATE).status is STATUS.get(ending, JobStatus.FINISHED)
    assert_calls_in_order(first, ending)
    assert_end_was_seen(first, subject, ending)
    if ending is Ending.ENDS:
        assert published_in(out) == left_by(subject)
        return
    assert_nothing_pending_came_out(published_in(out), subject, ending)

    CLOCK.set(due_ms)
    second = run_of_subject(first.goes_on_from)
    assert second.to_its_end().status is JobStatus.FINISHED
    assert_calls_in_order(second, Ending.ENDS)
    assert set(second.diary.told("o")) == set(second.diary.told("f")) == set(second.subtasks) - early(second, subject)
    if ending is Ending.DRAIN:
        assert flat(published_in(out), subject) == flat(subject.truth, subject)
    else:
        assert published_in(out) == subject.truth


def assert_calls_in_order(run: Run, ending: Ending) -> None:
    """Each operator object has one life; the end of input runs from head to tail and comes once to each input."""
    life = CUT_SHORT if ending is Ending.CRASH else LIFE
    for entry in run.diary.entries:
        assert life.fullmatch(entry.calls), (entry.node.name, entry.subtask, entry.calls)
    ends = Counter(line for line in run.diary.lines if line[2][0] in "ef")
    assert set(ends.values()) <= {1}
    for vertex in run.graph.vertices:
        for parent, child in ((vertex.operators[node.parent], node) for node in vertex.operators[1:]):
            for index in range(vertex.parallelism):
                in_order = [(parent.uid, index, "f"), (child.uid, index, "e0"), (child.uid, index, "f")]
                assert [line for line in run.diary.lines if line in in_order] in (in_order, [])


def assert_end_was_seen(run: Run, subject: Subject, ending: Ending) -> None:
    """All operators see the end of a job that ends or is drained; of another, those whose input had ended."""
    expected = set(run.subtasks) if ending.finishes else early(run, subject)
    assert set(run.diary.told("f")) == expected


def early(run: Run, subject: Subject) -> set[tuple[str, int]]:
    """Return what has finished before the gate."""
    return {(uid, index) for (uid, index), name in run.subtasks.items() if name in subject.ended and index == 0}


def assert_nothing_pending_came_out(found: dict[str, Counter[Any]], subject: Subject, ending: Ending) -> None:
    """Timers and windows wait, but for a drain; that fires what it does not drop."""
    records = Counter(record for counts in found.values() for record in counts)
    pending = {record for record in records if subject.pending(record)}
    assert bool(pending) == (ending is Ending.DRAIN and subject.has_pending)


def left_by(subject: Subject) -> dict[str, Counter[Any]]:
    """Return the truth without what an end of all input drops."""
    return {
        name: Counter({record: count for record, count in counts.items() if not subject.dropped(record)})
        for name, counts in subject.truth.items()
    }
