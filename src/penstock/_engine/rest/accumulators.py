"""The accumulators of user functions in answers: of a job, and of a vertex."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.protocol.metadata import StoredAccumulator


class UserTaskAccumulator(msgspec.Struct):
    """One accumulator as text: its name, the name of its class, and its value.

    Source: org.apache.flink.runtime.rest.messages.job.UserAccumulator.
    """

    name: str
    type: str
    value: str


class JobAccumulatorsInfo(msgspec.Struct, rename="kebab"):
    """A job's accumulators."""

    job_accumulators: list[UserTaskAccumulator]
    user_task_accumulators: list[UserTaskAccumulator]
    serialized_user_task_accumulators: dict[str, str]


def job_accumulators(job: JobView) -> JobAccumulatorsInfo:
    """Return the accumulators of a job."""
    return JobAccumulatorsInfo([], shown_accumulators(job.accumulators), {})


def shown_accumulators(records: Mapping[str, StoredAccumulator]) -> list[UserTaskAccumulator]:
    """Return accumulators by name, with their values as display texts."""
    return [
        UserTaskAccumulator(name, record.type.rpartition(".")[2], record.text)
        for name, record in sorted(records.items())
    ]
