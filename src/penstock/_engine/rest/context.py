"""What all REST handlers share: the jobs of this process, its operations and its settings.

An operation is asynchronous: one request begins it, others ask for its status; outcomes are kept for some minutes.
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.rest.http_error import HttpError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from penstock._engine.gateway.executor_view import ExecutorView
    from penstock._engine.gateway.job_control import JobControl
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.rest.access import OneTimeCodes
    from penstock._engine.rest.directories import DirectoryPolicy
    from penstock._engine.rest.metric_history import MetricHistory, Sample


#: The maximum numbers of running and of remembered operations, because clients cause their threads and memory.
MAX_UNDER_WAY: Final = 64
MAX_KEPT: Final = 1_000

#: The pause in seconds between two looks for waiting clients at the end of the process.
_LOOK_S: Final = 0.5


class Jobs:
    """Finds jobs by their ids; safe to use from any thread.

    Args:
        keep_ended_ms: How long an ended job is listed, in milliseconds.
        clock: Returns the moment.
    """

    def __init__(self, keep_ended_ms: int, clock: Callable[[], Moment]) -> None:
        self._keep_ended_ms = keep_ended_ms
        self._clock = clock
        self._lock = threading.Lock()
        self._controls: list[JobControl] = []
        self._figures: dict[int, MetricHistory] = {}

    def add(self, control: JobControl, figures: MetricHistory | None = None) -> None:
        """Add a job, which may still be looking for its id, and perhaps its metrics over time."""
        with self._lock:
            self._controls.append(control)
            if figures is not None:
                self._figures[id(control)] = figures

    def samples(self, control: JobControl) -> tuple[Sample, ...]:
        """Return the samples of a job's metrics, oldest first."""
        with self._lock:
            figures = self._figures.get(id(control))
        return () if figures is None else figures.samples

    def lists(self, control: JobControl) -> bool:
        """Tell whether a job is listed: it runs, or has ended a short time ago."""
        with self._lock:
            return control in self._controls

    def all(self) -> list[JobControl]:
        """Return the jobs that have an id, oldest first: all live runs, and the last run of an ended job."""
        now = self._clock()
        with self._lock:
            self._controls = [one for one in self._controls if now.since(one.view.ended or now) <= self._keep_ended_ms]
            listed = {id(one) for one in self._controls}
            self._figures = {one: figures for one, figures in self._figures.items() if one in listed}
            views = [(one, one.view) for one in self._controls]
        last = {view.job_id: one for one, view in views}
        running = {view.job_id for _, view in views if view.ended is None}
        return [
            one
            for one, view in views
            if view.job_id and (view.ended is None or (view.job_id not in running and one is last[view.job_id]))
        ]

    def find(self, job_id: str) -> JobControl | None:
        """Return the job of an id; None for an unknown id. Of several live runs, return the one that began last."""
        return next((one for one in reversed(self.all()) if one.view.job_id == job_id), None)


class OperationKind(StrEnum):
    """The kind of operation of a trigger id; clients ask for a stop as for a savepoint."""

    SAVEPOINT = "savepoint"
    CHECKPOINT = "checkpoint"
    DISPOSAL = "savepoint disposal"
    DATA_SET = "cluster data set deletion"


@dataclass(slots=True)
class Operation:
    """One operation."""

    future: Future[Any]
    #: When a client last asked for the status, and the time within which it asks again; None if it did not say.
    asked: Moment
    lease_ms: int | None = None
    #: When its outcome was known; None before.
    ended: Moment | None = None
    #: Whether the outcome was read, or its client no longer waits for it.
    was_read: bool = False

    def has_reader(self, now: Moment) -> bool:
        """Whether a client may still read the outcome."""
        return not self.was_read and (self.lease_ms is None or now.since(self.asked) <= self.lease_ms)


@dataclass(frozen=True, slots=True)
class OperationStatus:
    """The status of an operation."""

    done: bool
    error: BaseException | None = None
    result: Any = None


class Operations:
    """The operations of all jobs of this process.

    Args:
        keep_ms: How long an outcome is kept, in milliseconds.
        clock: Returns the moment.
    """

    def __init__(self, keep_ms: int, clock: Callable[[], Moment]) -> None:
        self._keep_ms = keep_ms
        self._clock = clock
        self._changed = threading.Condition()
        self._operations: dict[tuple[OperationKind, str, str], Operation] = {}

    def trigger(
        self,
        kind: OperationKind,
        job_id: str,
        trigger_id: str | None,
        begin: Callable[[], Future[Any]],
        lease_ms: int | None = None,
    ) -> str:
        """Begin an operation and return its trigger id; an id that is known begins nothing.

        The process does not wait for a client to read an immediate failure.

        Args:
            kind: What it is.
            job_id: The job; empty for an operation without a job.
            trigger_id: The id that the client gave it; a new one when left out.
            begin: Begins it.
            lease_ms: The client asks again within this many milliseconds, or else counts as gone; None if it did not
                say.

        Raises:
            HttpError: Too many operations are running.
        """
        chosen = trigger_id or secrets.token_hex(16)
        with self._changed:
            self._forget()
            if (kind, job_id, chosen) in self._operations:
                return chosen
            self._evict_ended()
            operation = self._operations[kind, job_id, chosen] = Operation(begin(), self._clock(), lease_ms)
            operation.was_read = operation.future.done() and operation.future.exception() is not None
        operation.future.add_done_callback(lambda _: self._ended(operation))
        return chosen

    def outcome(self, kind: OperationKind, job_id: str, trigger_id: str) -> OperationStatus | None:
        """Return the status of an operation, and count its outcome as read; None for an unknown operation."""
        with self._changed:
            self._forget()
            operation = self._operations.get((kind, job_id, trigger_id))
            if operation is None:
                return None
            operation.asked = self._clock()
            if not operation.future.done():
                return OperationStatus(done=False)
            operation.was_read = True
            self._changed.notify_all()
            error = operation.future.exception()
            return OperationStatus(done=True, error=error, result=None if error else operation.future.result())

    def leave(self, kind: OperationKind, job_id: str, trigger_id: str) -> bool:
        """Note that no client waits for an outcome, which can still be read. Tells whether the operation is known."""
        with self._changed:
            self._forget()
            operation = self._operations.get((kind, job_id, trigger_id))
            if operation is not None:
                operation.was_read = True
                self._changed.notify_all()
            return operation is not None

    def wait_until_read(self, timeout_s: float) -> bool:
        """Wait until no client may still read an outcome; return whether that is so.

        Args:
            timeout_s: How long to wait at most, in seconds.
        """
        begun, most_ms = self._clock(), timeout_s * 1000
        with self._changed:
            while self._unread() and (left_ms := most_ms - self._clock().since(begun)) > 0:
                self._changed.wait(min(left_ms / 1000, _LOOK_S))
            return not self._unread()

    @property
    def unread(self) -> bool:
        """Whether a client may still read an outcome, including outcomes of running operations."""
        with self._changed:
            return self._unread()

    def _unread(self) -> bool:
        self._forget()
        now = self._clock()
        return any(operation.has_reader(now) for operation in self._operations.values())

    def _ended(self, operation: Operation) -> None:
        with self._changed:
            operation.ended = self._clock()

    def _evict_ended(self) -> None:
        ended = [name for name, one in self._operations.items() if one.future.done()]
        if len(self._operations) - len(ended) >= MAX_UNDER_WAY:
            raise HttpError(429, f"{MAX_UNDER_WAY} operations are under way; ask again when one of them has ended.")
        for name in ended[: max(0, len(self._operations) + 1 - MAX_KEPT)]:
            del self._operations[name]

    def _forget(self) -> None:
        now = self._clock()
        self._operations = {
            name: one for name, one in self._operations.items() if now.since(one.ended or now) <= self._keep_ms
        }


@dataclass(frozen=True, slots=True)
class RestContext:
    """The context that all REST handlers share."""

    jobs: Jobs
    operations: Operations
    #: Returns this moment.
    clock: Callable[[], Moment]
    #: The processes in which tasks run.
    executors: Callable[[], Sequence[ExecutorView]]
    #: The configuration of the process; secrets are hidden.
    configuration: Mapping[str, str]
    #: The directories in which clients may make savepoints.
    directories: DirectoryPolicy
    #: Deletes a savepoint in the background.
    dispose: Callable[[str], Future[None]]
    #: One-time codes for the token, and the token; None if the server takes no token.
    codes: OneTimeCodes
    token: str | None
    #: Asks the process to end.
    shut_down: Callable[[], None]
    #: Since when there are no executors, in epoch milliseconds; None while there are some.
    no_executors_since: Callable[[], int | None] = lambda: None

    @property
    def slots(self) -> int:
        """The number of tasks that run at the same time, which changes with the executors of a cluster."""
        return sum(one.slots for one in self.executors())
