"""Separates the records of side outputs from the main output.

A yielded pair of an OutputTag and a value goes to the side output of that tag. For process functions and window
functions this always holds. Results of other operators are searched for such pairs only if the program asks for a side
output of that operator, as in PyFlink, where every function runs as a process function; else such a pair is an ordinary
record.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from penstock._api.functions.wrong_results import refuse_no_records
from penstock._api.output_tag import OutputTag
from penstock._engine.operators.batch import BatchBuilder
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock.common.copies import IMMUTABLE, all_immutable, copy_if_mutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._engine.operators.base import Output
    from penstock._engine.operators.batch import RowBatch
    from penstock._engine.state.timers import DueTimer

#: So many timers fire, and so many results are held, before results are passed on.
_TIMERS: Final = 1 << 12


class SideOutputs:
    """Splits what a function yielded into the main output and the side outputs.

    Args:
        with_timestamps: Whether the records of the main output get timestamps.
        parts_tagged: False keeps pairs of a tag and a value in the main output.
        object_reuse: Whether records continue without a copy.
        function: The function, for errors.
    """

    __slots__ = ("function", "given", "main", "parts_tagged", "sides", "stamps_main")

    def __init__(
        self, *, with_timestamps: bool, object_reuse: bool, parts_tagged: bool = True, function: Any = None
    ) -> None:
        self.given: Callable[[Any], Any] = (lambda record: record) if object_reuse else copy_if_mutable
        self.parts_tagged = parts_tagged
        self.function = function
        self.main = BatchBuilder()
        self.sides: dict[str, BatchBuilder] = {}
        self.stamps_main = with_timestamps

    def extend(self, results: Iterable[Any], timestamp: int) -> None:
        """Add the results of one call, all with the timestamp of the record or timer.

        Raises:
            FunctionResultError: The results are no iterable.
        """
        records, stamps = self.main.records, self.main.timestamps if self.stamps_main else None
        try:
            for item in results:
                kind = type(item)  # pyright: ignore[reportUnknownVariableType]
                if kind in IMMUTABLE or (kind is tuple and all_immutable(map(type, item))):
                    records.append(item)
                    if stamps is not None:
                        stamps.append(timestamp)
                else:
                    self.give(item, timestamp)
        except TypeError:
            refuse_no_records(self.function, results)
            raise

    def give(self, item: Any, timestamp: int) -> None:
        """Add one result, to a side output if it is a pair of a tag and a value."""
        if isinstance(item, tuple) and is_tagged(item) and self.parts_tagged:
            side = self.side(item[0].tag_id)
            side.records.append(self.given(item[1]))
            side.timestamps.append(timestamp)
            return
        self.main.records.append(self.given(item))
        if self.stamps_main:
            self.main.timestamps.append(timestamp)

    def side(self, tag_id: str) -> BatchBuilder:
        """Return a side output, to be added to; each of its records needs a timestamp."""
        side = self.sides.get(tag_id)
        if side is None:
            side = self.sides[tag_id] = BatchBuilder()
        return side

    def watermark(self, value: int) -> None:
        """Put a watermark on the main output after the results so far."""
        self.main.add_watermark(value)

    def outputs_of_timers(
        self, due: Iterator[DueTimer], fire: Callable[[Iterator[DueTimer]], None]
    ) -> Iterator[Output]:
        """Fire timers, and yield what there is after each part of them: all of it may be too much for the memory.

        Args:
            due: Removes and yields the timers.
            fire: Fires timers into these outputs.
        """
        for first in due:
            fire(chain((first,), islice(due, _TIMERS - 1)))
            if len(self.main.records) + sum(len(side.records) for side in self.sides.values()) >= _TIMERS:
                yield from self.outputs()
                self.main, self.sides = BatchBuilder(), {}

    def outputs(self) -> Iterator[Output]:
        """Yield the side outputs, each closed by the last watermark, then the main output."""
        for tag_id, side in self.sides.items():
            if self.main.watermarks:
                side.add_watermark(self.main.watermarks[-1][1])
            yield tag_id, side.build()
        yield None, self.main.build()


def is_tagged(item: Any) -> TypeGuard[tuple[OutputTag, Any]]:
    """Return whether a yielded item is a pair of an OutputTag and a value."""
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], OutputTag)  # pyright: ignore[reportUnknownArgumentType]


def parted(batch: RowBatch) -> Iterator[Output]:
    """Yield the tagged pairs of a main output as side outputs, then the rest as the main output."""
    tagged = list(map(is_tagged, batch.records))
    if not any(tagged):
        yield None, batch
        return
    sides: dict[str, BatchBuilder] = {}
    stamps = batch.timestamps or [NO_TIMESTAMP] * len(tagged)
    for item, is_side, stamp in zip(batch.records, tagged, stamps, strict=True):
        if is_side:
            side = sides.setdefault(item[0].tag_id, BatchBuilder())
            side.records.append(item[1])
            side.timestamps.append(stamp)
    for tag_id, side in sides.items():
        if batch.watermarks:
            side.add_watermark(batch.watermarks[-1][1])
        yield tag_id, side.build()
    yield None, batch.keeping([not is_side for is_side in tagged], batch.records)
