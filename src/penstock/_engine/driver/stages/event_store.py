"""Stores the events of a batch job, beside the scheduler: it only puts them into a buffer.

The buffer is written when it is full, when its interval is over, or when a stage has ended: as a segment whose name no
other driver may have taken. Source: FLIP-383's ``JobEventStore``.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

import msgspec

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.job_events import (
    SegmentHeader,
    decode_segment,
    encode_event,
    encode_segment,
    read_log,
)
from penstock._engine.protocol.paths import events_directory, segment_path
from penstock._engine.storage.ownership import first_not_trusted
from penstock.errors import CheckpointStorageError, ExposedCheckpointError, FencedError, InternalError

if TYPE_CHECKING:
    import os

    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.protocol.job_events import Segment
    from penstock._engine.storage.checkpoint_storage import FileStorage

_log = logging.getLogger(__name__)

#: A segment that cannot be written is tried again after these pauses, in milliseconds.
_PAUSES_MS: Final = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)

_GIVEN_UP: Final = (
    "The events of batch job %s cannot be written, and no more are: %s. The job runs on; if its driver is lost now, it "
    "is recovered from the events before"
)


class JobEventStore:
    """The log of one job's events.

    Args:
        storage: Where it is.
        buffer_bytes: It is written at this size.
        flush_ms: And this long after the first event in it.
        mailbox: Takes the news that another driver owns the log.
        background: Writes.
    """

    def __init__(
        self,
        storage: FileStorage,
        mailbox: Mailbox,
        background: BackgroundExecutor,
        *,
        buffer_bytes: int,
        flush_ms: int,
    ) -> None:
        self._storage = storage
        self._mailbox = mailbox
        self._background = background
        self._buffer_bytes = buffer_bytes
        self._flush_ms = flush_ms
        self._job_id = ""
        self._header = SegmentHeader("", 0)
        #: The number of the next segment, and of the first one of this driver, which holds its claim.
        self._number = self._claim = 0
        #: The number of the first segment that was found.
        self._lowest = 0
        #: Guards the buffer; the scheduler never holds it for longer than it takes to append to a list.
        self._lock = threading.Lock()
        #: One writer at a time.
        self._writing = threading.Lock()
        self._buffer: list[bytes] = []
        self._size = 0
        self._is_due = False
        self._failures = 0
        self._is_over = False
        #: The processor time of all writing, in seconds.
        self.cpu_s = 0.0

    # ------------------------------------------------------------------------------------------ called by the main loop

    def find(self, instruction: do.FindJobEvents) -> ev.Event:
        """Look whether a run has left events, which it deletes at its end."""
        job_id, run_id = instruction.job_id, instruction.run_id
        headers = (found.header for name in self._names(job_id) if (found := self._read(job_id, int(name))) is not None)
        return ev.JobEventsFound(any(header is not None and header.run_id == run_id for header in headers))

    def claim(self, instruction: do.ClaimJobEvents) -> ev.Event:
        """Take the log over and read it.

        Raises:
            FencedError: A later driver has taken it over.
            CheckpointStorageError: It cannot be read or written.
        """
        job_id = self._job_id = instruction.job_id
        self._header = SegmentHeader(instruction.run_id, instruction.takeover)
        self._number = max(map(int, self._names(job_id)), default=0) + 1
        while not self._put([]):
            self._check_owner(self._read(job_id, self._number))
            self._number += 1
        segments = self._segments(job_id)
        for _, segment in segments:
            self._check_owner(segment)
        self._claim = self._number
        self._number += 1
        log = read_log(segments, instruction.first)
        self._header = msgspec.structs.replace(self._header, begins=log.begins)
        return ev.JobEventsClaimed(log.events, log.damage)

    def _segments(self, job_id: str) -> list[tuple[int, Segment]]:
        """Return all segments up to the next one of this driver, also those that are not listed yet."""
        self._lowest = min(map(int, self._names(job_id)), default=self._number)
        while self._lowest > 1 and self._storage.find(segment_path(job_id, self._lowest - 1)) is not None:
            self._lowest -= 1
        segments = ((number, self._read(job_id, number)) for number in range(self._lowest, self._number + 1))
        return [(number, segment) for number, segment in segments if segment is not None]

    def record(self, instruction: do.RecordJobEvents) -> None:
        """Put events into the buffer; they are written beside the loop."""
        events = list(map(encode_event, instruction.events))
        with self._lock:
            if self._is_over or not (events or self._buffer):
                return
            self._buffer += events
            self._size += sum(map(len, events))
            is_now = instruction.cut or self._size >= self._buffer_bytes
            if is_now or not self._is_due:
                self._is_due = True
                if is_now:
                    self._background.run(self.flush)
                else:
                    self._background.later(self._flush_ms, self.flush)

    # ----------------------------------------------------------------------------------------------- called beside it

    def flush(self) -> None:
        """Write the buffer, and tell the loop if the log is another driver's."""
        begun = time.thread_time()
        with self._writing:
            try:
                self._flush()
            except CheckpointStorageError as error:
                self._failed(error)
            except FencedError as error:
                self._is_over = True
                self._mailbox.post(ev.JobEventsFenced(error))
            self.cpu_s += time.thread_time() - begun

    def _flush(self) -> None:
        with self._lock:
            events, self._is_due = list(self._buffer), False
        if not events or self._is_over:
            return
        while not self._put(events):
            self._check_owner(self._read(self._job_id, self._number))
            self._number += 1  # an older driver was faster; it is fenced at its next chain entry
        self._check_claim()
        self._header = msgspec.structs.replace(self._header, begins=self._header.begins or self._number)
        self._number += 1
        self._failures = 0
        with self._lock:
            del self._buffer[: len(events)]
            self._size -= sum(map(len, events))
            if self._buffer and not self._is_due:
                self._is_due = True
                self._background.later(self._flush_ms, self.flush)

    def _failed(self, error: Exception) -> None:
        if self._failures < len(_PAUSES_MS):
            pause_ms = _PAUSES_MS[self._failures]
            self._failures += 1
            self._background.later(pause_ms, self.flush)
            return
        self._is_over = True  # a log with holes would be worse than none
        _log.warning(_GIVEN_UP, self._job_id, error)

    def close(self, ended_job: str = "") -> None:
        """Write what is left; or delete the log of a job that has ended for good."""
        if not ended_job:
            self.flush()
        with self._writing:
            self._is_over = True
            if ended_job:
                # What a later driver has put behind the last segment of this one is not its own to delete.
                last = self._number or float("inf")
                numbers = {number for name in self._names(ended_job) if (number := int(name)) < last}
                numbers.update(range(self._lowest, self._number))  # those that are not listed yet as well
                if self._failures and self._is_own(self._read(ended_job, self._number)):
                    numbers.add(self._number)  # it was written, and then something else failed
                self._storage.delete([segment_path(ended_job, number) for number in sorted(numbers)])

    # ------------------------------------------------------------------------------------------------------- segments

    def _put(self, events: list[bytes]) -> bool:
        """Write the next segment; return False if another driver has taken its name."""
        keys, path = self._storage.keys.keys, segment_path(self._job_id, self._number)
        begins = self._header.begins or (self._number if events else 0)
        data = encode_segment(msgspec.structs.replace(self._header, begins=begins), events, keys[0] if keys else None)
        # After an error the outcome of an earlier try is unknown, and the file may be this one.
        return self._storage.put_if_absent(path, data) or self._storage.find(path) == data

    def _names(self, job_id: str) -> list[str]:
        return [name for name in self._storage.names(events_directory(job_id)) if name.isdecimal()]

    def _read(self, job_id: str, number: int) -> Segment | None:
        path = segment_path(job_id, number)
        seen: dict[str, os.stat_result] = {}
        data = self._storage.find(path, seen=seen)
        if data is None:
            return None
        if not self._storage.keys and (exposed := first_not_trusted(seen)) is not None:
            raise ExposedCheckpointError(self._storage.full_path(exposed[0]), exposed[1])
        return decode_segment(data, self._storage.full_path(path), self._storage.keys.keys)

    def _check_claim(self) -> None:
        """Raise FencedError if a later driver has ended the job, and has deleted its events.

        The job may have started fresh since, and have taken the same numbers.
        """
        claim = self._read(self._job_id, self._claim)
        own = self._header
        if claim is None:
            self._storage.delete([segment_path(self._job_id, self._number)])
        if claim is None or (claim.header is not None and claim.header.run_id != own.run_id):
            raise FencedError(self._job_id, own.takeover + 1, own.run_id, "of a later driver, which has ended the job")

    def _is_own(self, segment: Segment | None) -> bool:
        return segment is not None and segment.header is not None and segment.header.run_id == self._header.run_id

    def _check_owner(self, segment: Segment | None) -> None:
        header, own = None if segment is None else segment.header, self._header
        if header is not None and header.takeover > own.takeover:
            raise FencedError(self._job_id, header.takeover, own.run_id, header.run_id)
        if header is not None and header.takeover == own.takeover and header.run_id != own.run_id:
            raise InternalError(f"Two runs have takeover {own.takeover}: {own.run_id} and {header.run_id}.")
