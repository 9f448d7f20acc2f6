"""Stands in for `penstock._engine.launch`: keeps what was submitted, and answers as a job that has finished."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

import penstock._engine
from penstock.common import CompletableFuture, JobClient, JobExecutionResult, JobID, JobStatus
from penstock.errors import JobCancelledError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from penstock._engine.graph.job_graph import JobGraph
    from penstock.common import Configuration
    from penstock.common.time import Duration


class FakeClient(JobClient):
    """A job that ends as it is told to."""

    def __init__(self, error: PenstockError | None = None) -> None:
        self.job_id = JobID()
        self.error = error
        self.cancelled = False

    def get_job_id(self) -> JobID:
        return self.job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.completed(JobStatus.CANCELED if self.cancelled else JobStatus.FINISHED)

    def cancel(self) -> CompletableFuture[None]:
        self.cancelled = True
        self.error = JobCancelledError(str(self.job_id), "job")
        return CompletableFuture.completed(None)

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        *,
        timeout: Duration | None = None,
    ) -> CompletableFuture[str]:
        raise AssertionError

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        raise AssertionError

    def trigger_checkpoint(self) -> Any:
        raise AssertionError

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        raise AssertionError

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        return CompletableFuture.completed({})

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        if self.error is not None:
            return CompletableFuture.failed(self.error)
        return CompletableFuture.completed(JobExecutionResult(self.job_id, 12))


@dataclass
class FakeHandle:
    """One submission."""

    graph: JobGraph
    configuration: Configuration
    main_classes: bytes | None
    records: list[object]
    client: FakeClient
    asked_uids: list[str] = field(default_factory=list[str])

    def results(self, uid: str) -> Iterator[object]:
        self.asked_uids.append(uid)
        yield from self.records
        if self.client.error is not None:
            raise self.client.error


class FakeLaunch(ModuleType):
    """Takes submissions; set what the next jobs give."""

    def __init__(self) -> None:
        super().__init__("penstock._engine.launch")
        self.handles: list[FakeHandle] = []
        self.records: list[object] = []
        self.error: PenstockError | None = None

    def submit(
        self,
        job_graph: JobGraph,
        configuration: Configuration,
        main_classes: bytes | None,
        on_end: Callable[..., None] | None = None,
    ) -> FakeHandle:
        del on_end  # fakes do not end by themselves
        handle = FakeHandle(job_graph, configuration, main_classes, self.records, FakeClient(self.error))
        self.handles.append(handle)
        return handle


def install(monkeypatch: pytest.MonkeyPatch) -> FakeLaunch:
    """Put the fake in the place of the real one for one test."""
    fake = FakeLaunch()
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    monkeypatch.setattr(penstock._engine, "launch", fake, raising=False)
    return fake
