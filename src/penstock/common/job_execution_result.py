"""JobExecutionResult: the result of a finished job (``pyflink.common.job_execution_result``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from penstock.common.notebook import table
from penstock.common.user_values import value_text

if TYPE_CHECKING:
    from penstock.common.job_id import JobID

__all__ = ["GivenUpCommittables", "JobExecutionResult"]


@dataclass(frozen=True, slots=True)
class GivenUpCommittables:
    """Committables that a sink's committer gave up: their records are staged and in no output.

    Args:
        operator_name: The sink.
        operator_uid: Its uid.
        first_checkpoint_id: The checkpoint that staged them, or the first of several.
        last_checkpoint_id: The last of these checkpoints; in most entries the same. The oldest entries of a sink with
            many are merged.
        count: The number of committables.
        reason: The committer's error for the first of them.

    Example:
        >>> print(GivenUpCommittables("Sink: orders", "orders", 7, 7, 2, "TimeoutError('expired')"))
        Sink 'Sink: orders' (uid 'orders') gave up 2 committables of checkpoint 7: TimeoutError('expired')
    """

    operator_name: str
    operator_uid: str
    first_checkpoint_id: int
    last_checkpoint_id: int
    count: int
    reason: str

    def __str__(self) -> str:
        first, last = self.first_checkpoint_id, self.last_checkpoint_id
        of = f"checkpoint {last}" if first == last else f"checkpoints {first} to {last}"
        what = "1 committable" if self.count == 1 else f"{self.count} committables"
        return f"Sink {self.operator_name!r} (uid {self.operator_uid!r}) gave up {what} of {of}: {self.reason}"


@dataclass(frozen=True, slots=True)
class JobExecutionResult:
    """The result of a finished job.

    Args:
        job_id: The job.
        net_runtime_ms: The time that it ran, in milliseconds.
        accumulators: The values of its accumulators by name.
        late_records_dropped: The number of records that came too late and were dropped, by the name of the operator.
        given_up_committables: The committables that its sinks' committers gave up for good, oldest first.
        unread_splits: The number of splits that readers had left when they finished, by the name of the source.
        job_name: The name of the job; ours, as the next two.
        records: The number of records that its sources read in this run.
        epochs: The number of epochs that were accepted in this run.

    Source: ``pyflink.common.JobExecutionResult``.

    Example:
        >>> from penstock.common.job_id import JobID
        >>> JobExecutionResult(JobID(), 1500).get_net_runtime()
        1500
    """

    job_id: JobID
    net_runtime_ms: int
    accumulators: dict[str, Any] = field(default_factory=dict[str, Any])
    late_records_dropped: dict[str, int] = field(default_factory=dict[str, int])
    given_up_committables: tuple[GivenUpCommittables, ...] = ()
    unread_splits: dict[str, int] = field(default_factory=dict[str, int])
    job_name: str = ""
    records: int = 0
    epochs: int = 0

    def get_job_id(self) -> JobID:
        """Return the id of the job."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Return the time that the job ran, in milliseconds."""
        return self.net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return the value of an accumulator; None when the job has none of that name."""
        return self.accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return the values of all accumulators by name."""
        return dict(self.accumulators)

    def get_late_records_dropped(self) -> dict[str, int]:
        """Return the number of dropped late records by the name of the operator.

        Ours; only operators that have dropped any are named. The numbers count with the checkpoints, as accumulators
        do, so they continue over restarts and savepoints.
        """
        return dict(self.late_records_dropped)

    def get_given_up_committables(self) -> tuple[GivenUpCommittables, ...]:
        """Return the committables that sinks' committers gave up: their records are staged and in no output.

        Not in PyFlink. A committer gives up by ``signal_failed_with_known_reason``. The entries are in checkpoints, so
        they cover all runs of the job. If there are any, ``penstock run`` ends with an exit code of its own.
        """
        return self.given_up_committables

    def get_unread_splits(self) -> dict[str, int]:
        """Return the number of splits that finished readers left unread, by the name of the source.

        Not in PyFlink. A reader that ends its input by itself may leave splits unread.
        """
        return dict(self.unread_splits)

    def __str__(self) -> str:
        lines = [
            "Program execution finished",
            f"Job with JobID {self.job_id} has finished.",
            f"Job Runtime: {self.net_runtime_ms} ms",
        ]
        if self.accumulators:
            lines.append("Accumulator Results:")
            lines += [f"- {name} {_shown(value)}" for name, value in self.accumulators.items()]
        lines += [f"Late records dropped by {name}: {count}" for name, count in self.late_records_dropped.items()]
        lines += map(str, self.given_up_committables)
        lines += [f"Splits left unread by {name}: {count}" for name, count in self.unread_splits.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the result as a table, for notebooks."""
        rows: list[tuple[str, str]] = [
            ("id", str(self.job_id)),
            ("runtime", f"{self.net_runtime_ms / 1000:,.3f} s"),
            ("records read", f"{self.records:,}"),
            ("epochs", f"{self.epochs:,}"),
            *((f"accumulator {name}", _shown(value)) for name, value in self.accumulators.items()),
            *((f"late records dropped by {name}", f"{count:,}") for name, count in self.late_records_dropped.items()),
            *(("given up", str(entry)) for entry in self.given_up_committables),
            *((f"splits left unread by {name}", f"{count:,}") for name, count in self.unread_splits.items()),
        ]
        return table(f"Job {self.job_name!r} has finished", (), rows)


def _shown(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, list | set | tuple):
        return f"({kind}) [{len(cast('list[Any]', value))} elements]"
    return f"({kind}): {value_text(value)}"
