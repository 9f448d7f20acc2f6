"""What the tests of the writer look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.savepoints import jobs
from tests.unit.savepoints.jobs import environment, run, totals

from penstock.savepoint import Savepoint

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = 20_000


def contents(path: str, uid: str = "op", name: str = "state") -> dict[Any, Any]:
    return {entry.key: entry.value for entry in Savepoint.open(path).keyed_state(uid, name)}


def started(path: str, place: Path, parallelism: int = 2, **settings: str) -> list[Any]:
    """Start the job of `totals` over all its numbers from a savepoint; return what its functions saw."""
    env = environment(parallelism, recover=path, checkpoints=str(place / "after"), **settings)
    totals(env, NUMBERS)
    run(env, place)
    return list(jobs.SEEN)


def last_totals(seen: list[Any]) -> dict[Any, Any]:
    return dict(item for item in seen if len(item) == 2)
