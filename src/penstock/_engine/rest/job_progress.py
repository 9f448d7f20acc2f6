"""Penstock's own members of a job: how far it is, what it has lost, what it has recovered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock._engine.rest.paths import as_uri

if TYPE_CHECKING:
    from penstock._engine.gateway.job_view import JobView


class GivenUpCommittablesInfo(msgspec.Struct):
    """Committables that a sink's committer has given up for good: their records are in no output."""

    #: The sink's name and uid.
    operator: str
    uid: str
    #: The checkpoints of the committables: one, or several whose entries were merged.
    first_checkpoint_id: int
    last_checkpoint_id: int
    count: int
    #: The committer's error for the first committable.
    reason: str


class BatchRecoveryInfo(msgspec.Struct):
    """What a batch job has recovered from drivers that were lost."""

    #: Finished subtasks that their events name.
    recorded: int
    #: By vertex id: those that count, and did not run in this driver; and those that run again, as a result is lost.
    recovered: dict[str, int]
    ran_again: dict[str, int]
    #: What is wrong with the events; "" where they are whole.
    damage: str = ""


class LostRunInfo(msgspec.Struct):
    """A run whose driver is gone without having ended it."""

    #: The last sign of the driver, in epoch milliseconds, and where it was.
    since: int
    host: str
    pid: int
    #: Whether its process is known to be gone; of a silent one on another host that is not known.
    is_gone: bool
    #: Whether another run of the job has begun since; else the checkpoint to start from, where one stayed.
    was_resumed: bool
    checkpoint: str | None


class JobProgressNumbers(msgspec.Struct):
    """Penstock's own members of a job."""

    #: Records that the sources read (-1 where only checkpoints tell of the run), epochs that counted, restarts, and the
    #: last checkpoint; all of this run.
    records: int
    epochs: int
    restarts: int
    checkpoint_id: int
    #: The last epoch: its records and its length in milliseconds.
    epoch_records: int
    epoch_ms: int
    #: The smallest watermark at the ends of the job.
    watermark: int
    #: Committables that are not yet known to be published, by the uid of the sink.
    pending_commits: dict[str, int]
    #: Dropped late records, by the name of the operator.
    late_records_dropped: dict[str, int] = {}
    #: Committables that sinks' committers have given up in all runs of the job, oldest first.
    given_up_committables: list[GivenUpCommittablesInfo] = []
    #: Splits that finished readers have left unread, by the name of the source.
    unread_splits: dict[str, int] = {}
    savepoint_directory: str | None = None
    #: The share of subtasks that began an epoch on the host of the epoch before; the bytes of state that all read from
    #: checkpoints.
    returned_share: float = 1.0
    restored_bytes: int = 0
    #: Batch jobs with recovery.
    recovery: BatchRecoveryInfo | msgspec.UnsetType = msgspec.UNSET
    #: The run of the job: one job may have several, one behind the other.
    run_id: str = ""
    lost: LostRunInfo | msgspec.UnsetType = msgspec.UNSET


def job_progress(job: JobView) -> JobProgressNumbers:
    """Return Penstock's own members of a job."""
    progress = job.progress
    return JobProgressNumbers(
        records=progress.records,
        epochs=progress.epochs,
        restarts=progress.restarts,
        checkpoint_id=progress.checkpoint_id,
        epoch_records=progress.epoch_records,
        epoch_ms=progress.epoch_ms,
        watermark=progress.watermark,
        pending_commits=dict(job.pending_commits),
        late_records_dropped=job.late_records_by_name,
        given_up_committables=[
            GivenUpCommittablesInfo(
                one.name, one.uid, one.first_checkpoint_id, one.last_checkpoint_id, one.count, one.reason
            )
            for one in job.given_up
        ],
        unread_splits=job.unread_splits_by_name,
        savepoint_directory=job.configuration.get("execution.checkpointing.savepoint-dir"),
        returned_share=job.returned_share,
        restored_bytes=job.restored_bytes,
        recovery=_recovery(job),
        run_id=job.run_id,
        lost=_lost(job),
    )


def _lost(job: JobView) -> LostRunInfo | msgspec.UnsetType:
    known = job.lost
    if known is None:
        return msgspec.UNSET
    path = known.checkpoint and as_uri(known.checkpoint)
    return LostRunInfo(known.since_ms, known.host, known.pid, known.is_gone, known.was_resumed, path)


def _recovery(job: JobView) -> BatchRecoveryInfo | msgspec.UnsetType:
    known = job.recovery
    if known is None:
        return msgspec.UNSET
    ids = [vertex.id for vertex in job.plan.vertices]
    recovered, ran_again = (
        {ids[vertex]: count for vertex, count in sorted(counts.items()) if count}
        for counts in (known.recovered, known.ran_again)
    )
    return BatchRecoveryInfo(known.recorded, recovered, ran_again, known.damage)
