"""The metrics of a job over time: samples of the last hour, which the page draws and the archive keeps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock._engine.rest.metrics import flat, job_metrics, operator_metrics, subtask_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._engine.gateway.job_control import JobControl
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.gateway.progress import JobFailure, JobProgress
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.rest.metrics import Value
    from penstock.common.job_status import JobStatus

#: The most samples, the shortest time between two of them at the start, and what they are to cover. Where there are too
#: many, the oldest one goes if it is older; else each second one goes, and the time between two is doubled.
_MOST: Final = 450
_FIRST_MS: Final = 500
_COVERED_MS: Final = 3_600_000
#: Metrics of subtasks that are not added up for their vertex.
_SMALLEST: Final = frozenset({"currentInputWatermark", "currentOutputWatermark"})
_MEANS: Final = frozenset({"busyTimeMsPerSecond", "idleTimeMsPerSecond", "backPressuredTimeMsPerSecond"})


@dataclass(frozen=True, slots=True)
class Sample:
    """The metrics at one moment; one without a value is left out."""

    at: Moment
    job: Mapping[str, float]
    #: By place in the plan.
    vertices: tuple[Mapping[str, float], ...]


class MetricHistory:
    """Samples one job, at most once for each of its epochs: a `JobStatusListener`.

    Args:
        control: The job.
        clock: Returns the moment.
    """

    def __init__(self, control: JobControl, clock: Callable[[], Moment]) -> None:
        self._control, self._clock = control, clock
        self._between_ms = _FIRST_MS
        #: Oldest first; replaced as a whole, so that other threads read it without a lock.
        self.samples: tuple[Sample, ...] = ()

    def on_status(self, status: JobStatus) -> None:
        """Do nothing: figures come with epochs."""

    def on_failure(self, failure: JobFailure) -> None:
        """Do nothing."""

    def on_progress(self, progress: JobProgress) -> None:
        """Take a sample if the last one is not too young."""
        now = self._clock()
        if self.samples and now.since(self.samples[-1].at) < self._between_ms:
            return
        if len(self.samples) >= _MOST:
            covered_ms = now.since(self.samples[0].at)
            if covered_ms > _COVERED_MS:
                self.samples = self.samples[1:]
            else:
                self.samples = self.samples[::2]
                self._between_ms = 2 * max(self._between_ms, covered_ms // _MOST)
        self.samples = (*self.samples, sample(self._control.view, now))


def sample(job: JobView, now: Moment) -> Sample:
    """Return the metrics of a job at this moment."""
    return Sample(now, _of_job(job, now), tuple(_of_vertex(job, place, now) for place in range(len(job.plan.vertices))))


def _of_job(job: JobView, now: Moment) -> dict[str, float]:
    found = _numbers(job_metrics(job, now).items())
    progress = job.progress
    found["numRecordsPerSecond"] = progress.epoch_records * 1000 / max(1, job.last_interval_ms)
    return {name: value for name, value in found.items() if value >= 0}  # -1 stands for none


def _of_vertex(job: JobView, place: int, now: Moment) -> dict[str, float]:
    """Return the metrics of a vertex over all its subtasks."""
    names = {operator.uid: flat(operator.name) for operator in job.plan.vertices[place].operators}
    values: defaultdict[str, list[float]] = defaultdict(list)
    for index, subtask in enumerate(job.subtasks[place]):
        own = operator_metrics(job, place, index).items()
        of_operators = ((f"{names[uid]}.{name}", value) for (uid, name), value in own)
        for name, value in _numbers([*subtask_metrics(job, subtask).items(), *of_operators]).items():
            values[name].append(value)
    found = {name: _together(name, each) for name, each in values.items()}
    _tell_of_time(found, now)
    last = job.checkpoints.last_completed
    parts = last.subtasks[place] if last is not None and last.subtasks else {}
    found["stateSize"] = sum(part.state_bytes for part in parts.values())
    found["checkpointedSize"] = sum(part.written_bytes for part in parts.values())
    return found


def _together(name: str, values: list[float]) -> float:
    if name in _SMALLEST:
        return min(values)
    return sum(values) / len(values) if name in _MEANS else sum(values)


def _tell_of_time(found: dict[str, float], now: Moment) -> None:
    """Add how far the watermark is behind the time of day; leave out watermarks that are none."""
    for name in _SMALLEST:
        if not MIN_WATERMARK < found.get(name, MIN_WATERMARK) < MAX_WATERMARK:
            found.pop(name, None)
    if "currentOutputWatermark" in found:
        found["watermarkLag"] = now.now_ms - found["currentOutputWatermark"]


def _numbers(metrics: Iterable[tuple[str, Value]]) -> dict[str, float]:
    return {name: value for name, value in metrics if not isinstance(value, str) and value - value == 0}
