"""Runs a slot's part of one stage of a batch job: its subtasks one after the other, from stored results to a result.

A subtask that reads earlier results reads all of them and finishes. A source reads all splits that it has; it runs
again when its enumerator has assigned more.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from msgspec import UNSET

from penstock._engine.plan.bounds import receivers_of
from penstock._engine.protocol.control import encode
from penstock._engine.protocol.paths import finished_path
from penstock._engine.protocol.row_sums import MODULUS
from penstock._engine.protocol.rows import DRIVER, PayloadKind, split_channel
from penstock._engine.protocol.signing import seal
from penstock._engine.runtime.blocks import decode_batch
from penstock._engine.runtime.failures import ends_task, failure_of
from penstock._engine.runtime.results import ResultReader, ResultWriter
from penstock._engine.runtime.row_buffer import ExchangeRow, RowBuffer
from penstock._engine.runtime.stage_subtask import StageSubtask
from penstock._engine.runtime.task_log import TaskLog
from penstock._engine.runtime.worker_cache import close_idle
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.protocol.control import SubtaskDispatch, TaskDispatch
    from penstock._engine.runtime.stage_subtask import Block
    from penstock._engine.runtime.worker_cache import WorkerCache


class StageTask:
    """One attempt at one slot of a stage.

    Args:
        dispatch: The dispatch of the task.
        cache: What the worker keeps.
        attempt: Spark's number of the attempt, from 0.
    """

    def __init__(self, dispatch: TaskDispatch, cache: WorkerCache, attempt: int = 0) -> None:
        self._attempt = attempt or UNSET
        self._task = dispatch
        self._cache = cache
        self._token = secrets.randbits(62)
        self._rows = RowBuffer()
        self._log = TaskLog()
        #: The subtask that runs now, until the cache has it or it is closed.
        self._runtime: StageSubtask | None = None
        self._at = (0, 0)

    def run(self) -> Iterator[pa.RecordBatch]:
        """Run the slot's subtasks and yield the rows for the driver; a user error becomes a row too."""
        with self._log.listening():
            try:
                for part in self._task.subtasks:
                    self._run_subtask(part)
                    yield self._rows.drain()
            except BaseException as error:  # Spark must not run user functions again because of our bug either
                if ends_task(error):
                    raise
                self._tell_driver(PayloadKind.FAILURE, encode(failure_of(error, self._at)))
            finally:
                if self._runtime is not None:
                    with contextlib.suppress(Exception):  # an error in `close` must not hide the earlier failure
                        self._runtime.close()
        self._log.send(self._rows, 0, self._token)
        yield self._rows.drain()

    def _run_subtask(self, part: SubtaskDispatch) -> None:
        task, cache, self._at = self._task, self._cache, (part.vertex, part.subtask)
        plan, storage = cache.turn_to(task), cache.results(task.job)
        runtime = cast("StageSubtask | None", cache.take(part))
        is_new = runtime is None
        if runtime is None:
            runtime = StageSubtask(plan, task.job, self._at, cache.environment(task.job))
        self._runtime = runtime
        self._log.turn_to(runtime)
        if is_new:
            runtime.open(task)
        result = ResultWriter(storage, task.job, self._at, self._token)
        for edge in runtime.edges:
            edge.begin_epoch(result, self._token, dict.fromkeys(edge.targets, 0), None)
        for _ in runtime.begin_epoch(part, task, self._token):
            pass
        if runtime.vertex.is_source or runtime.vertex.is_fed:
            for _ in runtime.read_source():
                pass
            sums: dict[int, int] = {}
        else:
            sums = self._read(runtime, ResultReader(storage, task.job, plan, task.level.results or ()), plan)
        for _ in runtime.end_epoch():
            pass
        ack = replace(
            runtime.acknowledge(),
            rows_read=sums,
            result_files=result.finish(),
            result_bytes=result.bytes,
            host=socket.gethostname(),
            task_attempt=self._attempt,
        )
        self._tell_driver(PayloadKind.ACK, encode(ack))
        if runtime.has_finished:
            close_idle(runtime)
        else:
            cache.put(runtime)
        self._runtime = None
        if task.job.announces and ack.finished:
            path = finished_path(task.job.job_id, task.job.run_id, task.level.job_attempt, self._at, self._token)
            with contextlib.suppress(CheckpointStorageError):  # the driver gets the ack with the whole stage, too
                storage.put(path, seal(encode(ack), task.job.dispatch_key, path))

    def _read(self, runtime: StageSubtask, reader: ResultReader, plan: ExecutionPlan) -> dict[int, int]:
        """Let a subtask process all rows for it, and then the end of its inputs; return the sums of the rows."""
        fragments: dict[tuple[int, int], list[bytes]] = {}
        sums: Counter[int] = Counter()
        vertex, subtask = runtime.place
        receivers = receivers_of(self._task.level.bounds.get(vertex), subtask)

        def blocks() -> Iterator[Block]:
            for row in reader.rows(vertex, receivers):
                sums[split_channel(row.channel)[0]] += row.weight
                name = row.target, row.channel
                if row.kind == PayloadKind.FRAGMENT:
                    fragments.setdefault(name, []).append(row.payload)
                    continue
                payload = b"".join([*fragments.pop(name, ()), row.payload])
                yield row.channel, decode_batch(payload), len(payload)

        for _ in runtime.receive_all(blocks()):
            pass
        for _ in runtime.close_silent():
            pass
        return {edge: total % MODULUS for edge, total in sums.items()}

    def _tell_driver(self, kind: PayloadKind, payload: bytes) -> None:
        self._rows.add(ExchangeRow(0, DRIVER, 0, 0, self._token, kind, payload))
