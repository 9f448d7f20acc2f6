"""A store that lies once, at each request of a job's life in turn: the sinks hold the truth all the same.

The life of a streaming job has a checkpoint, a savepoint, a stop with savepoint, and a start from it with CLAIM; that
of a batch job with recovery runs three stages and a commit. Each is lived once to count its requests, and once for each
lie and request. A job that fails by the lie fails with an error of ours, and its next start goes on to the end. What is
left over, `penstock clean` finds.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from tests.chaos.chapters import Chapter, Trouble
from tests.chaos.jobs import Job, Operator, Output, Source
from tests.chaos.lives import Life
from tests.chaos.store import READS, Stormy, Weather
from tests.kit.clock import CLOCK

from penstock._engine.storage.checkpoint_storage import StoredFile
from penstock.errors import CheckpointStorageError, CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WRITES, LISTINGS = {"put", "put_if_absent", "move", "delete"}, {"names", "files"}
ALL = {*WRITES, *READS, *LISTINGS}
#: The calls that each lie is about.
LIES = {
    "refused": ALL,
    "away until the next start": ALL,
    "lost answer": WRITES,
    "asked again": {"put_if_absent"},
    "effect after the answer": WRITES,
    "effect long after the answer": WRITES,
    "torn read": READS,
    "late listing": LISTINGS,
    "empty listing": LISTINGS,
    "listing of the deleted": LISTINGS,
    "slow": ALL,
}
#: After so many more requests a write takes effect of which the caller was told that it had failed.
DELAYS = {"effect after the answer": 3, "effect long after the answer": 40}
#: Longer than a checkpoint may take.
SLOW_MS = 660_000

KEYS = (0, 1, -7, 0, 1, 0, 1, 1, -7, 0, 0, 1, -7, 0)
SPLITS = tuple(tuple((key, stamp, 10 * split + stamp, None) for stamp, key in enumerate(KEYS)) for split in range(2))
STREAM = Job((Source("list", SPLITS),), (Operator("count", (0,)),), (Output("folder", 1),), "int")
BATCH = replace(STREAM, batch=True, recovers=True)
ASKS = Trouble("checkpoint", 12), Trouble("savepoint", 14), Trouble("suspend", 40)
SIZES = 2, 2, 1
LIVES = {
    "stream": (STREAM, (Chapter(SIZES, ASKS, records=2), Chapter(SIZES, start="CLAIM", records=2))),
    "batch": (BATCH, (Chapter(SIZES),)),
}
#: A case has one in so many of the requests that a lie is about.
PARTS = 8


class Liar(Weather):
    """Answers all requests of a life, and lies at one of them.

    Args:
        lie: What it does then; None for nothing.
        at: The number of the request, counted from 1.
    """

    def __init__(self, lie: str | None = None, at: int = 0) -> None:
        super().__init__()
        self.calls: list[str] = []
        self._lie, self._at = lie, at
        self._is_away = False
        self._later: list[tuple[int, str, Callable[[], Any]]] = []
        #: In full.
        self._put: list[str] = []
        self._deleted: list[str] = []

    def forecast(self, troubles: list[Trouble]) -> None:
        """Let the store be there for the next start."""
        del troubles
        self._is_away = False

    def on(self, storage: Stormy, call: str, paths: list[str], work: Callable[[], Any]) -> Any:
        """Perform a request, or lie."""
        if not paths:
            return work()
        self.calls.append(call)
        while self._later and self._later[0][0] <= len(self.calls):
            _, path, write = self._later.pop()
            write()
            self.written_late.add(path)
        if self._lie is not None and len(self.calls) == self._at:
            assert call in LIES[self._lie], "each life has the same requests up to the lie"
            self.met.add("lie")
            self.has_refused_deletions = True
            return self._lied(self._lie, storage, call, paths, work)
        if self._is_away:
            raise CheckpointStorageError(storage.full_path(paths[0]), "the store is away")
        result = work()
        full = [storage.full_path(path) for path in paths]
        self._deleted += full if call == "delete" else ()
        self._put += full[:1] if call in {"put", "put_if_absent", "move"} else ()
        return result

    def _lied(self, lie: str, storage: Stormy, call: str, paths: list[str], work: Callable[[], Any]) -> Any:
        path = storage.full_path(paths[0])
        match lie:
            case "lost answer":
                work()
            case "asked again":
                work()
                return False
            case "effect after the answer" | "effect long after the answer":
                self._later.append((len(self.calls) + DELAYS[lie], path, work))
            case "torn read" if call == "find":
                data = work()
                return data and data[: len(data) // 2]
            case "torn read":
                raise CorruptCheckpointError(path, "it was cut off")
            case "late listing" | "empty listing" | "listing of the deleted":
                return self._misled(lie, storage, call, paths[0], work())
            case "slow":
                CLOCK.advance(SLOW_MS)
                return work()
            case _:
                self._is_away = lie == "away until the next start"
        raise CheckpointStorageError(path, "it answers 503")

    def _misled(self, lie: str, storage: Stormy, call: str, directory: str, listing: list[Any]) -> list[Any]:
        """Return a listing without the newest file, without any, or with those that were deleted."""
        found = {getattr(one, "path", one): one for one in listing}
        if lie == "late listing":
            for newest in listed(storage, call, directory, self._put)[-1:]:
                found.pop(newest, None)
        elif lie == "empty listing":
            found.clear()
        else:
            for gone in listed(storage, call, directory, self._deleted):
                found.setdefault(gone, gone if call == "names" else StoredFile(gone, 1, 0))
        return [found[name] for name in sorted(found)]


def listed(storage: Stormy, call: str, directory: str, paths: list[str]) -> list[str]:
    """Return how a listing of a directory shows paths that are given in full."""
    above = storage.full_path(directory).rstrip("/") + "/"
    below = [path[len(above) :] for path in paths if path.startswith(above)]
    if call == "names":
        return [path.partition("/")[0] for path in below]
    return [f"{directory}/{path}" if directory else path for path in below]


class LifeUnderLiar(Life):
    """A life that is told lies."""

    def tell(self, chapter: Chapter) -> bool:
        """Live a chapter; who was lied to about the checkpoints asks again, and starts no job anew."""
        was_told_before = bool(self.weather.met)
        is_at_its_end = super().tell(chapter)
        self.anew = self.anew and (was_told_before or not self.weather.met)
        return is_at_its_end


def lived(name: str, restarts: int, liar: Liar) -> Life:
    """Live a life under a liar, and compare its end with the model."""
    job, chapters = LIVES[name]
    with TemporaryDirectory() as place:
        life = LifeUnderLiar(
            job, tuple(replace(chapter, restarts=restarts) for chapter in chapters), Path(place) / "life"
        )
        life.weather = liar
        life.live()
    return life


@cache
def requests(name: str) -> list[str]:
    """Return the calls of a life without a lie."""
    liar = Liar()
    lived(name, 0, liar)
    return liar.calls


@pytest.fixture(autouse=True)
def _quietly() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("restarts", [0, 3])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", LIVES)
def test_one_lie_of_the_store_costs_no_record_and_at_most_one_start(
    name: str, lie: str, restarts: int, part: int
) -> None:
    asked = [number for number, call in enumerate(requests(name), 1) if call in LIES[lie]]
    failures: list[Exception] = []
    for number in asked[part::PARTS]:
        liar = Liar(lie, number)
        try:
            life = lived(name, restarts, liar)
            assert sum("; FAILED" in line for line in life.tale) <= 1, life.tale
            assert liar.met, "the lie was told"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result
            error.add_note(f"The lie was told at request {number}.")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} lives fail", failures)
