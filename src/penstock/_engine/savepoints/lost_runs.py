"""What the chain entries of a job tell of a run that has left no archive: its driver was killed.

There is no more than that: the vertices of its last checkpoint with their watermarks, the accumulators, what became of
its commits, and perhaps how it ended, where the driver died behind its last entry.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.life.termination import ENDS
from penstock._engine.gateway.checkpoint_view import (
    CheckpointKind,
    CheckpointSettings,
    CheckpointStatus,
    CheckpointsView,
    CheckpointView,
)
from penstock._engine.gateway.job_view import (
    InputView,
    JobView,
    OperatorView,
    PlanView,
    SubtaskView,
    VertexView,
    vertex_id,
)
from penstock._engine.gateway.lost_view import LostView
from penstock._engine.gateway.progress import JobFailure, JobProgress
from penstock._engine.protocol.clocks import Moment
from penstock._engine.protocol.metadata import late_records
from penstock._engine.protocol.rows import MIN_WATERMARK
from penstock._engine.savepoints.chains import read_chain
from penstock._engine.storage.opening import open_storage
from penstock.common.job_status import JobStatus
from penstock.common.redaction import shown_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.processes.run_notes import RunNote
    from penstock._engine.protocol.metadata import ChainEntry, JobSnapshot, VertexMetadata
    from penstock._engine.savepoints.chains import JobChain

_LISTED: Final = 10
#: The records that sources have read: they went with the driver.
UNKNOWN: Final = -1
_GONE: Final = "DriverLostError: process {pid} on {host} is gone without having ended the job"
_SILENT: Final = "DriverLostError: process {pid} on {host} has given no sign since"


def lost_run(note: RunNote, options: Mapping[str, str], *, was_resumed: bool = False) -> JobView:
    """Return the view of a run that has left its note; its status is SUSPENDED where no entry tells how it ended.

    Args:
        note: The note of the run.
        options: Options of the object store of its checkpoints.
        was_resumed: Whether another run of the job has begun since.

    Raises:
        CheckpointStorageError: Its checkpoint directory cannot be read.
    """
    chain = None if note.checkpoints is None else read_chain(open_storage(note.checkpoints, options), note.job_id)
    own = [] if chain is None else [entry for entry in chain.entries.values() if entry.run_id == note.run_id]
    ended = own[-1] if own and own[-1].is_terminal else None
    last = Moment(*[max([note.started_ms, *(entry.created_ms for entry in own)])] * 2)
    view = _seen(note, own, chain, last)
    if ended is not None:
        return replace(
            view,
            status=(status := ENDS[ended.kind]),
            status_times={**view.status_times, status: last},
            error=ended.reason or None,
            error_text=ended.reason or None,
            is_complete=status is JobStatus.FINISHED,
        )
    reason = (_GONE if note.is_local else _SILENT).format(pid=note.pid, host=note.host)
    failure = JobFailure(last, view.progress.checkpoint_id, 0, counted=False, reason=reason)
    lost = LostView(
        *(last.now_ms, note.host, note.pid, note.is_local, was_resumed, None if was_resumed else _checkpoint(chain))
    )
    return replace(view, failures=(failure,), error=reason, error_text=reason, lost=lost)


def _checkpoint(chain: JobChain | None) -> str | None:
    """Return the path of the last checkpoint of a job."""
    entries = [] if chain is None else [entry for entry in chain.entries.values() if entry.snapshot is not None]
    return chain.storage.lasting_path(f"{chain.job_id}/chk-{entries[-1].checkpoint_id}") if chain and entries else None


def _seen(note: RunNote, own: list[ChainEntry], chain: JobChain | None, last: Moment) -> JobView:
    """Return what the entries of a run show of it."""
    checkpoints = [entry for entry in own if entry.snapshot is not None]
    snapshot = checkpoints[-1].snapshot if checkpoints else None
    started = Moment(note.started_ms, note.started_ms)
    plan = _plan(snapshot, note.job_type)
    accumulators = {} if snapshot is None else snapshot.all_accumulators
    late = late_records(accumulators)
    subtasks = () if snapshot is None else tuple(map(_subtasks, snapshot.vertices))
    shown = tuple(_shown(entry, chain) for entry in reversed(checkpoints[-_LISTED:]))
    return JobView(
        job_id=note.job_id,
        run_id=note.run_id,
        name=shown_text(note.name),
        status=JobStatus.SUSPENDED,
        status_times={JobStatus.CREATED: started, JobStatus.RUNNING: started, JobStatus.SUSPENDED: last},
        started=started,
        ended=last,
        plan=plan,
        subtasks=subtasks,
        progress=JobProgress(
            records=UNKNOWN,
            checkpoint_id=checkpoints[-1].checkpoint_id if checkpoints else 0,
            watermark=min((part.output_watermark for vertex in subtasks for part in vertex), default=MIN_WATERMARK),
            late_records=sum(late.values()),
            subtasks=sum(map(len, subtasks)),
            finished_subtasks=sum(part.finished for vertex in subtasks for part in vertex),
        ),
        last_interval_ms=0,
        running_ms=last.since(started),
        checkpoints=CheckpointsView(
            CheckpointSettings(
                enabled=chain is not None,
                interval_ms=0,
                timeout_ms=0,
                min_pause_ms=0,
                tolerable_failures=0,
                kept_on_cancel=True,
                durable=chain is not None,
            ),
            completed=len(checkpoints),
            history=shown,
            last_completed=shown[0] if shown else None,
        ),
        late_records=late,
        given_up=() if snapshot is None else snapshot.given_up,
        pending_commits={} if snapshot is None else _pending(snapshot),
    )


def _pending(snapshot: JobSnapshot) -> dict[str, int]:
    pending = dict.fromkeys((commit.uid for commit in snapshot.outstanding), 0)
    for commit in snapshot.outstanding:
        pending[commit.uid] += len(commit.committables)
    return pending


def _shown(entry: ChainEntry, chain: JobChain | None) -> CheckpointView:
    at = Moment(entry.created_ms, entry.created_ms)
    count = 0 if entry.snapshot is None else sum(len(vertex.subtasks) for vertex in entry.snapshot.vertices)
    path = None if chain is None else chain.storage.lasting_path(f"{chain.job_id}/chk-{entry.checkpoint_id}")
    number, status = entry.checkpoint_id, CheckpointStatus.COMPLETED
    return CheckpointView(number, CheckpointKind.CHECKPOINT, status, at, count, acked=at, ended=at, path=path)


def _plan(snapshot: JobSnapshot | None, job_type: str) -> PlanView:
    vertices = () if snapshot is None else snapshot.vertices
    ids = {uid: vertex_id(vertex.operators[0]) for vertex in vertices for uid in vertex.operators}
    made: list[VertexView] = []
    for vertex in vertices:
        assert snapshot is not None
        known = snapshot.operators
        operators = tuple(OperatorView(uid, shown_text(known[uid].name), "") for uid in vertex.operators)
        inputs = tuple(_input(signature, ids) for signature in vertex.inputs)
        most = known[vertex.operators[0]].max_parallelism
        name = shown_text(vertex.name)
        made.append(VertexView(ids[vertex.operators[0]], name, len(vertex.subtasks), most, operators, inputs))
    parallelism = max((one.parallelism for one in made), default=1)
    return PlanView(tuple(made), bounded=False, parallelism=parallelism, max_parallelism=-1, job_type=job_type)


def _input(signature: str, ids: Mapping[str, str]) -> InputView:
    """Return an edge by its signature, such as ``0: numbers hash to input 0``."""
    output, strategy, *_ = signature.partition(": ")[2].rsplit(" ", 4)
    uid = next((uid for uid in ids if output == uid or output.startswith(f"{uid}:")), output)
    return InputView(ids.get(uid, uid), strategy.upper())


def _subtasks(vertex: VertexMetadata) -> tuple[SubtaskView, ...]:
    return tuple(
        SubtaskView(input_watermark=part.input_watermark, output_watermark=part.watermark, finished=part.finished)
        for part in vertex.subtasks
    )
