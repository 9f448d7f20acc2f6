"""Jobs that run one after the other in one place, each going on from what the one before has left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.diaries import Ending, Run
from tests.kit.driving import CrashError
from tests.lifecycle.subjects import SUBJECTS, Place, published_in

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable
    from pathlib import Path

    from penstock._engine.coordinator import instructions as do

#: What the sinks of a subject hold in the end.
TRUTH = {subject.build: subject.truth for subject in SUBJECTS}
RESTARTS = {"restart-strategy.type": "fixed-delay"}
UNCHAINED = {"pipeline.operator-chaining.enabled": "false"}


class Jobs:
    """Runs jobs in one place, one after the other."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.monkeypatch = place, monkeypatch
        self.out = place / "out"
        self.out.mkdir()

    def make(
        self, build: Callable[[Place], None], restore: str = "latest", settings: dict[str, str] | None = None
    ) -> Run:
        return Run(lambda env: build(Place(env, self.out)), self.place, self.monkeypatch, restore, settings)

    @property
    def published(self) -> dict[str, Counter[Any]]:
        return published_in(self.out)


def crash_when(
    run: Run, happens: Callable[[do.Instruction], bool], ending: Ending = Ending.ENDS, *, after: int = 0
) -> None:
    """Kill a driver before a step; until then it runs as `Run.to_its_end` says."""

    def crash(step: do.Instruction) -> None:
        if happens(step):
            raise CrashError

    run.watchers.append(crash)
    with pytest.raises(CrashError):
        run.to_its_end(ending, after=after)
