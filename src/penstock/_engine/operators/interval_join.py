"""The interval join: pairs of records of two keyed streams whose timestamps are within bounds of each other.

Each side is a map state of the key: the records of each timestamp. A record is kept until the watermark has passed the
last timestamp that it joins. Flink drops it one millisecond earlier, and loses pairs with records whose timestamp
equals the watermark, which are not late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock._api.functions.joins import ProcessJoinFunction
from penstock._api.state.descriptors import MapStateDescriptor
from penstock._engine.operators.process import KeyedProcessOperator
from penstock._engine.operators.windows.late_records import LateRecords
from penstock._engine.protocol.rows import MAX_WATERMARK, NO_TIMESTAMP
from penstock.common.short_repr import short_repr
from penstock.errors import MissingTimestampError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._api.state.kinds import MapState
    from penstock._api.time_domain import TimeDomain
    from penstock._engine.operators.base import EpochContext, OperatorContext
    from penstock._engine.operators.batch import RowBatch
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.state.timers import DueTimer

_REMEDY = "side_output_left_late_data() and side_output_right_late_data() keep them."


class IntervalJoinOperator(KeyedProcessOperator):
    """Joins each left record with the right ones from `lower_ms` to `upper_ms` after it, both included.

    Args:
        function: Makes the results of a pair.
        key_selector1: Of the left input.
        key_selector2: Of the right input.
        lower_ms: May be negative.
        upper_ms: At least `lower_ms`.
        late_tags: The ids of the side outputs for late records of each side; None drops them.
    """

    methods: ClassVar = ("process_element", "process_element")

    def __init__(
        self,
        function: Any,
        key_selector1: Any,
        key_selector2: Any,
        *,
        lower_ms: int,
        upper_ms: int,
        late_tags: tuple[str | None, str | None],
    ) -> None:
        super().__init__(function, key_selector1, key_selector2)
        #: By input: the bounds of the other side's timestamps, relative to a record's own.
        self._bounds = (lower_ms, upper_ms), (-upper_ms, -lower_ms)
        self._late_tags = late_tags
        self._late: LateRecords
        self._sides: list[MapState[int, list[Any]]] = []

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._late = LateRecords(context, _REMEDY)

    def open_functions(self, epoch: EpochContext) -> None:
        states = self.runtime_context()
        names = "interval-join-left", "interval-join-right"
        self._sides = [states.get_map_state(MapStateDescriptor(name)) for name in names]
        super().open_functions(epoch)

    def process_run(self, batch: RowBatch, start: int, stop: int, input_index: int, out: SideOutputs) -> None:
        records = batch.records[start:stop]
        keys, normals = self.keys_of(records, input_index)
        stamps, key, watermark = batch.stamps(start, stop), self.key, self.timers.watermark
        for value, key.key, key.normal, stamp in zip(self.iterate(records), keys, normals, stamps, strict=True):
            if stamp == NO_TIMESTAMP:
                raise MissingTimestampError(self.context.operator_name, short_repr(value))
            if stamp < watermark:
                self._leave_out(value, stamp, input_index, out)
            else:
                self._keep(out.given(value), stamp, input_index)
                self._join(value, stamp, input_index, out)

    def _leave_out(self, value: Any, stamp: int, input_index: int, out: SideOutputs) -> None:
        """Drop a late record, or emit it to its side output."""
        tag = self._late_tags[input_index]
        if tag is None:
            self._late.drop(1, value, stamp, self.timers.watermark)
            return
        late = out.side(tag)
        late.records.append(value)
        late.timestamps.append(stamp)

    def _keep(self, value: Any, stamp: int, input_index: int) -> None:
        """Keep a record for later records of the other side."""
        over = stamp + self._bounds[input_index][1] + 1
        if over <= self.timers.watermark:
            return
        side = self._sides[input_index]
        records = side.get(stamp)
        if records is None:
            records = []
        if not records and over <= MAX_WATERMARK:  # else no watermark passes that time
            self.timers.register_event_time_timer(over)
        records.append(value)
        side.put(stamp, records)

    def _join(self, value: Any, stamp: int, input_index: int, out: SideOutputs) -> None:
        """Join a record with the kept records of the other side, in the order of their timestamps.

        The function gets copies, because both records may be joined again.
        """
        lower, upper = self._bounds[input_index]
        earliest, latest = stamp + lower, stamp + upper
        others = [item for item in self._sides[1 - input_index].items() if earliest <= item[0] <= latest]
        call, given, is_left = self.calls[input_index], out.given, input_index == 0
        for other_stamp, values in sorted(others, key=_stamp):
            context = PairContext(stamp, other_stamp) if is_left else PairContext(other_stamp, stamp)
            for other in values:
                pair = (value, other) if is_left else (other, value)
                results = call(given(pair[0]), given(pair[1]), context)
                if results is not None:
                    out.extend(results, context.at)

    def _call_timers(self, due: Iterator[DueTimer], domain: TimeDomain, out: SideOutputs) -> None:
        """Drop the records that no later record can join."""
        for over, self.key.normal, _namespace, self.key.key in due:
            self.store.turn_to(self.key.normal)
            for side, (_, upper) in zip(self._sides, self._bounds, strict=True):
                if side.contains(over - upper - 1):
                    side.remove(over - upper - 1)


def _stamp(item: tuple[int, list[Any]]) -> int:
    return item[0]


class PairContext(ProcessJoinFunction.Context):
    """The times of a pair."""

    __slots__ = ("_left", "_right", "at")

    def __init__(self, left: int, right: int) -> None:
        self._left = left
        self._right = right
        self.at = max(left, right)

    def get_left_timestamp(self) -> int:
        return self._left

    def get_right_timestamp(self) -> int:
        return self._right

    def get_timestamp(self) -> int:
        return self.at
