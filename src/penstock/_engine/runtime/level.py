"""Runs one level of an epoch in one slot: rows of the level above in, rows for lower levels and the driver out."""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import socket
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from penstock._engine.operators.head import never
from penstock._engine.plan.dispatches import unpack
from penstock._engine.plan.levels import placement
from penstock._engine.protocol.control import UNKNOWN, ChannelClosing, JobDispatch, StopMode, decode, encode
from penstock._engine.protocol.rows import DRIVER, PayloadKind, slot_of_target, slot_target, subtask_target
from penstock._engine.runtime.blocks import decode_batch
from penstock._engine.runtime.failures import ends_task, failure_of
from penstock._engine.runtime.flow import Flow
from penstock._engine.runtime.row_buffer import OF_PIPELINED, ExchangeRow, RowBuffer, RowSeals, rows_of
from penstock._engine.runtime.stage import StageTask
from penstock._engine.runtime.subtask import SubtaskRuntime
from penstock._engine.runtime.task_log import TaskLog
from penstock._engine.runtime.worker_cache import CACHE, close_idle
from penstock._files.job_options import reaching_stores_by
from penstock.common.interrupts import noting_interrupts
from penstock.errors import DamagedBlockError, InternalError, LocalStateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.protocol.control import SubtaskDispatch, TaskDispatch
    from penstock._engine.runtime.worker_cache import WorkerCache


#: Blocks of many small tuples are no garbage: let Python's collector run less often than after 700 objects.
_GC_THRESHOLDS: Final = (200_000, 20, 50)


class LevelTask:
    """One attempt at one slot of one level.

    Args:
        dispatch: The dispatch of the task.
        cache: The subtasks and plans that the worker keeps between epochs.
        attempt: Spark's number of the attempt, from 0.
    """

    def __init__(self, dispatch: TaskDispatch, cache: WorkerCache, attempt: int = 0) -> None:
        self._process = os.getpid()
        self._attempt = attempt or UNSET
        self._task = dispatch
        self._dispatch = dispatch.level
        self._flow = Flow(max(dispatch.level.widths)) if dispatch.level.pipelined else None
        self._slot = dispatch.slot
        self._cache = cache
        self._token = secrets.randbits(62)
        level, job = dispatch.level, dispatch.job
        #: Of the rows that come from above in a pipelined epoch; answers do not go through an exchange.
        self._seals = RowSeals(job.dispatch_key, level.epoch, level.level) if level.pipelined else None
        is_sealed = level.pipelined and self._width_below()
        self._rows = RowBuffer(RowSeals(job.dispatch_key, level.epoch, level.level + 1) if is_sealed else None)
        self._log = TaskLog()
        self._plan: ExecutionPlan
        #: The subtasks that this task holds, by target; it closes them unless the cache takes them.
        self._subtasks: dict[int, SubtaskRuntime] = {}
        #: The vertex and subtask that run now.
        self._at = (0, 0)
        self._fragments: dict[tuple[int, int], list[bytes]] = {}
        self._expected_seq: dict[tuple[int, int], int] = {}
        #: Whether the epoch failed: it is void as a whole, and only rows for the driver are passed on.
        self._failed = False

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the slot's subtasks over the rows from above and yield rows; a user error becomes a row too."""
        rows = rows_of(batches, self._seals, self._slot) if self._dispatch.level > 0 else iter(())
        with self._log.listening():
            try:
                for batch in self._run_guarded(rows):
                    self._leave_if_forked()
                    yield batch
                self._leave_if_forked()
            finally:
                self._close_subtasks()
        if self._failed:
            yield from self._pass_failure_on(rows)
        self._log.send(self._rows, self._next_slot(DRIVER, 0), self._token)
        yield self._rows.drain()

    def _run_guarded(self, rows: Iterator[ExchangeRow]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._begin()
            yield from self._read_rows(rows)
            if not self._failed:
                yield from self._end()
        except BaseException as error:  # Spark must not run user functions again because of our bug either
            self._leave_if_forked()
            if ends_task(error):
                raise
            self._fail(error)

    def _leave_if_forked(self) -> None:
        """End a process that a user's function has forked and that came back: it would answer beside the task."""
        if os.getpid() != self._process:
            os._exit(1)

    # ------------------------------------------------------------------------------------------------------ the epoch

    def _begin(self) -> Iterator[pa.RecordBatch]:
        dispatch, task, cache = self._dispatch, self._task, self._cache
        self._plan = cache.turn_to(task)
        self._placement = placement(self._plan, dispatch.running, dispatch.widths, dispatch.placed)
        for part in task.subtasks:
            self._at = part.vertex, part.subtask
            runtime = cache.take(part)
            is_new = runtime is None
            if runtime is None:
                runtime = SubtaskRuntime(self._plan, task.job, self._at, cache.environment(task.job))
            self._subtasks[subtask_target(*self._at)] = runtime
            self._turn_to(runtime)
            if part.is_notification:
                self._notify(runtime, part)
                continue
            if is_new:
                runtime.open(task)
            ends = part.subtask in dispatch.ending_subtasks(part.vertex)
            for edge in runtime.edges:
                slots = self._slots_towards(edge.edge.target, edge.channel)
                told = replace(part.outputs.get(edge.edge.id, UNKNOWN), ended=ends)
                edge.begin_epoch(self._rows, self._token, slots, told)
            for _ in runtime.begin_epoch(part, task, self._token):
                yield from self._ready()
        if dispatch.level == 0:
            yield from self._read_sources()

    def _read_sources(self) -> Iterator[pa.RecordBatch]:
        """Let the sources read one after the other, or, in a pipelined epoch, all at the same time."""
        readers = self._readers()
        ends = self._cache.early_end(self._task) if readers else never
        reading = [(runtime, runtime.read_source(ends)) for runtime in readers]
        while reading:
            runtime, steps = reading.pop(0)
            self._turn_to(runtime)
            for rests in steps:
                yield from self._ready(rests=rests is True)
                if rests is not None:
                    reading.append((runtime, steps))
                    break
            yield from self._fire_timers()

    def _fire_timers(self) -> Iterator[pa.RecordBatch]:
        """Fire what has become due in a pipelined epoch, in which this may be the only sign of life for a while."""
        if self._flow is not None and self._flow.timers.is_due():
            for runtime in self._subtasks.values():
                self._turn_to(runtime)
                for _ in runtime.on_processing_time():
                    yield from self._ready()
                for edge, status in zip(runtime.edges, runtime.edge_statuses(), strict=True):
                    edge.tell_idle(idle=status.idle)

    def _readers(self) -> list[SubtaskRuntime]:
        """Return the subtasks that have input of their own; nothing is read from outside before a stop."""
        is_last = self._dispatch.stop is not StopMode.NO
        return [runtime for runtime in self._subtasks.values() if runtime.vertex.is_fed or not is_last]

    def _notify(self, runtime: SubtaskRuntime, notification: SubtaskDispatch) -> None:
        """Notify a subtask of its last checkpoint, and close it."""
        runtime.notify_last(self._task, notification)
        self._subtasks.pop(subtask_target(*self._at))
        if self._dispatch.releases:
            self._cache.put(runtime)  # the cache closes it once all subtasks are notified
        else:
            close_idle(runtime)

    def _read_rows(self, rows: Iterator[ExchangeRow]) -> Iterator[pa.RecordBatch]:
        for row in rows:
            if not self._is_own(row.target):
                self._carry(row)
            elif row.kind == PayloadKind.TICK:
                yield from self._fire_timers()
            elif row.kind == PayloadKind.CLOSING:
                yield from self._take_closing(decode(row.payload, ChannelClosing), row.token)
            else:
                yield from self._take_block(row)
            if self._failed:
                return
            yield from self._ready(rests=True)  # more rows may come, or none for a while

    def _end(self) -> Iterator[pa.RecordBatch]:
        for runtime in self._subtasks.values():
            self._turn_to(runtime)
            for _ in runtime.close_silent():
                yield from self._ready()
            for _ in runtime.end_epoch(drain=self._dispatch.stop is StopMode.DRAIN):
                yield from self._ready()
        for runtime in self._subtasks.values():
            self._turn_to(runtime)
            ack = replace(runtime.acknowledge(), host=socket.gethostname(), task_attempt=self._attempt)
            self._tell_driver(PayloadKind.ACK, encode(ack))
            yield from self._ready()
        self._close_channels()
        for target in list(self._subtasks):  # a finished subtask is closed when the checkpoint is complete
            self._cache.put(self._subtasks.pop(target))

    def _fail(self, error: BaseException) -> None:
        """Void the epoch: drop unsent rows, and send the failure to the driver, which gets it when the epoch ends."""
        failure = failure_of(error, self._at)
        self._failed = True
        self._rows.keep_driver_rows()
        self._tell_driver(PayloadKind.FAILURE, encode(failure))
        if self._dispatch.level == 0 or self._flow is not None:  # sources may still read, beside this task or above it
            self._cache.tell_failure(self._task)

    def _pass_failure_on(self, rows: Iterator[ExchangeRow]) -> Iterator[pa.RecordBatch]:
        """Pass on the driver's rows of a failed epoch, and notify the next level."""
        for row in rows:
            if row.target == DRIVER:
                self._carry(row)
                yield from self._ready()
        for slot in range(self._width_below()):
            target = slot_target(self._dispatch.level + 1, slot)
            payload = encode(ChannelClosing({}, {}, failed=True))
            self._rows.add(ExchangeRow(slot, target, 0, 0, self._token, PayloadKind.CLOSING, payload))

    def _close_subtasks(self) -> None:
        """Close the subtasks of an epoch that failed here or upstream, or whose task was interrupted."""
        for runtime in self._subtasks.values():
            with contextlib.suppress(Exception):  # an error in `close` must not hide the earlier failure
                runtime.close()
        self._subtasks.clear()

    # ------------------------------------------------------------------------------------------------------- rows in

    def _take_block(self, row: ExchangeRow) -> Iterator[pa.RecordBatch]:
        name = row.target, row.channel
        runtime = self._subtasks[row.target]
        if row.seq != self._expected_seq.get(name, 0) or runtime.channels.is_closed(row.channel):
            msg = f"rows of channel {row.channel} to {row.target} came out of order: {row.seq}"
            if self._seals is not None:  # a stranger may have sent a row again, or in another order
                raise DamagedBlockError(len(row.payload), OF_PIPELINED, msg)
            raise InternalError(msg)
        self._expected_seq[name] = row.seq + 1
        runtime.channels.note_row(row.channel, row.token)
        if row.kind == PayloadKind.FRAGMENT:
            self._fragments.setdefault(name, []).append(row.payload)
            return
        parts = self._fragments.pop(name, None)
        self._turn_to(runtime)
        if row.kind == PayloadKind.IDLE:
            for _ in runtime.rise(runtime.valve.note_idle(row.channel, idle=row.payload == b"\1")):
                yield from self._ready()
            return
        payload = row.payload if parts is None else b"".join([*parts, row.payload])
        for _ in runtime.receive(row.channel, decode_batch(payload), len(payload)):
            yield from self._ready()

    def _take_closing(self, closing: ChannelClosing, token: int) -> Iterator[pa.RecordBatch]:
        if closing.failed:
            self._failed = True
            return
        for runtime in self._subtasks.values():
            for channel, update in closing.channels.items():
                if channel in runtime.channels:
                    self._turn_to(runtime)
                    for _ in runtime.close_channel(channel, update, token, closing.read_ms.get(channel, 0.0)):
                        yield from self._ready()

    def _is_own(self, target: int) -> bool:
        if target < DRIVER:
            return slot_of_target(target) == (self._dispatch.level, self._slot)
        return target in self._subtasks

    def _turn_to(self, runtime: SubtaskRuntime) -> None:
        self._at = runtime.place
        self._log.turn_to(runtime)

    # ------------------------------------------------------------------------------------------------------ rows out

    def _tell_driver(self, kind: PayloadKind, payload: bytes) -> None:
        self._rows.add(ExchangeRow(self._next_slot(DRIVER, 0), DRIVER, 0, 0, self._token, kind, payload))

    def _carry(self, row: ExchangeRow) -> None:
        self._rows.add(row._replace(slot=self._next_slot(row.target, row.channel)))

    def _width_below(self) -> int:
        """Return the number of slots of the next level, 0 below the last one."""
        widths, below = self._dispatch.widths, self._dispatch.level + 1
        return widths[below] if below < len(widths) else 0

    def _next_slot(self, target: int, channel: int) -> int:
        """Return the slot of the next level through or to which a row is sent."""
        if target == DRIVER:  # spread over all slots, because each subtask sends rows
            return self._slot % (self._width_below() or 1)
        if target < DRIVER:
            at, slot = slot_of_target(target)
        else:
            at, slot = self._plan.level_of[target >> 16], self._placement[target]
        return slot if at == self._dispatch.level + 1 else channel % self._width_below()

    def _slots_towards(self, vertex: int, channel: int) -> dict[int, int]:
        """Return target -> next slot for the receivers of a vertex."""
        count = self._plan.graph.vertices[vertex].parallelism
        targets = [subtask_target(vertex, subtask) for subtask in range(count)]
        return {target: self._next_slot(target, channel) for target in targets if target in self._placement}

    def _close_channels(self) -> None:
        """Send the changed status of this slot's channels to the slots that may read them.

        The row must not overtake the data of its channels, so only channels on the same way through the levels between
        share a row.
        """
        dispatch, below = self._dispatch, self._dispatch.level + 1
        closings: dict[tuple[int, tuple[int, ...], frozenset[int]], ChannelClosing] = {}
        for runtime in self._subtasks.values():
            for edge in runtime.edges:
                if edge.channel not in runtime.closings:
                    continue
                level = self._plan.level_of[edge.edge.target]
                way = tuple(edge.channel % width for width in dispatch.widths[below:level])
                slots = frozenset(map(self._placement.__getitem__, edge.targets))
                closing = closings.setdefault((level, way, slots), ChannelClosing({}, {}))
                closing.channels[edge.channel] = runtime.closings[edge.channel]
                if runtime.read_ms:
                    closing.read_ms[edge.channel] = runtime.read_ms
        for (level, _, slots), closing in closings.items():
            channel, payload = next(iter(closing.channels)), encode(closing)
            for slot in sorted(slots):
                target = slot_target(level, slot)
                row = ExchangeRow(
                    self._next_slot(target, channel), target, channel, 0, self._token, PayloadKind.CLOSING, payload
                )
                self._rows.add(row)

    def _ready(self, *, rests: bool = False) -> Iterator[pa.RecordBatch]:
        """Pass on what is enough, or has waited; `rests` says that nothing more is there to be processed now."""
        width = self._width_below()
        if self._flow is not None and width and self._flow.is_flush_due(rests=rests):
            for edge in chain.from_iterable(runtime.edges for runtime in self._subtasks.values()):
                edge.flush()
            slots = self._rows.slots
            # Spark passes a row on when another one follows.
            ticked = range(width) if self._flow.tick.is_due() else sorted(slots)
            for slot in ticked:
                target = slot_target(self._dispatch.level + 1, slot)
                self._rows.add(ExchangeRow(slot, target, 0, 0, self._token, PayloadKind.TICK, b""))
            if ticked:
                yield self._rows.drain()
        elif self._rows.is_ready:
            yield self._rows.drain()


def run_level(
    job: bytes,
    dispatches: str,
    place: tuple[int, int],
    batches: Iterable[pa.RecordBatch],
    *,
    cache: WorkerCache = CACHE,
    storage_options: Mapping[str, str] | None = None,
    attempt: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Run one slot of one level of an epoch, or of a stage; a Spark task calls it.

    Args:
        job: The encoded JobDispatch.
        dispatches: The dispatches of all tasks of the epoch, see `plan.dispatches`.
        place: The level, and the slot, which is the partition of the task.
        batches: Rows of the level above; ignored for level 0.
        cache: The subtasks and plans that the worker keeps between epochs.
        storage_options: The options of the checkpoint storage; connectors reach object stores by them, too.
        attempt: Spark's number of the attempt at the task, from 0.
    """
    gc.set_threshold(*_GC_THRESHOLDS)
    run = decode(job, JobDispatch)
    cache.turn_to_run(run, storage_options)
    dispatch = unpack(dispatches, run, place, lambda: cache.storage(run).read_range)
    with noting_interrupts(), reaching_stores_by(storage_options):
        if dispatch.level.results is None:
            yield from LevelTask(dispatch, cache, attempt).run(batches)
        else:
            yield from StageTask(dispatch, cache, attempt).run()


def announcement_directory(run_id: str, cache: WorkerCache = CACHE) -> Path | None:
    """Return a directory in which the last tasks of a run on this host find each other; None if it cannot be made."""
    try:
        return cache.local_state(run_id).hold() / "last-tasks"
    except LocalStateError:
        return None


def close_all(run_id: str, cache: WorkerCache = CACHE) -> pa.RecordBatch:
    """Close the cached subtasks of a run that has ended, and return their log lines as rows for the driver.

    Args:
        run_id: The run.
        cache: The cache of the worker.
    """
    rows, log = RowBuffer(), TaskLog()
    with noting_interrupts(), log.listening():
        cache.release(run_id, log.turn_to)
    log.send(rows, 0, 0)
    return rows.drain()
