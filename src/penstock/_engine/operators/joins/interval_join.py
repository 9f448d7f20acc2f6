"""The interval join: pairs of records of two keyed streams whose timestamps are within bounds of each other.

Each side keeps its records in slices of time (`join_side`). A record is kept at least until the watermark has passed
the last timestamp that it joins. Flink drops it one millisecond earlier, and loses pairs with records whose timestamp
equals the watermark, which are not late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock._api.functions.joins import ProcessJoinFunction
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.functions.process import KeyedProcessOperator
from penstock._engine.operators.joins.join_side import FEW, JoinSide, width_of
from penstock._engine.operators.windows.late_records import LateRecords
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock._engine.state.table import MISSING
from penstock.common.copies import may_change

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._api.time_domain import TimeDomain
    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.state.timers import Timers

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
        self._width_ms = width_of(lower_ms, upper_ms)
        self._late: LateRecords
        self._sides: tuple[JoinSide, ...] = ()

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._late = LateRecords(context, _REMEDY)

    def open_functions(self, epoch: EpochContext) -> None:
        sides = zip(("interval-join-left", "interval-join-right"), self._bounds, strict=True)
        self._sides = tuple(
            JoinSide(self.store, name, self.key, self._width_ms, kept_ms) for name, (_, kept_ms) in sides
        )
        super().open_functions(epoch)

    def process_run(self, batch: RowBatch, start: int, stop: int, input_index: int, out: SideOutputs) -> None:
        records, stamps = batch.records[start:stop], batch.stamps(start, stop)
        if NO_TIMESTAMP in stamps:
            raise self.missing_timestamp(records, stamps)
        keys, normals = self.keys_of(records, input_index)
        turns = zip(self.iterate(records), keys, normals, stamps, strict=True)
        for side in self._sides:
            side.begin_run()
        # Records of a known shape cannot change.
        self.loops.join(
            self.calls[input_index], self._pairs(turns, input_index, out, fixed=batch.shape is not None), out
        )

    def _pairs(
        self, turns: Iterable[Any], input_index: int, out: SideOutputs, *, fixed: bool
    ) -> Iterator[tuple[PairContext, Any, Any]]:
        """Keep records of one side, and iterate the pairs of each with the other side's, in the order of their times.

        The function gets copies of what it could change, because both records may meet others, too.

        Args:
            turns: Record, key, normal key and timestamp.
            input_index: Their side.
            out: Takes late records.
            fixed: Whether no record could be changed in place.

        Returns:
            Context, which is the same object each time, left and right record.
        """
        own, others, is_left = self._sides[input_index], self._sides[1 - input_index], input_index == 0
        (lower, upper), key, watermark = self._bounds[input_index], self.key, self.timers.watermark
        late_tag = self._late_tags[input_index]
        opened, near, width = own.opened, others.found, self._width_ms
        given, context = out.given, (LeftContext() if is_left else RightContext())
        for value, key.key, key.normal, stamp in turns:
            if stamp < watermark:
                self._late.side_output_late(RowBatch([value], [stamp]), late_tag, watermark, out)
                continue
            normal, changes = key.normal, not fixed and may_change(value)
            first, last = stamp + lower, stamp + upper
            if last >= watermark:
                pane = opened[stamp // width]
                item = stamp, given(value) if changes else value, changes
                items: Any = pane.hot.get(normal, MISSING)
                kind = type(items)  # pyright: ignore[reportUnknownVariableType]
                if kind is list and len(items) < FEW and items[-1][0] <= stamp:  # the usual case
                    items.append(item)
                    pane.dirty.add(normal)
                else:
                    own.add(pane, item)
            for number in range(first // width, last // width + 1):
                pane = near[number]
                if pane is None:
                    continue
                items = pane.hot.get(normal, MISSING)
                kind = type(items)  # pyright: ignore[reportUnknownVariableType]
                if kind is not list or len(items) > FEW:
                    items = others.read(pane, items, first, last)
                for other_stamp, other, other_changes in items:
                    if first <= other_stamp <= last:
                        context.stamp, context.other_stamp = stamp, other_stamp
                        context.at = stamp if stamp > other_stamp else other_stamp
                        mine, theirs = given(value) if changes else value, given(other) if other_changes else other
                        yield (context, mine, theirs) if is_left else (context, theirs, mine)

    def _fire(self, timers: Timers, limit: int, domain: TimeDomain, out: SideOutputs) -> Iterator[Output]:
        """Forget what no later record can join."""
        for side in self._sides:
            side.forget(limit)
        return iter(())


class PairContext(ProcessJoinFunction.Context):
    """The times of the current pair, of which one record has come now."""

    __slots__ = ("at", "other_stamp", "stamp")

    #: The time of the record that has come, and of the one that was kept.
    stamp: int
    other_stamp: int
    #: The later one of the two.
    at: int

    def get_timestamp(self) -> int:
        return self.at


class LeftContext(PairContext):
    """The times of a pair whose left record has come now."""

    def get_left_timestamp(self) -> int:
        return self.stamp

    def get_right_timestamp(self) -> int:
        return self.other_stamp


class RightContext(PairContext):
    """The times of a pair whose right record has come now."""

    def get_left_timestamp(self) -> int:
        return self.other_stamp

    def get_right_timestamp(self) -> int:
        return self.stamp
