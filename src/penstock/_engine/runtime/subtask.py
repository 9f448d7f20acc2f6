"""One subtask of a vertex: its chain of operators, its channels, its edges, and its part of each epoch."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import UNSET

from penstock._engine.graph.job_graph import JobType
from penstock._engine.operators.accumulators import AccumulatorRegistry
from penstock._engine.operators.base import EpochContext, Operator, OperatorContext, Output
from penstock._engine.operators.batch import RowBatch, watermark_only
from penstock._engine.operators.clocks import InputClock, ProcessingClock
from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.head import InputHead, ReadLimits, never
from penstock._engine.operators.side_outputs import parted
from penstock._engine.operators.sources.source import SourceOperator
from penstock._engine.plan.bounds import subtasks_of
from penstock._engine.protocol.control import ENDED, OperatorAck, ReadingTime, SubtaskAck
from penstock._engine.protocol.rows import MAX_WATERMARK, subtask_target
from penstock._engine.runtime.chain import ChainNode, chain_of, owner_of, pieces, wants_columns, with_free_memory
from penstock._engine.runtime.epoch_context import epoch_context
from penstock._engine.runtime.failures import OperatorError, create_in_task, passes_guards
from penstock._engine.runtime.figures import EpochFigures
from penstock._engine.runtime.idleness import longest_idleness
from penstock._engine.runtime.input_channels import InputChannels
from penstock._engine.runtime.subtask_state import SubtaskState, TransientState
from penstock.common.configuration import Configuration
from penstock.common.option_table import DRAIN_FIRES_PROCESSING_TIME_TIMERS, OBJECT_REUSE
from penstock.common.redaction import hiding
from penstock.metrics.in_memory import InMemoryMetricGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock._engine.graph.job_graph import JobVertex
    from penstock._engine.operators.batch import Batch
    from penstock._engine.operators.head import EarlyEnd
    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.protocol.control import (
        ChannelStatus,
        ChannelUpdate,
        EdgeStatus,
        JobDispatch,
        SubtaskDispatch,
        TaskDispatch,
    )
    from penstock._engine.runtime.edge_writer import EdgeWriter
    from penstock._engine.runtime.environment import TaskEnvironment

T = TypeVar("T")

_log = hiding(logging.getLogger(__name__))


class SubtaskRuntime:
    """A subtask with opened operators; kept from epoch to epoch where possible."""

    def __init__(self, plan: ExecutionPlan, job: JobDispatch, place: tuple[int, int], env: TaskEnvironment) -> None:
        self.place = place
        self.vertex: JobVertex = plan.graph.vertices[place[0]]
        self._plan = plan
        #: The user's operator at a position of the chain.
        self._owner = partial(owner_of, plan.graph, self.vertex)
        clock = self._clock = env.clock
        self._processing_clock = ProcessingClock(clock)
        self._now_ms = self._processing_clock.now_ms
        #: The time in which there could have been input, and its value at the start of the running epoch.
        self._input_clock = InputClock(clock)
        self._input_began_ms = 0.0
        configuration = Configuration.from_dict(job.configuration)
        self._drain_fires_timers = configuration.get(DRAIN_FIRES_PROCESSING_TIME_TIMERS)
        self._object_reuse = configuration.get(OBJECT_REUSE)
        self._local = env.local_state
        of_type = TransientState if plan.graph.job_type is JobType.BATCH else SubtaskState
        self._state = of_type(self.vertex, place[1], job, env.storage, self._local)
        self.metrics = [InMemoryMetricGroup() for _ in self.vertex.operators]
        self._accumulators = [AccumulatorRegistry() for _ in self.vertex.operators]
        self._nodes = chain_of(self.vertex, plan, place[1])
        edges = (edge for node in self._nodes for edge in chain.from_iterable(node.edges.values()))
        self.edges = sorted(edges, key=lambda edge: edge.edge.id)
        head = self._nodes[0].operator
        if isinstance(head, SourceOperator):
            head.idleness_behind_ms = longest_idleness(plan.graph, place[0])
        #: Positions in the chain.
        self._opened: list[int] = []
        self._running, self._finished = 0, False
        #: (checkpoint id, token) of the last epoch that it ran, and the number of that attempt.
        self.position: tuple[int, int] | None = None
        self.attempt = 0
        for edge in self.edges:
            edge.is_timed = longest_idleness(plan.graph, edge.edge.target) > 0
        self._channels = plan.channels_into(*place)
        #: Whether dispatches report the reading time of some senders one epoch later; and the time of the others.
        self._learns_late = any(map(plan.is_wide, plan.inputs[place[0]]))
        self._senders_time: ReadingTime | None = None
        #: The status, by outgoing channel, that receivers have to be sent at the end of the epoch.
        self.closings: dict[int, ChannelUpdate] = {}

    @property
    def operator_name(self) -> str:
        """The operator that runs now or ran last."""
        return self._owner(self._running).name

    def open(self, dispatch: TaskDispatch) -> None:
        """Open all operators and edges; `close` must follow even if this fails."""
        for position in range(len(self._nodes)):
            self._call(position, self._open, position, self._context(position, dispatch))

    def _open(self, position: int, context: OperatorContext) -> None:
        node = self._nodes[position]
        self._opened.append(position)
        node.operator.open(context)
        for edge in chain.from_iterable(node.edges.values()):
            edge.open(EngineRuntimeContext(context, counts=False))

    def _renew(self, position: int) -> Operator:
        """Replace an operator that cannot run another epoch by a new one."""
        node = self._nodes[position]
        context = node.operator.context
        try:
            self._call(position, node.operator.close)
        except OperatorError:  # nothing depends on the old operator any more
            _log.warning("%s (%d) failed to close", self.operator_name, self.place[1], exc_info=True)
        self._accumulators[position].clear()
        node.operator = create_in_task(self.vertex.operators[position], self._plan.graph.job_type)
        self._call(position, node.operator.open, context)
        return node.operator

    def _context(self, position: int, dispatch: TaskDispatch) -> OperatorContext:
        node, vertex, owner = self.vertex.operators[position], self.vertex, self._owner(position)
        job, bounds = dispatch.job, dispatch.level.bounds.get(vertex.id)
        return OperatorContext(
            job_id=job.job_id,
            run_id=job.run_id,
            earlier_runs=job.earlier_runs,
            job_name=job.job_name,
            operator_name=owner.name,
            uid=owner.uid,
            sink_uid=owner.sink_uid or owner.uid,
            subtask=self.place[1],
            parallelism=vertex.parallelism if bounds is None else subtasks_of(bounds),
            max_parallelism=vertex.max_parallelism,
            job_attempt=dispatch.level.job_attempt,
            configuration=job.configuration,
            clock=self._now_ms,
            input_clock=self._input_clock,
            task_clock=self._clock,
            metrics=self.metrics[position],
            accumulators=self._accumulators[position],
            keyed_state=partial(self._state.keyed_state, node.uid),
            save_keyed_state=partial(self._state.save_keyed, node.uid),
            save_operator_state=partial(self._state.save_operator, node.uid),
            read_state=self._state.read,
            stage=partial(self._state.stage, owner.uid),
            object_reuse=self._object_reuse,
            local_directory=self._local.hold,
            feeds_edges=bool(self._nodes[position].edges),
        )

    # ------------------------------------------------------------------------------------------------------ the epoch

    def begin_epoch(self, dispatch: SubtaskDispatch, task: TaskDispatch, token: int) -> Iterator[Any]:
        """Restore the state of the last checkpoint, and fire overdue processing-time timers."""
        current = self.position is not None and self.position == (dispatch.history or (None,))[-1]
        has_run = self.position is not None
        self.position = None  # void until the epoch is accepted
        self._dispatch, self._token = dispatch, token
        self._checkpoint_id, self.attempt = task.level.checkpoint_id, task.level.attempt
        self._flows = task.level.pipelined
        self._processing_clock.take_up()
        self._started_ms, self._figures = self._now_ms(), EpochFigures()
        self._input_began_ms = self._input_clock.now_ms()
        self._finished = self._awaits_end = False
        inputs, level = self._plan.inputs[self.place[0]], task.level
        channels = self._plan.channels_read(*self.place, level.bounds) if level.bounds else self._channels
        known = {edge.id: level.inputs[edge.id] for edge in inputs if edge.id in level.inputs}
        ends = {edge.id: level.ending_subtasks(edge.source) for edge in inputs}
        self.channels = InputChannels(channels, dispatch, known, ends, flows=self._flows and bool(dispatch.history))
        self._learn_time(known.values())
        self.valve = self.channels.valve
        self._told = self.channels.ended_inputs()
        self._epochs: list[EpochContext] = []
        start = time.perf_counter()
        watermarks: list[int] = []
        for position, node in enumerate(self.vertex.operators):
            operator = self._nodes[position].operator
            renewed = has_run and not operator.can_go_on(current=current)
            if renewed:
                operator = self._renew(position)
            watermark = self.valve.watermark if node.parent is None else watermarks[node.parent]
            epoch = epoch_context(dispatch, task, node.uid, token)
            epoch.current, epoch.watermark = current and not renewed, watermark
            self._epochs.append(epoch)
            self._call(position, operator.begin_epoch, epoch)
            if operator.wants_notification:
                self._call(position, operator.notify, epoch)
            watermarks.append(operator.output_watermark(watermark))
        for edge in self.edges:
            edge.watermark = watermarks[edge.edge.source_operator]
        for channel in self.channels.ending:
            yield from self.rise(self.valve.close(channel, ENDED))
        yield from self.on_processing_time()
        self._figures.busy_s += time.perf_counter() - start

    def _learn_time(self, known: Iterable[EdgeStatus]) -> None:
        """Advance the input clock by the time in which, by the dispatch, senders could have read in the last epoch."""
        if self._learns_late:
            self._advance_input_clock(ReadingTime.of_all([self._senders_time, *(status.time for status in known)]))
            self._senders_time = None

    def _advance_input_clock(self, senders: ReadingTime | None) -> None:
        self._input_clock.advance(senders.read_ms if senders is not None else 0.0)

    def notify_last(self, task: TaskDispatch, dispatch: SubtaskDispatch) -> None:
        """Notify the checkpoint listeners of the last checkpoint of the subtask or the job; only `close` may follow.

        If the function object of that checkpoint is in another process, a new one is created from its state. A reader
        is not created again, because it would begin to read.
        """
        current = self.position is not None and self.position == dispatch.history[-1]
        is_new = not self._opened
        for position, node in enumerate(self.vertex.operators):
            operator = self._nodes[position].operator
            if node.uid not in dispatch.operators or (isinstance(operator, SourceOperator) and not current):
                continue
            epoch = epoch_context(dispatch, task, node.uid, token=0)
            if not current:
                if is_new:
                    self._call(position, self._open, position, self._context(position, task))
                elif not operator.can_go_on(current=False):
                    operator = self._renew(position)
                self._call(position, operator.begin_epoch, epoch)
            self._call(position, operator.notify, epoch)

    def read_source(self, ends: EarlyEnd = never) -> Iterator[bool | None]:
        """Run the source until its share of the epoch ends; yield behind each poll of a flow, with whether it rests."""
        head = self._nodes[0].operator
        assert isinstance(head, InputHead)
        dispatch, start = self._dispatch, time.perf_counter()
        head.ended = head.ended or dispatch.ends  # a new reader has not been told of the end of its input
        limits = ReadLimits(dispatch.max_records, dispatch.max_bytes, dispatch.max_time_ms, self._flows, ends)
        head.takes_batches = wants_columns(self._nodes, 0)
        for _, batch in self._outputs(0, head.read, limits, self._bytes_taken):
            self._figures.records_in += len(batch)
            yield from self._forward(0, None, batch)
            if self._flows and not (len(batch) or batch.watermarks):  # earlier, a watermark would overtake records
                self._figures.busy_s += time.perf_counter() - start
                yield not head.more_available
                start = time.perf_counter()
        self._figures.busy_s += time.perf_counter() - start - head.waited_s
        self._figures.waited_s += head.waited_s

    def _bytes_taken(self) -> int:
        """Return the bytes of this epoch that the edges have taken.

        They measure the input of the epoch, as the driver's limit does: records that a chain drops do not burden the
        levels below. A chain that ends in a sink has no edge; records and time limit its epochs.
        """
        return sum(edge.bytes_taken for edge in self.edges)

    def receive(self, channel: int, batch: Batch, size: int) -> Iterator[None]:
        """Process a block of a channel; `size` is its bytes."""
        start = time.perf_counter()
        self._figures.records_in += len(batch)
        self._figures.bytes_in += size
        batch.watermarks = self.valve.combine(channel, batch.watermarks)
        for piece in pieces(self._nodes, batch, (0,)):
            yield from self._push(0, piece, self.channels[channel])
        yield from self.on_processing_time()
        self._figures.busy_s += time.perf_counter() - start

    def close_channel(self, channel: int, update: ChannelUpdate, token: int, read_ms: float = 0.0) -> Iterator[None]:
        """Apply a channel's control row; `read_ms` is the time in which its sender could have read."""
        yield from self.rise(self.channels.input_watermark_status(channel, update, token, read_ms))

    def close_silent(self) -> Iterator[None]:
        """Note that all rows were read: channels without a control row are as expected."""
        yield from self.rise(self.channels.close_silent())

    def end_epoch(self, *, drain: bool = False) -> Iterator[None]:
        """Fire due timers; where all input has ended, finish the operators in the order of FLIP-147.

        Args:
            drain: Whether the job is drained, which ends the input of its sources.
        """
        start = time.perf_counter()
        yield from self.on_processing_time()
        head = self._nodes[0].operator
        if isinstance(head, InputHead):
            self._awaits_end, drains = head.ended and self._plan.announces_ends, drain and self.vertex.is_source
            self._finished = drains or self._dispatch.ends or (head.ended and not self._awaits_end)
            if self._finished:
                yield from self.rise(MAX_WATERMARK)
        else:
            self._senders_time = self.channels.time_of_senders()
            if not self._learns_late:
                self._advance_input_clock(self._senders_time)
            self._finished = self.valve.has_ended()
            for index in sorted(self.channels.ended_inputs() - self._told):
                yield from self._run(0, head.end_input, index)
        if self._finished:
            yield from self._finish(fire_timers=drain and self._drain_fires_timers)
        else:
            yield from self._of_all(lambda operator: operator.prepare_snapshot())
        for edge in self.edges:
            edge.flush()
        self._figures.busy_s += time.perf_counter() - start

    def _finish(self, *, fire_timers: bool) -> Iterator[None]:
        """Finish each operator, head to tail; its last records reach the next operator before that one finishes.

        The head's inputs were ended before; they may have ended in different epochs.
        """
        for position, node in enumerate(self._nodes):
            if fire_timers:
                yield from self._run(position, node.operator.fire_left_timers)
            if position > 0:
                yield from self._run(position, node.operator.end_input, 0)
            yield from self._run(position, node.operator.finish)
            for edge in chain.from_iterable(node.edges.values()):
                self._call(position, edge.finish)

    def acknowledge(self) -> SubtaskAck:
        """Snapshot all operators and return the ack of the epoch."""
        start = time.perf_counter()
        acks: dict[str, OperatorAck] = {}
        timers: list[int] = []
        for position, node in enumerate(self.vertex.operators):
            operator = self._nodes[position].operator
            epoch = self._epochs[position]
            ack: OperatorAck = self._call(position, partial(operator.snapshot, epoch, finished=self._finished))
            if (metrics := self._call(position, self.metrics[position].figures)) or operator.wants_notification:
                ack = replace(ack, metrics=metrics, wants_notification=operator.wants_notification)
            accumulators = self._call(position, self._accumulators[position].take)
            if accumulators:
                ack = replace(ack, accumulators=dict(accumulators))
            acks[node.uid] = self._state.with_outputs_outside(node.uid, ack, epoch)
            if not self._finished and (due := operator.next_timer_ms()) is not None:
                timers.append(due)
        self.position = (self._checkpoint_id, self._token)
        self._figures.busy_s += time.perf_counter() - start
        statuses = self.edge_statuses()
        output = max((edge.watermark for edge in self.edges), default=self.valve.watermark)
        self.closings = {
            edge.channel: edge.update(status)
            for edge, status in zip(self.edges, statuses, strict=True)
            if edge.tells and edge.has_update(status)
        }
        return SubtaskAck(
            vertex=self.place[0],
            subtask=self.place[1],
            checkpoint_id=self._checkpoint_id,
            token=self._token,
            rows_read=self.channels.rows_read(subtask_target(*self.place)),
            rows_sent={edge.edge.id: edge.rows_sent(closed=edge.channel in self.closings) for edge in self.edges},
            operators=acks,
            outputs={edge.edge.id: status for edge, status in zip(self.edges, statuses, strict=True)},
            finished=self._finished,
            input_watermark=self.valve.watermark if self.channels else output,
            watermark=output,
            started_ms=self._started_ms,
            ended_ms=self._now_ms(),
            next_timer_ms=min(timers, default=None),
            io=self._figures.io_metrics(self.edges, self._state.take_read_bytes()),
            awaits_end=self._awaits_end and not self._finished,
            read_ms=self.read_ms if any(edge.is_timed and edge.is_wide for edge in self.edges) else UNSET,
        )

    @property
    def read_ms(self) -> float:
        """The time of the epoch in which there could have been input."""
        return self._input_clock.now_ms() - self._input_began_ms

    def edge_statuses(self) -> list[ChannelStatus]:
        """Return the status of each edge's channels, as of now."""
        idle: list[bool] = []
        for node, state in zip(self.vertex.operators, self._nodes, strict=True):
            upstream = self.valve.is_idle() if node.parent is None else idle[node.parent]
            idle.append(state.operator.is_idle(upstream_idle=upstream))
        return [edge.status(idle=idle[edge.edge.source_operator], ended=self._finished) for edge in self.edges]

    @property
    def has_finished(self) -> bool:
        """Whether it finished in the last epoch that it ran."""
        return self._finished

    def close(self) -> None:
        """Close all operators and edges whose opening began; the first error is raised at the end."""
        opened, self._opened = self._opened, []
        errors: list[OperatorError] = []
        for position in opened:
            node = self._nodes[position]
            for part in (node.operator, *chain.from_iterable(node.edges.values())):
                try:
                    self._call(position, part.close)
                except OperatorError as error:
                    errors.append(error)
        if errors:
            raise errors[0]

    # ---------------------------------------------------------------------------------------------------- the chain

    def on_processing_time(self, first: int = 0) -> Iterator[None]:
        """Fire due timers of the operators from a position on; a block that comes does so, too."""
        now_ms = self._now_ms()
        yield from self._of_all(lambda operator: operator.on_processing_time(now_ms), first)

    def _of_all(self, call: Callable[[Operator], Iterable[Output]], first: int = 0) -> Iterator[None]:
        """Call something of each operator from a position on, head to tail, and forward what it emits."""
        for position in range(first, len(self._nodes)):
            yield from self._run(position, call, self._nodes[position].operator)

    def rise(self, watermark: int | None) -> Iterator[None]:
        """Process the watermark of the input where it has risen."""
        if watermark is not None:
            yield from self._push(0, watermark_only(watermark), 0)

    def _push(self, position: int, batch: Batch, input_index: int) -> Iterator[None]:
        operator = self._nodes[position].operator
        process: Any = operator.process_columns if isinstance(batch, ColumnBatch) else operator.process
        return self._run(position, process, batch, input_index)

    def _run(self, position: int, run: Callable[..., Iterable[Output]], *arguments: Any) -> Iterator[None]:
        """Run something of an operator, and forward what it emits."""
        for tag, batch in self._outputs(position, run, *arguments):
            yield from self._forward(position, tag, batch)

    def _forward(self, position: int, tag: str | None, batch: Batch) -> Iterator[None]:
        """Pass a batch to all operators and edges that follow; yields so that the task can send finished rows."""
        if not len(batch) and not batch.watermarks:
            return
        node = self._nodes[position]
        children, edges = node.children.get(tag, ()), node.edges.get(tag, ())
        for piece in pieces(self._nodes, batch, children):
            yield from self._hand_on(position, piece, children, edges)
        if tag is None and batch.watermarks:
            yield from self._watermark_sides(node, position, batch.watermarks[-1][1])

    def _hand_on(
        self, position: int, batch: Batch, children: Sequence[int], edges: Sequence[EdgeWriter]
    ) -> Iterator[None]:
        last = None if edges or not children else children[-1]
        for child in children:
            # Each operator may change its records. Edges do not; they share those that no operator gets.
            own = batch if child is last else batch.copy_if_shared(object_reuse=self._object_reuse)
            yield from self._push(child, own, 0)
        for edge in edges:
            try:
                edge.write(batch)
            except BaseException as error:
                if passes_guards(error):
                    raise
                raise OperatorError(self._owner(position), has_record=False, record=None) from error
        if edges:
            yield None

    def _watermark_sides(self, node: ChainNode, position: int, watermark: int) -> Iterator[None]:
        """Forward the main output's watermark to the side outputs."""
        for side in (node.children.keys() | node.edges.keys()) - {None}:
            yield from self._forward(position, side, watermark_only(watermark))

    def _outputs(self, position: int, run: Callable[..., Iterable[Output]], *arguments: Any) -> Iterator[Output]:
        """Iterate an operator's outputs; errors name the operator."""
        node = self._nodes[position]
        outputs: Iterable[Output] = self._call(position, with_free_memory, node.operator, run, *arguments)
        if cast("object", type(outputs)) is not tuple:  # the operator runs between its outputs
            outputs = self._steps(position, outputs)
        for output in outputs:
            if node.parts_tagged and output[0] is None and isinstance(output[1], RowBatch):
                yield from parted(output[1])
            else:
                yield output

    def _steps(self, position: int, outputs: Iterable[Output]) -> Iterator[Output]:
        """Iterate outputs of a generator."""
        step: Callable[[], Output | None] = partial(next, iter(outputs), None)
        while (output := self._guard(position, step)) is not None:
            yield output

    def _call(self, position: int, run: Callable[..., T], *arguments: Any) -> T:
        """Call an operator outside of any record."""
        self._nodes[position].operator.iterate([])
        return self._guard(position, run, *arguments)

    def _guard(self, position: int, run: Callable[..., T], *arguments: Any) -> T:
        self._running = position
        try:
            return run(*arguments)
        except BaseException as error:  # Spark would take an exit for a lost worker, and retry
            if passes_guards(error):  # of an edge; of whoever stops the process
                raise
            has_record, record = self._nodes[position].operator.current_record()
            raise OperatorError(self._owner(position), has_record=has_record, record=record) from error
