"""A harness for user functions: one operator subtask with records, watermarks and time in the hands of a test.

The function runs in the operator that jobs run it in, over keyed state in memory; no Spark, no threads, and no files
but those of sorts.
"""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.operators.accumulators import AccumulatorRegistry
from penstock._engine.operators.base import EpochContext, Operator, OperatorContext, ReadingOperator
from penstock._engine.operators.batch import RowBatch, watermark_only
from penstock._engine.operators.clocks import InputClock, TaskClock
from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.keyed import KeyedOperator
from penstock._engine.operators.operator_factory import OperatorFactory
from penstock._engine.protocol.control import OperatorRestore
from penstock._engine.protocol.key_groups import key_group, key_group_range
from penstock._engine.protocol.keys import normal_key
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock._engine.state.backend import MemoryBackend
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.local.local_backend import LocalBackend
from penstock._engine.state.operator_state import describe
from penstock.common.columns import int64_column
from penstock.metrics.in_memory import InMemoryMetricGroup
from penstock.testing._inline_state import inline_data, saved_state
from penstock.testing._one_input_makers import OneInputMakers
from penstock.testing.clock import ManualClock
from penstock.testing.operator_snapshot import OperatorSnapshot, restored_subtask
from penstock.testing.stream_records import StreamRecord, Watermark, record_outputs, values_and_stamps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyarrow import RecordBatch

    from penstock._api.output_tag import OutputTag
    from penstock._engine.operators.base import Output
    from penstock._engine.operators.batch import Batch

__all__ = ["OperatorHarness"]

#: Harnesses may be attempts at one epoch, which are told apart by these.
_TOKENS: Final = count(1)


class OperatorHarness(OneInputMakers):
    """One subtask of one operator, made by one of the ``for_`` methods.

    The function is opened at the first use, and closed by :meth:`close`, or at the end of a ``with`` block.

    Args:
        operator: The operator.
        subtask_index: Which subtask it is, counted from 0.
        parallelism: How many subtasks there are.
        max_parallelism: The number of key groups.
        state_memory_bytes: How much keyed state stays in memory; what is more is read from the disk, as in a job. All
            of it is in memory when left out.
        state_directory: Where on the disk; a directory of the harness when left out. Harnesses with one directory are
            processes of one host that run the subtask, one after the other.
        batch_mode: Whether it is the operator of a job in batch mode, which gets its records key by key at the end.
        configuration: Options of the job that the operator reads, such as the memory for sorts.
        clock: The processing time, which several harnesses may share; one of its own, at 0, when left out.

    Source: org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness, ProcessFunctionTestHarnesses.

    Example:
        >>> from penstock.datastream.functions import KeyedProcessFunction
        >>> from penstock.datastream.state import ValueStateDescriptor
        >>> class Count(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        ...
        ...     def process_element(self, value, ctx):
        ...         self.count.update((self.count.value() or 0) + 1)
        ...         ctx.timer_service().register_event_time_timer(60_000)
        ...
        ...     def on_timer(self, timestamp, ctx):
        ...         yield ctx.get_current_key(), self.count.value()
        >>> with OperatorHarness.for_keyed_process(Count(), lambda word: word) as harness:
        ...     harness.process_elements(["to", "be", "or", "not", "to", "be"], timestamp=1_000)
        ...     harness.process_watermark(60_000)
        ...     harness.values()
        [('to', 2), ('be', 2), ('or', 1), ('not', 1)]
    """

    def __init__(
        self,
        operator: Operator | OperatorFactory,
        *,
        subtask_index: int = 0,
        parallelism: int = 1,
        max_parallelism: int = 128,
        state_memory_bytes: int | None = None,
        state_directory: Path | None = None,
        batch_mode: bool = False,
        configuration: Mapping[str, str] | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        #: The processing time; ``clock.jump`` sets it ahead or back, what passes is time with input.
        self.clock: ManualClock = clock or ManualClock()
        self._input_clock = InputClock(TaskClock.by_hand(self.clock.now_ms, self.clock.passed_ms))
        self.metrics: InMemoryMetricGroup = InMemoryMetricGroup()
        self._accumulators = AccumulatorRegistry()
        plain = operator.create() if isinstance(operator, OperatorFactory) else operator
        self._operator: Operator = plain
        if batch_mode and isinstance(operator, OperatorFactory):
            self._operator = operator.create_in_batch()
        #: By input; none where the key is a column.
        self._selects = plain.selects if isinstance(plain, KeyedOperator) and not plain.takes_columns else []
        self._state_memory_bytes, self._state_directory = state_memory_bytes, state_directory
        self._configuration = dict(configuration or {})
        self._subtask = subtask_index
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._key_groups = key_group_range(subtask_index, parallelism, max_parallelism)
        #: Of an operator that reads its input itself.
        self._unread: list[RowBatch] = []
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._start = OperatorSnapshot(parallelism, MIN_WATERMARK, (), None)
        self._checkpoint_id = self._token = 0
        self._opened = self._ended = False
        self._watermark = MIN_WATERMARK
        self._output: list[StreamRecord | Watermark] = []
        self._sides: dict[str, list[StreamRecord]] = {}

    # ----------------------------------------------------------------------------------------------------- input

    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Process one record.

        Args:
            value: The record.
            timestamp: Its timestamp in milliseconds since the epoch; None for a record that has none.

        Raises:
            ValueError: The record's key belongs to another subtask, or the input has ended.
        """
        self.process_elements([value], timestamp)

    def process_elements(self, values: Iterable[Any], timestamp: int | None = None) -> None:
        """Process several records in one batch, as in jobs.

        Args:
            values: The records.
            timestamp: Their timestamp in milliseconds since the epoch.

        Raises:
            ValueError: A record's key belongs to another subtask, or the input has ended.
        """
        self.process_records(StreamRecord(value, timestamp) for value in values)

    def process_records(self, records: Iterable[StreamRecord]) -> None:
        """Process several records in one batch, each with its own timestamp.

        Args:
            records: The records; either all have a timestamp or none has.

        Raises:
            ValueError: A record's key belongs to another subtask, or the input has ended.

        Example:
            >>> with OperatorHarness.for_map(str.upper) as harness:
            ...     harness.process_records([StreamRecord("a", 1), StreamRecord("b", 2)])
            ...     harness.output()
            [StreamRecord(value='A', timestamp=1), StreamRecord(value='B', timestamp=2)]
        """
        self._process(list(records), 0)

    def process_batch(self, batch: RecordBatch, timestamps: Sequence[int] | None = None) -> None:
        """Process a batch of columns, as sources of columns and ``map_batches`` give them.

        Args:
            batch: The batch; its records are dicts.
            timestamps: A timestamp for each record; None where none has any.

        Raises:
            ValueError: A record's key belongs to another subtask, or the input has ended.

        Example:
            >>> import pyarrow
            >>> with OperatorHarness.for_map(lambda record: record["n"] + 1) as harness:
            ...     harness.process_batch(pyarrow.RecordBatch.from_pydict({"n": [1, 2]}))
            ...     harness.values()
            [2, 3]
        """
        stamps = None if timestamps is None else int64_column(timestamps)
        self._process_batch(ColumnBatch(batch, timestamps=stamps), 0)

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark; one that does not rise has no effect, as in a job.

        Args:
            timestamp: Milliseconds since the epoch.

        Raises:
            ValueError: The input has ended.
        """
        self.open()
        self._check_input()
        if timestamp > self._watermark:
            self._watermark = timestamp
            self._take(self._operator.process(watermark_only(timestamp), 0))

    def set_processing_time(self, now_ms: int) -> None:
        """Set the clock and fire due timers.

        Args:
            now_ms: Milliseconds since the epoch.

        Raises:
            ValueError: The clock shows a later time; ``clock.jump`` sets it back.
        """
        self.open()
        before_ms = self.clock.passed_ms()
        self.clock.set(now_ms)
        self._input_clock.advance(self.clock.passed_ms() - before_ms)
        self._take(self._operator.on_processing_time(now_ms))

    def end_input(self, *, fire_timers: bool = False) -> None:
        """End the input as a bounded source does: the last watermark, then the operator's own end.

        Args:
            fire_timers: Whether the timers of the clock that are left fire before it, as a drain may be configured to.

        Raises:
            ValueError: The input has ended before.
        """
        if isinstance(self._operator, ReadingOperator):
            self.open()
            self._check_input()
            self._take(self._operator.read_all(iter(self._unread)))
        self.process_watermark(MAX_WATERMARK)
        if fire_timers:
            self._take(self._operator.fire_left_timers())
        self._take(self._operator.end_input(0))
        self._finish()

    # ----------------------------------------------------------------------------------------------------- output

    def output(self) -> list[StreamRecord | Watermark]:
        """Return the main output so far: records and watermarks."""
        return list(self._output)

    def values(self) -> list[Any]:
        """Return the records of the main output so far."""
        return [item.value for item in self._output if isinstance(item, StreamRecord)]

    def side_output(self, tag: OutputTag) -> list[StreamRecord]:
        """Return the records of a side output so far.

        Args:
            tag: The side output.
        """
        return list(self._sides.get(tag.tag_id, ()))

    def accumulators(self) -> dict[str, Any]:
        """Return the values of the function's accumulators in this harness, by name.

        Example:
            >>> from penstock.datastream.functions import MapFunction
            >>> class Parse(MapFunction):
            ...     def open(self, runtime_context):
            ...         self.lines = runtime_context.get_int_counter("lines")
            ...
            ...     def map(self, value):
            ...         self.lines.add(1)
            ...         return int(value)
            >>> with OperatorHarness.for_map(Parse()) as harness:
            ...     harness.process_elements(["1", "2"])
            ...     harness.accumulators()
            {'lines': 2}
        """
        return self._accumulators.values()

    def clear_output(self) -> None:
        """Forget all output so far."""
        self._output.clear()
        self._sides.clear()

    # ------------------------------------------------------------------------------------------------------ state

    def snapshot(self, *, incremental: bool = False, completes: bool = True) -> OperatorSnapshot:
        """Take a checkpoint of the subtask, which keeps running.

        Args:
            incremental: Whether it has of the keyed state what has changed since the one before, and refers to that for
                the rest, as most checkpoints of jobs do.
            completes: Whether the subtask goes on behind it; else :meth:`restore` says from where.

        Raises:
            UnpicklableStateError: The state holds something that cannot be pickled.
        """
        self.open()
        self._take(self._operator.prepare_snapshot())
        epoch = self._epoch(self._start, current=True)
        epoch.full_snapshot = not incremental
        ack = self._operator.snapshot(epoch, finished=self._ended)
        operator_state = () if ack.operator_state is None else (ack.operator_state,)
        taken = OperatorSnapshot(
            self._parallelism, self._watermark, ack.keyed_state, ack.state, operator_state, self._checkpoint_id
        )
        if completes:
            self._start = taken
            self._begin(taken, current=True)
        return taken

    def restore(self, *snapshots: OperatorSnapshot) -> None:
        """Start from checkpoints of all subtasks of an operator, at this or another parallelism.

        As in Flink, the watermark starts again when the parallelism has changed. A harness that was used goes on from
        there with its opened function, as a process does where others have run the subtask meanwhile.

        Args:
            *snapshots: Of each of the old subtasks; of the one alone when the parallelism stays the same.

        Raises:
            ValueError: There is no snapshot, or the input has ended.
            StaleAttemptError: The directory of the state has a later checkpoint.

        Example:
            >>> total = lambda a, b: (a[0], a[1] + b[1])
            >>> before = OperatorHarness.for_reduce(total, lambda pair: pair[0])
            >>> before.process_element(("a", 1))
            >>> after = OperatorHarness.for_reduce(total, lambda pair: pair[0])
            >>> after.restore(before.snapshot())
            >>> after.process_element(("a", 10))
            >>> after.values()
            [('a', 11)]
        """
        self._check_input()
        if not snapshots:
            msg = "restore needs at least one snapshot."
            raise ValueError(msg)
        self._start = restored_subtask(snapshots, self._subtask, self._parallelism, self._key_groups)
        self._checkpoint_id = self._start.checkpoint_id
        if self._opened:
            self._watermark = self._start.watermark
            self._begin(self._start, current=False)

    def notify_checkpoint_complete(self, checkpoint_id: int | None = None) -> None:
        """Notify the function of a completed checkpoint, if it is a ``CheckpointListener``.

        Args:
            checkpoint_id: Its id; that of the last snapshot when left out.
        """
        self.open()
        self._notify(complete=self._checkpoint_id - 1 if checkpoint_id is None else checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the function of an aborted checkpoint, if it is a ``CheckpointListener``.

        Args:
            checkpoint_id: Its id.
        """
        self.open()
        self._notify(aborted=checkpoint_id)

    def _notify(self, *, complete: int = 0, aborted: int = 0) -> None:
        epoch = self._epoch(self._start, current=True)
        epoch.notify_complete, epoch.notify_aborted = complete, aborted
        self._operator.notify(epoch)

    # ------------------------------------------------------------------------------------------------------- life

    def open(self) -> None:
        """Open the function; the first use of the harness does it, too."""
        if self._opened:
            return
        self._opened = True
        self._operator.open(
            OperatorContext(
                job_id="0" * 32,
                run_id="1" * 32,
                earlier_runs=(),
                job_name="harness",
                operator_name=type(self._operator).__name__,
                uid="operator",
                sink_uid="operator",
                subtask=self._subtask,
                parallelism=self._parallelism,
                max_parallelism=self._max_parallelism,
                job_attempt=0,
                configuration=self._configuration,
                clock=self.clock.now_ms,
                input_clock=self._input_clock,
                task_clock=TaskClock.by_hand(self.clock.now_ms, self.clock.passed_ms),
                metrics=self.metrics,
                accumulators=self._accumulators,
                keyed_state=self._keyed_state,
                save_keyed_state=saved_state,
                save_operator_state=lambda data, parts, epoch: describe(
                    data, parts, epoch.checkpoint_id, epoch.token, None
                ),
                read_state=inline_data,
                local_directory=self._local_directory,
                stage=lambda data, epoch, number: f"{epoch.token}-{number}",
            )
        )
        self._watermark = self._start.watermark
        self._begin(self._start, current=False)

    def _keyed_state(self) -> KeyedState:
        """Return the operator's keyed state."""
        groups = self._key_groups, self._max_parallelism
        if self._state_memory_bytes is None:
            return KeyedState(MemoryBackend(*groups), inline_data)
        directory = self._state_directory or self._local_directory() / "state"
        return KeyedState(LocalBackend(directory, *groups, self._state_memory_bytes), inline_data)

    def _local_directory(self) -> Path:
        """Return the directory of operators that sort, and of state beyond memory."""
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="penstock-harness-")
        return Path(self._directory.name)

    def close(self) -> None:
        """Close the function, if it was opened."""
        try:
            if self._opened:
                self._operator.close()
        finally:
            if self._directory is not None:
                self._directory.cleanup()

    def __repr__(self) -> str:
        operator, count = type(self._operator).__name__, len(self.values())
        return f"<{type(self).__name__} of {operator}, subtask {self._subtask} of {self._parallelism}: {count} records>"

    def __enter__(self) -> OperatorHarness:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, start: OperatorSnapshot, *, current: bool) -> None:
        self._checkpoint_id += 1
        self._token = next(_TOKENS)
        self._operator.begin_epoch(self._epoch(start, current=current))
        self._take(self._operator.on_processing_time(self.clock.now_ms()))

    def _epoch(self, start: OperatorSnapshot, *, current: bool) -> EpochContext:
        return EpochContext(
            checkpoint_id=self._checkpoint_id,
            token=self._token,
            restore=OperatorRestore(start.lineage, start.state, operator_state=start.operator_state),
            current=current,
            starts=not current,
            completed_checkpoint=self._checkpoint_id - 1,
            watermark=self._watermark,
            full_snapshot=True,
        )

    def _process(self, records: list[StreamRecord], input_index: int) -> None:
        self._process_batch(RowBatch(*values_and_stamps(records)), input_index)

    def _process_batch(self, batch: Batch, input_index: int) -> None:
        self.open()
        self._check_input()
        if input_index < len(self._selects):
            for record in batch.rows().records:
                self._check_key(self._selects[input_index](record))
        if isinstance(self._operator, ReadingOperator):
            self._unread.append(batch.rows())
        elif isinstance(batch, ColumnBatch):
            self._take(self._operator.process_columns(batch, input_index))
        else:
            self._take(self._operator.process(batch.rows(), input_index))

    def _finish(self) -> None:
        self._take(self._operator.finish())
        self._ended = True

    def _check_input(self) -> None:
        if self._ended:
            msg = "The input of this harness has ended."
            raise ValueError(msg)

    def _check_key(self, key: Any) -> None:
        group = key_group(normal_key(key), self._max_parallelism)
        if group not in self._key_groups:
            msg = (
                f"Key {key!r} is in key group {group}; subtask {self._subtask} of {self._parallelism} has the groups "
                f"{self._key_groups.start} to {self._key_groups.stop - 1}."
            )
            raise ValueError(msg)

    def _take(self, outputs: Iterable[Output]) -> None:
        record_outputs(outputs, self._output, self._sides)
        self._operator.free_memory()
