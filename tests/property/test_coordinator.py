"""Whatever goes wrong and in whatever order, the coordinator keeps its rules and the output is right in the end."""

from __future__ import annotations

import logging
import os
from collections import Counter
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.kit.driving import CrashError
from tests.kit.world import World, numbers_job, published
from tests.property.sabotage import Lines, Saboteur, UnreliableSink, doubled, failed, lost, missing, torn

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind
from penstock._engine.protocol.metadata_document import decode_chain_entry
from penstock._engine.protocol.paths import checkpoint_ids, metadata_path
from penstock._engine.storage.opening import open_storage
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.storage.checkpoint_storage import FileStorage

#: The campaign asks for more.
EXAMPLES = int(os.environ.get("PENSTOCK_COORDINATOR_EXAMPLES", "100"))
LIMIT = 36
JOB_ID = "0123456789abcdef" * 2
_names = count()

TROUBLES = st.dictionaries(st.integers(1, 15), st.sampled_from([lost, failed, torn, doubled, missing]), max_size=5)
#: Requests for savepoints, by the driver's step: the kind of stop, and the timeout in milliseconds.
ASKS = st.dictionaries(
    st.integers(10, 120), st.tuples(st.sampled_from(list(StopMode)), st.none() | st.integers(1, 5_000)), max_size=3
)
#: Steps of the driver with a request for a checkpoint, and with a failure.
CHECKPOINTS = st.frozensets(st.integers(10, 120), max_size=3)
FAILURES = st.frozensets(st.integers(1, 120), max_size=3)
#: Epochs that do not end before they expire.
STUCK = st.frozensets(st.integers(1, 20), max_size=4)
STEPS = st.none() | st.integers(1, 150)


@pytest.fixture(autouse=True)
def nothing_is_logged() -> Iterator[None]:
    """Keep thousands of expected failures with their tracebacks out of pytest's log, which has them all in memory."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(autouse=True)
def all_state_lies_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no state be so small that it stands in the metadata."""
    monkeypatch.setattr("penstock._engine.coordinator.checkpoints.snapshots.MAX_INLINE", 0)


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("savepoints")


class Possessions:
    """What the job must not touch: savepoints, and checkpoints that it was started from, unless it has claimed them."""

    def __init__(self, storage: FileStorage) -> None:
        self._storage = storage
        #: By path: the files and what is in them.
        self._files: dict[str, dict[str, bytes]] = {}

    def contents(self, path: str) -> dict[str, bytes]:
        """Return the files of a savepoint or checkpoint."""
        if path.startswith("/"):
            return {str(file): file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}
        record = read(self._storage, int(path.rpartition("-")[2]))
        assert record is not None
        assert record.snapshot is not None
        files = [metadata_path(JOB_ID, record.checkpoint_id), *state_files(record.snapshot)]
        return {file: self._storage.read(file) for file in files}

    def add(self, path: str, contents: dict[str, bytes]) -> None:
        """Count a savepoint or checkpoint as the user's."""
        self._files[path] = contents

    def give(self, path: str) -> None:
        """Count one as the job's."""
        self._files.pop(path, None)

    @property
    def savepoints(self) -> list[str]:
        return [path for path in self._files if path.startswith("/")]

    def check(self) -> None:
        for path, contents in self._files.items():
            assert self.contents(path) == contents, path


def read(storage: FileStorage, checkpoint_id: int) -> ChainEntry | None:
    path = metadata_path(JOB_ID, checkpoint_id)
    data = storage.find(path)
    return None if data is None else decode_chain_entry(data, path)


def newest(storage: FileStorage) -> ChainEntry:
    """Return the last record of the job that can be read."""
    records = (read(storage, number) for number in sorted(checkpoint_ids(storage.names(JOB_ID)), reverse=True))
    return next(record for record in records if record is not None)


def checkpoints_of(storage: FileStorage) -> list[str]:
    """Return the paths of the checkpoints that the job has left."""
    records = (read(storage, number) for number in checkpoint_ids(storage.names(JOB_ID)))
    kept = (record for record in records if record is not None and record.kind is ChainEntryKind.CHECKPOINT)
    return [f"{JOB_ID}/chk-{record.checkpoint_id}" for record in kept]


@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1_000_000))
@pytest.mark.behaviour(170)
def test_any_troubles_and_crashes_leave_the_right_output(savepoints: Path, data: st.DataObject, seed: int) -> None:
    name = f"property-{next(_names)}"
    directory = f"memory://{name}"
    storage, lines = open_storage(directory), Lines(name)
    possessions = Possessions(storage)
    time_ms, chance = 1_000_000, Random(seed)
    refused = list[str]()
    for _ in range(data.draw(st.integers(1, 5))):
        graph = numbers_job(name, limit=LIMIT, split_size=4, sink=UnreliableSink(name, seed))
        trouble, stuck, wants_notification = data.draw(TROUBLES), data.draw(STUCK), data.draw(st.booleans())
        world = World(graph, chance, 3, trouble, stuck, wants_notification=wants_notification, has_state=True)
        world.time_ms = time_ms = time_ms + 100_000
        starts = [*possessions.savepoints, *checkpoints_of(storage)]
        start = data.draw(st.just("latest") | (st.sampled_from(starts) if starts else st.nothing()))
        claim = data.draw(st.sampled_from(["CLAIM", "NO_CLAIM"]))
        note(f"from {start}, {claim}")
        driver, loop = world.driver(
            directory,
            job_id=JOB_ID,
            first="true",
            interval="1 s",
            recover=start if start == "latest" or start.startswith("/") else f"{directory}/{start}",
            claim=claim,
            timeout="1 min",
            tolerable=str(data.draw(st.integers(0, 2))),
            retained=str(data.draw(st.integers(1, 3))),
        )
        contents = {} if start == "latest" else possessions.contents(start)
        asks = {
            step: do.SavepointRequest(number := next(_names), f"{savepoints}/savepoint-{number}", stop, timeout_ms)
            for step, (stop, timeout_ms) in data.draw(ASKS).items()
        }
        crash_at, cancel_at = data.draw(STEPS), data.draw(STEPS)
        saboteur = Saboteur(
            loop, directory, lines, chance, crash_at, cancel_at, asks, data.draw(CHECKPOINTS), data.draw(FAILURES)
        )
        try:
            driver.run(loop)
            loop.coordinator.validate()
            assert driver.status in {JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED}
            # Of copies that are under way when the job ends the driver itself tells those who asked.
            copying = {("savepoint", request.id) for request, _ in loop.coordinator._parts.savepoints._copying.values()}
            assert saboteur.answers == Counter(saboteur.requests - copying), "each request gets one answer"
            assert all(told == sorted(told) for told in world.told.values())
            if wants_notification and driver.status is JobStatus.FINISHED:
                assert saboteur.last == {subtask: world.told[subtask][-1] for subtask in saboteur.last}
        except CrashError:
            note(f"killed at step {saboteur.steps}")
        if saboteur.claimed and start != "latest":
            possessions.give(start) if claim == "CLAIM" else possessions.add(start, contents)
        for path in saboteur.savepoints:
            assert Path(path, "_metadata").is_file(), "said to be complete"
            possessions.add(path, possessions.contents(path))
        refused += saboteur.refused
        possessions.check()
        assert all(times == 1 for times in published(name).values())
        assert not [path for path in refused if Path(path, "_metadata").exists()], "said not to be there"

    for _ in range(2):  # the first one may only bring a stop to its end
        world = World(numbers_job(name, limit=LIMIT, split_size=4), has_state=True)
        driver, loop = world.driver(directory, job_id=JOB_ID, interval="1 s", recover="latest", first="true")
        driver.run(loop)
    possessions.check()
    assert not [path for path in refused if Path(path, "_metadata").exists()], "said not to be there"
    if driver.status is JobStatus.FAILED:  # it ended before there was a checkpoint: latest has nothing to go on from
        assert "before its first checkpoint" in str(driver.result.exception())
        assert not published(name)
    elif newest(storage).kind is ChainEntryKind.DRAINED:
        assert all(times == 1 for times in published(name).values())
    else:
        assert published(name) == Counter(range(LIMIT))
