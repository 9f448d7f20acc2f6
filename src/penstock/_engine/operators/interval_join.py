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
from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._api.time_domain import TimeDomain
    from penstock._engine.operators.base import EpochContext, OperatorContext
    from penstock._engine.operators.batch import RowBatch
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.table import Pane
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
        self._sides: list[_Side] = []

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._late = LateRecords(context, _REMEDY)

    def open_functions(self, epoch: EpochContext) -> None:
        states = self.runtime_context()
        self._sides = []
        for name in ("interval-join-left", "interval-join-right"):
            states.get_map_state(MapStateDescriptor(name))
            self._sides.append(_Side(self.store.table(name).pane()))
        super().open_functions(epoch)

    def process_run(self, batch: RowBatch, start: int, stop: int, input_index: int, out: SideOutputs) -> None:
        records = batch.records[start:stop]
        keys, normals = self.keys_of(records, input_index)
        turns = zip(self.iterate(records), keys, normals, batch.stamps(start, stop), strict=True)
        # Records of a known shape cannot change, so they need no copies.
        given = out.given if batch.shape is None else _as_it_is
        self.loops.join(self.calls[input_index], self._pairs(turns, input_index, given, out), out)

    def _pairs(
        self, turns: Iterable[Any], input_index: int, given: Callable[[Any], Any], out: SideOutputs
    ) -> Iterator[tuple[PairContext, Any, Any]]:
        """Keep records of one side, and iterate the pairs of each with the other side's, in the order of their times.

        The function gets copies, because both records may meet others, too.

        Args:
            turns: Record, key, normal key and timestamp.
            input_index: Their side.
            given: Returns a copy of such a record.
            out: Takes late records.

        Returns:
            Context, left and right record.
        """
        own, others, is_left = self._sides[input_index], self._sides[1 - input_index], input_index == 0
        (lower, upper), key, watermark = self._bounds[input_index], self.key, self.timers.watermark
        for value, key.key, key.normal, stamp in turns:
            if stamp == NO_TIMESTAMP:
                raise self.missing_timestamp([value], [stamp])
            if stamp < watermark:
                self._leave_out(value, stamp, input_index, out)
                continue
            over = stamp + upper + 1
            is_kept = over > watermark
            # Where records of that time are there, so is the timer; the watermark does not come past all times.
            if is_kept and own.add(key.normal, stamp, given(value)) and over <= MAX_WATERMARK:
                self.event_timers.register(over, key.normal, (), key.key)
            for other_stamp, met in others.within(key.normal, stamp + lower, stamp + upper):
                context = PairContext(stamp, other_stamp) if is_left else PairContext(other_stamp, stamp)
                for other in met:
                    mine, theirs = given(value), out.given(other)
                    yield (context, mine, theirs) if is_left else (context, theirs, mine)

    def _leave_out(self, value: Any, stamp: int, input_index: int, out: SideOutputs) -> None:
        """Drop a late record, or emit it to its side output."""
        tag = self._late_tags[input_index]
        if tag is None:
            self._late.drop(1, value, stamp, self.timers.watermark)
            return
        late = out.side(tag)
        late.records.append(value)
        late.timestamps.append(stamp)

    def _call_timers(self, due: Iterator[DueTimer], domain: TimeDomain, out: SideOutputs) -> None:
        """Forget what no later record can join."""
        for over, self.key.normal, _namespace, self.key.key in due:
            self.store.turn_to(self.key.normal)
            for side, (_, upper) in zip(self._sides, self._bounds, strict=True):
                side.forget(self.key.normal, over - upper - 1)


def _as_it_is(record: Any) -> Any:
    return record


class _Side:
    """The records of one side: the rows of a map state, by the timestamps of records.

    Args:
        pane: The pane of the state.
    """

    __slots__ = ("_dirty", "_hot", "_pane", "_rows")

    def __init__(self, pane: Pane) -> None:
        self._pane = pane
        # These stay the same objects for the life of the pane.
        self._hot = pane.hot
        self._dirty = pane.dirty
        self._rows = pane.sub_rows()

    def add(self, normal: NormalKey, stamp: int, record: Any) -> bool:
        """Add a record of a key; return whether it is the first one of its time."""
        address = normal, (), stamp
        records = self._hot.get(address, MISSING)
        if records is MISSING:
            records = self._pane.load(address)
            if records is ABSENT:
                self._pane.fresh.add(address)
        self._dirty.add(address)
        if records is not ABSENT:
            records.append(record)
            return False
        self._hot[address] = [record]
        self._rows.note(address)
        return True

    def within(self, normal: NormalKey, first: int, last: int) -> list[tuple[int, list[Any]]]:
        """Return the records of a key from one time to another, both included, by their times in order."""
        return self._rows.between((normal, ()), first, last)

    def forget(self, normal: NormalKey, stamp: int) -> None:
        """Delete the records of a key and a time."""
        address = normal, (), stamp
        held = self._hot.get(address, MISSING)
        if (self._pane.load(address) if held is MISSING else held) is not ABSENT and not self._pane.discard(address):
            self._hot[address] = ABSENT
            self._dirty.add(address)


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
