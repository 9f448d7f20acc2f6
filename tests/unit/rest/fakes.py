"""A job that does what a test says, and a client of the API over it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import httpx

from penstock._engine.gateway.checkpoint_view import (
    CheckpointKind,
    CheckpointSettings,
    CheckpointStatus,
    CheckpointsView,
    CheckpointView,
    RestoredView,
    StatsSummary,
    SubtaskCheckpoint,
)
from penstock._engine.gateway.executor_view import ExecutorView
from penstock._engine.gateway.job_view import (
    InputView,
    JobView,
    OperatorView,
    PlanView,
    SubtaskView,
    VertexView,
    vertex_id,
)
from penstock._engine.gateway.progress import JobFailure, JobProgress
from penstock._engine.protocol.clocks import Moment
from penstock._engine.protocol.control import IOMetrics
from penstock._engine.protocol.metadata import StoredAccumulator
from penstock._engine.rest.access import AccessPolicy, OneTimeCodes
from penstock._engine.rest.app import make_app
from penstock._engine.rest.context import Jobs, Operations, RestContext
from penstock._engine.rest.directories import DirectoryPolicy
from penstock._engine.rest.guard import FailureDelays, Guard
from penstock.common.job_status import JobStatus
from penstock.errors import FailureLocation

if TYPE_CHECKING:
    from penstock._engine.protocol.control import StopMode

JOB = "b484" * 8
OTHER = "0123" * 8
RUN = "77" * 16
READ, WRITE = vertex_id("read"), vertex_id("write")
_RECORDS = {
    "lines": StoredAccumulator("penstock.common.accumulators.IntCounter", "17", b"nobody unpickles this"),
    "by kind": StoredAccumulator("job.Kinds", "{'a': 1}", b"nor this"),
}
#: What a view has of a job whose first vertex has counted something.
COUNTED: dict[str, Any] = {"accumulators": _RECORDS, "vertex_accumulators": {READ: _RECORDS}}
START = 1_000_000


def at(ms: int) -> Moment:
    """Return a moment so many milliseconds after the start."""
    return Moment(START + ms, ms)


PLAN = PlanView(
    vertices=(
        VertexView(READ, "Source: <numbers>", 2, 128, (OperatorView("read", "Source: <numbers>", "job.py:1"),), ()),
        VertexView(
            WRITE,
            "Sum -> Sink: out",
            2,
            128,
            (OperatorView("write", "Sum", "job.py:2"), OperatorView("out", "Sink: out", "job.py:3")),
            (InputView(READ, "HASH"),),
        ),
    ),
    bounded=False,
    parallelism=2,
    max_parallelism=-1,
)
SETTINGS = CheckpointSettings(
    enabled=True,
    interval_ms=1000,
    timeout_ms=600_000,
    min_pause_ms=0,
    tolerable_failures=0,
    kept_on_cancel=True,
    durable=True,
)


def checkpoint(number: int, **changes: Any) -> CheckpointView:
    part = SubtaskCheckpoint(acked_ms=START + 400, duration_ms=300, written_bytes=10, state_bytes=100, records=7)
    parts = changes.setdefault("subtasks", ({0: part, 1: part}, {0: part, 1: part}))
    subtasks = sum(map(len, parts))
    made = CheckpointView(
        id=number,
        kind=CheckpointKind.CHECKPOINT,
        status=CheckpointStatus.COMPLETED,
        triggered=at(100),
        subtask_count=4,
        acked=at(400),
        ended=at(450),
        written_bytes=10 * subtasks,
        state_bytes=100 * subtasks,
        path=f"/cp/{JOB}/chk-{number}",
    )
    return replace(made, **changes)


def savepoint(number: int) -> CheckpointView:
    return checkpoint(number, kind=CheckpointKind.SAVEPOINT, path=f"/sp/savepoint-{JOB[:6]}-1", further=2)


def failed(number: int) -> CheckpointView:
    made = checkpoint(number, status=CheckpointStatus.FAILED, acked=None, subtasks=(), path=None, failure="lost")
    return replace(made, further=1)


def in_progress(number: int) -> CheckpointView:
    status = CheckpointStatus.IN_PROGRESS
    return checkpoint(number, status=status, acked=None, ended=None, subtasks=(), path=None)


FAILURE = JobFailure(
    at(2000),
    checkpoint_id=5,
    job_attempt=0,
    counted=True,
    reason="ZeroDivisionError: division by zero",
    place=FailureLocation("Sum", "write", 1, "job.py:12", "(7, 0)", "Traceback: user line"),
)


def job(**changes: Any) -> JobView:
    first = SubtaskView(
        io=IOMetrics(records_in=100, records_out=90, bytes_out=900, busy_ms=50),
        last_io=IOMetrics(records_in=10, records_out=9, bytes_out=90, busy_ms=250),
        input_watermark=5,
        output_watermark=4,
        metrics={"read": {"seen": 3.0}},
    )
    made = JobView(
        job_id=JOB,
        run_id=RUN,
        name="count words",
        status=JobStatus.RUNNING,
        status_times={JobStatus.INITIALIZING: at(0), JobStatus.CREATED: at(10), JobStatus.RUNNING: at(20)},
        started=at(0),
        ended=None,
        plan=PLAN,
        subtasks=((first, first), (SubtaskView(IOMetrics(90)), SubtaskView(IOMetrics(90)))),
        progress=JobProgress(checkpoint_id=4, epochs=4, restarts=1, records=200, subtasks=4),
        last_interval_ms=1000,
        running_ms=4000,
        checkpoints=CheckpointsView(
            SETTINGS,
            completed=4,
            failed=1,
            in_progress=1,
            restored=1,
            history=(in_progress(5), checkpoint(4), failed(4), savepoint(3), checkpoint(3, discarded=True)),
            last_completed=checkpoint(4),
            last_savepoint=savepoint(3),
            last_failed=failed(4),
            last_restored=RestoredView(2, START + 15, is_savepoint=True, path="/sp/old"),
            durations_ms=StatsSummary((300, 400)),
            written_bytes=StatsSummary((40, 40)),
            state_bytes=StatsSummary((400, 400)),
        ),
        failures=(FAILURE,),
        pending_commits={"out": 2},
        configuration={"parallelism.default": "2", "penstock.rest.token": "******"},
    )
    return replace(made, **changes)


def ended(status: JobStatus, **changes: Any) -> JobView:
    times = {**job().status_times, status: at(5000)}
    return job(status=status, status_times=times, ended=at(5000), **changes)


@dataclass
class FakeControl:
    """A job whose answers come when a test says so."""

    view: JobView = field(default_factory=job)
    savepoint_directory: str | None = "/sp"
    checkpoint: str | None = None
    asked: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    answers: list[Future[Any]] = field(default_factory=list[Future[Any]])
    savepoints: frozenset[str] = frozenset()
    no_links_below: str | None = None

    @property
    def job_name(self) -> str:
        return self.view.name

    @property
    def job_id(self) -> str:
        return self.view.job_id

    @property
    def status(self) -> JobStatus:
        return self.view.status

    @property
    def progress(self) -> JobProgress:
        return self.view.progress

    @property
    def failures(self) -> tuple[JobFailure, ...]:
        return self.view.failures

    @property
    def stopping(self) -> tuple[str, Future[str]] | None:
        return None

    def savepoint(
        self, directory: str | None, stop: StopMode, timeout_ms: int | None = None, no_links_below: str | None = None
    ) -> Future[str]:
        self.no_links_below = no_links_below
        return self._take("savepoint", directory, stop)

    def cancel_with_savepoint(self, directory: str | None, *, no_links_below: str | None = None) -> Future[str]:
        self.no_links_below = no_links_below
        return self._take("cancel with savepoint", directory)

    def trigger_checkpoint(self) -> Future[int]:
        return self._take("checkpoint")

    def cancel(self) -> None:
        self.asked.append(("cancel",))

    def _take(self, *asked: Any) -> Future[Any]:
        self.asked.append(asked)
        self.answers.append(Future())
        return self.answers[-1]


class Api:
    """The API over some jobs, with a clock that a test turns."""

    def __init__(
        self, *controls: FakeControl, access: AccessPolicy | None = None, directories: DirectoryPolicy | None = None
    ) -> None:
        self.now_ms = START + 10_000
        self.disposed: dict[str, Future[None]] = {}
        self.was_shut_down = False
        self.no_executors_since: int | None = None
        self.executors: tuple[ExecutorView, ...] = (ExecutorView("spark", "box", 0, 2, 1, 8 << 30, 2 << 30),)
        jobs = Jobs(3_600_000, lambda: at(self.now_ms - START))
        self.operations = Operations(300_000, lambda: at(self.now_ms - START))
        for control in controls:
            jobs.add(control)
        self.context = RestContext(
            jobs=jobs,
            operations=self.operations,
            clock=lambda: at(self.now_ms - START),
            executors=lambda: self.executors,
            configuration={"rest.port": "8081"},
            directories=directories or DirectoryPolicy(),
            dispose=self._dispose,
            codes=OneTimeCodes(lambda: at(self.now_ms - START)),
            token=None if access is None else access.token,
            shut_down=self._shut_down,
            no_executors_since=lambda: self.no_executors_since,
        )
        #: Seconds on the clock of wrong tokens.
        self.seconds = 0.0
        self.app = Guard(make_app(self.context), access or AccessPolicy(), FailureDelays(lambda: self.seconds))

    def _dispose(self, path: str) -> Future[None]:
        return self.disposed.setdefault(path, Future())

    def _shut_down(self) -> None:
        self.was_shut_down = True

    def get(self, path: str, code: int = 200, **more: Any) -> Any:
        return self.send("GET", path, code, **more)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request without looking at the answer."""

        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081") as client:
                return await client.request(method, path, **more)

        return asyncio.run(go())

    def send(self, method: str, path: str, code: int, **more: Any) -> Any:
        answer = self.ask(method, path, **more)
        assert answer.status_code == code, answer.text
        return answer.json()

    def error(self, method: str, path: str, code: int, **more: Any) -> str:
        (text,) = self.send(method, path, code, **more)["errors"]
        return text
