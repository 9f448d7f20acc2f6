"""Stores the events of a batch job, beside the scheduler: it only puts them into a buffer.

The buffer is written when it is full, when its interval is over, or when a stage has ended: as a segment whose name no
other driver may have taken. Source: FLIP-383's ``JobEventStore``.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.job_events import (
    Segment,
    SegmentEnd,
    SegmentHeader,
    decode_segment,
    encode_event,
    encode_segment,
    read_log,
)
from penstock._engine.protocol.paths import events_directory, segment_path
from penstock.errors import CheckpointStorageError, ExposedCheckpointError, FencedError, InternalError

if TYPE_CHECKING:
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.storage.checkpoint_storage import FileStorage

_log = logging.getLogger(__name__)

#: A segment that cannot be written is tried again after these pauses, in milliseconds.
_PAUSES_MS: Final = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)

_GIVEN_UP: Final = (
    "The events of batch job %s cannot be written, and no more are: %s. The job runs on; if its driver is lost now, it "
    "goes on from the events before"
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
        segments = (self._read(job_id, int(name)) for name in self._names(job_id))
        return ev.JobEventsFound(any(found.header is not None and found.header.run_id == run_id for found in segments))

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
        found = sorted(set(map(int, self._names(job_id))))
        segments = [(number, self._read(job_id, number)) for number in found if number <= self._number]
        for _, segment in segments:
            self._check_owner(segment)
        self._claim = self._number
        self._number += 1
        log = read_log(segments, instruction.first)
        return ev.JobEventsClaimed(log.events, log.damage)

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
                numbers = [int(name) for name in self._names(ended_job)]
                self._storage.delete([segment_path(ended_job, number) for number in numbers if number < last])

    # ------------------------------------------------------------------------------------------------------- segments

    def _put(self, events: list[bytes]) -> bool:
        """Write the next segment; return False if another driver has taken its name."""
        keys, path = self._storage.keys.keys, segment_path(self._job_id, self._number)
        data = encode_segment(self._header, events, keys[0] if keys else None)
        # After an error the outcome of an earlier try is unknown, and the file may be this one.
        return self._storage.put_if_absent(path, data) or self._storage.find(path) == data

    def _names(self, job_id: str) -> list[str]:
        return [name for name in self._storage.names(events_directory(job_id)) if name.isdecimal()]

    def _read(self, job_id: str, number: int) -> Segment:
        path = segment_path(job_id, number)
        data = self._storage.find(path)
        if data is None:
            return Segment(None, (), SegmentEnd.DAMAGED)
        if not self._storage.keys and (exposed := self._storage.why_exposed(path)) is not None:
            raise ExposedCheckpointError(*exposed)
        return decode_segment(data, self._storage.keys.keys)

    def _check_claim(self) -> None:
        """Raise FencedError if a later driver has ended the job, and has deleted its events."""
        if self._storage.find(segment_path(self._job_id, self._claim)) is None:
            self._storage.delete([segment_path(self._job_id, self._number)])
            own = self._header
            raise FencedError(self._job_id, own.takeover + 1, own.run_id, "of a later driver, which has ended the job")

    def _check_owner(self, segment: Segment) -> None:
        header, own = segment.header, self._header
        if header is not None and header.takeover > own.takeover:
            raise FencedError(self._job_id, header.takeover, own.run_id, header.run_id)
        if header is not None and header.takeover == own.takeover and header.run_id != own.run_id:
            raise InternalError(f"Two runs have takeover {own.takeover}: {own.run_id} and {header.run_id}.")
