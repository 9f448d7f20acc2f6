"""The jobs of this process: those that run, and those that ended a while ago."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.gateway.job_control import JobControl
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.rest.metric_history import MetricHistory, Sample


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
