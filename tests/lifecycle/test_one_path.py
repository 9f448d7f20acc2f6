"""The end of all input, a suspend and a drain are one path through the driver and through the operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.diaries import Ending, Run
from tests.lifecycle.subjects import GATE, Place, windows

if TYPE_CHECKING:
    from pathlib import Path

#: The additional steps of a stop: the savepoint, its name, and the answer to the request.
OF_STOPS = ["WriteSavepoint", "CompleteSavepoint", "AnswerSavepoint"]
#: A sink commits where something was written, and an alarm watches the commit: a suspend writes nothing in its epoch.
OF_RECORDS = ["Commit", "SetAlarm"]


def last_epoch(place: Path, monkeypatch: pytest.MonkeyPatch, ending: Ending) -> tuple[list[str], list[set[str]]]:
    """Return the steps of the driver from its last epoch on, and what its operators were told then."""
    out = place / "out"
    out.mkdir(parents=True)
    run = Run(lambda env: windows(Place(env, out)), place, monkeypatch, "latest")
    run.to_its_end(ending, after=GATE)
    steps = [type(step).__name__ for step in run.steps]
    last = len(steps) - 1 - steps[::-1].index("RunEpoch")
    told = {entry.calls[entry.calls.rindex("b") :] for entry in run.diary.entries}
    return steps[last:], [set(calls) - set("rpt") for calls in sorted(told)]


def without(steps: list[str], own: list[str]) -> list[str]:
    left = list(steps)
    for kind in own:
        left.remove(kind)
    return left


@pytest.mark.behaviour(47)
def test_end_of_input_suspend_and_drain_take_the_same_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ends, _), (suspend, _), (drain, _) = (
        last_epoch(tmp_path / ending.name, monkeypatch, ending)
        for ending in (Ending.ENDS, Ending.SUSPEND, Ending.DRAIN)
    )
    path = without(ends, OF_RECORDS)
    assert path == [
        *("RunEpoch", "SnapshotEnumerators", "PutChainEntry", "PublishProgress", "DeleteFiles", "CallEnumerators"),
        *("CloseEnumerators", "PutChainEntry", "DeleteFiles", "SweepLeftovers", "ChangeStatus", "EndDriver"),
    ]
    assert without(drain, OF_STOPS + OF_RECORDS) == path
    assert without(suspend, OF_STOPS) == path


def test_operators_are_told_the_same_at_the_end_and_in_a_drain_and_less_in_a_suspend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {
        ending: last_epoch(tmp_path / ending.name, monkeypatch, ending)[1]
        for ending in (Ending.ENDS, Ending.SUSPEND, Ending.DRAIN)
    }
    assert told[Ending.ENDS] == told[Ending.DRAIN]
    assert all(calls <= set("befsc") and {"f", "s"} <= calls for calls in told[Ending.DRAIN])
    assert all(calls == set("bsc") for calls in told[Ending.SUSPEND])
