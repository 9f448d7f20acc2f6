"""Announcements of finished subtasks of a batch job with recovery: when the driver looks for them, and what counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import Threads
from tests.unit.coordinator.acks import ack

from penstock._engine.coordinator import events as ev
from penstock._engine.driver.mailbox import Mailbox, SystemClock
from penstock._engine.driver.stages.files import StageFiles
from penstock._engine.protocol.control import encode
from penstock._engine.protocol.paths import finished_path
from penstock._engine.protocol.signing import seal
from penstock._engine.storage.opening import open_storage
from penstock.common import Configuration
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from pathlib import Path

JOB, RUN, KEY = "ab" * 16, "run", b"k" * 32
INTERVAL = "job-event.store.write-buffer.flush-interval"


class PutOff(Threads):
    """Holds what was put off, with its delay."""

    def later(self, delay_ms: int, work: Any) -> None:
        self.due = delay_ms, work


@pytest.mark.behaviour(138)
@pytest.mark.parametrize(("interval", "every_ms"), [("1 s", 500), ("400 ms", 200), ("1 h", 500), ("0 ms", 100)])
def test_finished_subtasks_are_looked_for_twice_in_an_interval_so_that_they_are_stored_within_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: str, every_ms: int
) -> None:
    storage, background = open_storage(str(tmp_path), {}), PutOff()
    mailbox = Mailbox(SystemClock())
    configuration = Configuration.from_dict({INTERVAL: interval})
    files = StageFiles(storage, configuration, mailbox, background, recovers=True)
    announcements = files.finished_subtasks(RUN, KEY)
    assert announcements is not None
    announcements.begin(JOB, 0)

    def announce(subtask: int, run: str = RUN, key: bytes = KEY, attempt: int = 0) -> None:
        path = finished_path(JOB, run, attempt, (2, subtask), token=7)
        storage.put(path, seal(encode(ack(2, subtask, finished=True)), key, path))

    def look() -> list[int]:
        delay_ms, work = background.due
        assert delay_ms == every_ms
        work()
        mailbox.call(the_end)
        events = iter(lambda: mailbox.receive(None), the_end)
        return [each.subtask for event in events if isinstance(event, ev.SubtasksFinished) for each in event.acks]

    def the_end() -> None:
        """Mark the end of what is in the mailbox."""

    assert look() == []
    announce(0)
    announce(1)
    announce(2, run="older")
    announce(3, key=b"forged" * 6)
    announce(4, attempt=1)
    assert look() == [0, 1]
    # What cannot be read now is read later, and what was read before it counts at once.
    for subtask in (5, 6, 7):
        announce(subtask)
    find, unread = storage.find, [finished_path(JOB, RUN, 0, (2, 6), token=7)]

    def failing(path: str, **others: Any) -> bytes | None:
        if path in unread:
            unread.remove(path)
            raise CheckpointStorageError(path, "the store is away")
        return find(path, **others)

    monkeypatch.setattr(storage, "find", failing)
    assert look() == [5]
    assert look() == [6, 7]
    announcements.end()
    announce(8)
    assert look() == []  # the stage has ended
    announcements.begin(JOB, 0)
    assert look() == [8]
