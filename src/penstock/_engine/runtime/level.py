"""Runs one level of an epoch in one slot: rows of the level above in, rows for the levels below and the driver out."""

from __future__ import annotations

import gc
import secrets
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.operators.batch import Batch
from penstock._engine.protocol.control import Closing, LevelDispatch, decode, encode
from penstock._engine.protocol.rows import DRIVER, RowKind, slot_of_target, slot_target, subtask_target
from penstock._engine.runtime.blocks import decode_batch
from penstock._engine.runtime.failures import OperatorError, describe_failure
from penstock._engine.runtime.row_buffer import RowBuffer
from penstock._engine.runtime.subtask import SubtaskRuntime
from penstock._engine.runtime.task_log import TaskLog
from penstock._engine.runtime.worker_cache import CACHE
from penstock.errors import InternalError

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock._engine.plan.levels import ExecutionPlan

#: Blocks of many small tuples are no garbage: let Python's collector look at them less often than after 700.
_GC_THRESHOLDS: Final = (200_000, 20, 50)


class LevelTask:
    """One attempt at one slot of one level."""

    def __init__(self, dispatch: LevelDispatch, slot: int) -> None:
        self._dispatch = dispatch
        self._slot = slot
        self._token = secrets.randbits(62)
        self._rows = RowBuffer()
        self._log = TaskLog()
        self._plan: ExecutionPlan
        #: By target.
        self._subtasks: dict[int, SubtaskRuntime] = {}
        self._fragments: dict[tuple[int, int], list[bytes]] = {}
        self._expected_seq: dict[tuple[int, int], int] = {}
        self._announced: dict[tuple[int, int], int] = {}
        self._failed = False

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the slot's subtasks over the rows from above and yield rows; user errors become a row, too."""
        gc.set_threshold(*_GC_THRESHOLDS)
        rows = iter(batches)
        with self._log.listening():
            yield from self._run_guarded(rows)
        if self._failed:
            # Rows for the driver still have to pass; everything else is void.
            for batch in rows:
                self._pass_driver_rows(batch)
                yield from self._ready()
        self._close_slot()
        self._log.send(self._rows, self._next_slot(DRIVER, 0), self._token)
        yield self._rows.drain()

    def _run_guarded(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._begin()
            yield from self._read_rows(rows)
            yield from self._end()
        except OperatorError as error:
            self._fail(error.__cause__ or error, error)
        except Exception as error:  # noqa: BLE001 - Spark must not run user functions again because of our bug either
            self._fail(error, None)

    # ------------------------------------------------------------------------------------------------------ the epoch

    def _begin(self) -> Iterator[pa.RecordBatch]:
        dispatch = self._dispatch
        self._plan = CACHE.turn_to(dispatch)
        storage = CACHE.storage(dispatch)
        for part in dispatch.slots[self._slot]:
            place = part.vertex, part.subtask
            self._log.turn_to(self._plan.graph.vertices[part.vertex].name, part.subtask)
            self._at = place
            runtime = CACHE.take(dispatch, part) or SubtaskRuntime(self._plan, dispatch, place, storage)
            self._subtasks[subtask_target(*place)] = runtime
            for edge in runtime.edges:
                edge.begin_epoch(self._rows, self._token, self._slots_towards(edge.edge.target, edge.channel))
            for _ in runtime.begin_epoch(part, dispatch.checkpoint_id, self._token):
                yield from self._ready()
        if dispatch.level == 0:
            for runtime in self._subtasks.values():
                self._turn_to(runtime)
                for _ in runtime.read_source():
                    yield from self._ready()

    def _read_rows(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self._dispatch.level == 0:
            return
        for batch in rows:
            _, targets, channels, seqs, tokens, kinds, payloads = batch.columns
            columns = (targets.to_pylist(), channels.to_pylist(), seqs.to_pylist(), tokens.to_pylist())
            for place, (target, channel, seq, token, kind) in enumerate(
                zip(*columns, kinds.to_pylist(), strict=True)
            ):
                payload = payloads[place]
                if not self._is_mine(target):
                    self._carry(target, channel, seq, token, kind, payload.as_py())
                elif kind == RowKind.CLOSING:
                    yield from self._take_closing(decode(payload.as_py(), Closing), token)
                else:
                    yield from self._take_block(target, channel, seq, kind, payload)
                if self._failed:
                    return
            yield from self._ready()

    def _end(self) -> Iterator[pa.RecordBatch]:
        if self._failed:
            return
        for target, runtime in self._subtasks.items():
            self._turn_to(runtime)
            self._check_complete(target, runtime)
            for _ in runtime.end_epoch():
                yield from self._ready()
        slot = self._next_slot(DRIVER, 0)
        for runtime in self._subtasks.values():
            self._turn_to(runtime)
            ack = encode(runtime.acknowledge())
            self._rows.add(slot, DRIVER, 0, 0, self._token, RowKind.ACK, ack)
            CACHE.put(self._dispatch, runtime)
            yield from self._ready()

    # ------------------------------------------------------------------------------------------------------- rows in

    def _take_block(self, target: int, channel: int, seq: int, kind: int, payload: Any) -> Iterator[pa.RecordBatch]:
        name = target, channel
        if seq != self._expected_seq.get(name, 0):
            raise InternalError(f"rows of channel {channel} to {target} came out of order: {seq}")
        self._expected_seq[name] = seq + 1
        if kind == RowKind.FRAGMENT:
            self._fragments.setdefault(name, []).append(payload.as_py())
            return
        parts = self._fragments.pop(name, None)
        content = payload.as_buffer() if parts is None else b"".join([*parts, payload.as_py()])
        runtime = self._subtasks[target]
        self._turn_to(runtime)
        batch: Batch = decode_batch(content)
        for _ in runtime.receive(channel, batch, 0):
            yield from self._ready()

    def _take_closing(self, closing: Closing, token: int) -> Iterator[pa.RecordBatch]:
        if closing.failed:
            self._failed = True
            return
        for channel, target, count in closing.rows:
            self._announced[target, channel] = count
        for runtime in self._subtasks.values():
            for channel, status in closing.channels.items():
                if channel in runtime.valve:
                    self._turn_to(runtime)
                    for _ in runtime.close_channel(channel, status, token):
                        yield from self._ready()

    def _check_complete(self, target: int, runtime: SubtaskRuntime) -> None:
        missing = runtime.valve.missing()
        if missing:
            raise InternalError(f"{runtime.vertex.name} ({runtime.place[1]}) got no end of channels {missing}")
        for (receiver, channel), count in self._announced.items():
            if receiver == target and self._expected_seq.get((receiver, channel), 0) != count:
                raise InternalError(f"channel {channel} to {receiver} lost rows: {count} were sent")

    def _is_mine(self, target: int) -> bool:
        if target < DRIVER:
            return slot_of_target(target) == (self._dispatch.level, self._slot)
        return target in self._subtasks

    def _carry(self, target: int, channel: int, seq: int, token: int, kind: int, payload: bytes) -> None:
        self._rows.add(self._next_slot(target, channel), target, channel, seq, token, kind, payload)

    def _pass_driver_rows(self, batch: pa.RecordBatch) -> None:
        _, targets, channels, seqs, tokens, kinds, payloads = (column.to_pylist() for column in batch.columns)
        for row in zip(targets, channels, seqs, tokens, kinds, payloads, strict=True):
            if row[0] == DRIVER:
                self._carry(*row)

    # ------------------------------------------------------------------------------------------------------ rows out

    def _next_slot(self, target: int, channel: int) -> int:
        """Return the slot of the next level that a row goes through or to."""
        widths, level = self._dispatch.widths, self._dispatch.level
        if target == DRIVER or level + 1 >= len(widths):
            return 0
        if target < DRIVER:
            at, slot = slot_of_target(target)
        else:
            at, slot = self._plan.level_of[target >> 16], self._dispatch.placement[target]
        return slot if at == level + 1 else channel % widths[level + 1]

    def _slots_towards(self, vertex: int, channel: int) -> dict[int, int]:
        """Return target -> next slot for the receivers of a vertex."""
        count = self._plan.graph.vertices[vertex].parallelism
        targets = [subtask_target(vertex, subtask) for subtask in range(count)]
        return {
            target: self._next_slot(target, channel) for target in targets if target in self._dispatch.placement
        }

    def _close_slot(self) -> None:
        """Send the end of all channels from this slot, one row for each slot that it may have sent to."""
        if self._failed:
            # A failed epoch is void as a whole: what comes after only has to pass on rows for the driver.
            for level in range(self._dispatch.level + 1, len(self._dispatch.widths)):
                for slot in range(self._dispatch.widths[level]):
                    self._add_closing(level, slot, Closing({}, [], failed=True))
            return
        by_level: dict[int, Closing] = {}
        for runtime in self._subtasks.values():
            statuses = runtime.edge_statuses()
            for edge in runtime.edges:
                level = self._plan.level_of[edge.edge.target]
                closing = by_level.setdefault(level, Closing({}, []))
                closing.channels[edge.channel] = statuses[edge.channel]
                closing.rows.extend(edge.counts())
        for level, closing in by_level.items():
            for slot in range(self._dispatch.widths[level]):
                self._add_closing(level, slot, closing)

    def _add_closing(self, level: int, slot: int, closing: Closing) -> None:
        target = slot_target(level, slot)
        # A closing row must come behind the data of all its channels: carriers keep the order only within one slot.
        through = range(self._dispatch.widths[self._dispatch.level + 1])
        if level == self._dispatch.level + 1:
            self._rows.add(slot, target, 0, 0, self._token, RowKind.CLOSING, encode(closing))
            return
        for carrier in through:
            channels = {channel: status for channel, status in closing.channels.items() if channel % len(through) == carrier}
            rows = [row for row in closing.rows if row[0] % len(through) == carrier]
            if channels or closing.failed:
                part = Closing(channels, rows, failed=closing.failed)
                self._rows.add(carrier, target, carrier, 0, self._token, RowKind.CLOSING, encode(part))

    def _ready(self) -> Iterator[pa.RecordBatch]:
        if self._rows.is_ready:
            yield self._rows.drain()

    def _turn_to(self, runtime: SubtaskRuntime) -> None:
        self._at = runtime.place
        self._log.turn_to(runtime.vertex.name, runtime.place[1])

    def _fail(self, error: BaseException, where: OperatorError | None) -> None:
        """Void the epoch: drop what was not sent, close the subtasks, and tell the driver."""
        node = None if where is None else where.node
        record = None if where is None else where.record
        failure = describe_failure(error, node, record, getattr(self, "_at", (0, 0)))
        self._rows.clear()
        self._failed = True
        for runtime in self._subtasks.values():
            try:
                runtime.close()
            except Exception:  # noqa: BLE001, S110, PERF203 - never hides the earlier failure
                pass
        slot = 0
        self._rows.add(slot, DRIVER, 0, 0, self._token, RowKind.FAILURE, encode(failure))


def run_level(dispatch: bytes, slot: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run one slot of one level: what a Spark task calls.

    Args:
        dispatch: The encoded LevelDispatch.
        slot: The partition of the task.
        batches: Rows of the level above; for level 0 whatever Spark gives.
    """
    yield from LevelTask(decode(dispatch, LevelDispatch), slot).run(batches)
