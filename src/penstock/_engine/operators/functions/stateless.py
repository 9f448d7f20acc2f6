"""Operators without state: map, filter, flat_map and cast.

A record is copied when it leaves its function, before the next call; see `penstock.common.copies`. Immutable types are
checked inline, because a call per record would take longer.
"""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock._api.functions.wrong_results import refuse_no_records
from penstock._engine.operators.base import NOTHING, EpochContext, Operator, Output
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.loops import Loops
from penstock._engine.operators.user_functions import UserFunctionOperator
from penstock.common.conversion import Conversion, conversion
from penstock.common.copies import IMMUTABLE, copy_if_mutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._engine.operators.base import OperatorContext
    from penstock.common.typeinfo import TypeInformation

#: Shapes of records without references to other objects.
NUMBERS_AND_TEXTS: Final = frozenset({int, float, bool, str, bytes})


class FunctionOperator(UserFunctionOperator):
    """An operator with one user function: a callable, or a Function object with a method of the given name."""

    #: Whether the function yields records instead of returning one.
    yields: ClassVar[bool] = False

    def __init__(self, function: Any, method: str) -> None:
        super().__init__()
        self.function = function
        self.call: Callable[..., Any] = getattr(function, method, function)
        self.loops = Loops()
        self._keeps_nothing = keeps_nothing(self.call)

    def open_functions(self, epoch: EpochContext) -> None:
        self.open_function(self.function, EngineRuntimeContext(self.context), epoch, yields=self.yields)


class MapOperator(FunctionOperator):
    """Emits one record for each record."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "map")
        self._is_shape_wanted = False

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._is_shape_wanted = context.feeds_edges

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        call, cursor = self.call, self.iterate(batch.records)
        if self._keeps_nothing and batch.shape in NUMBERS_AND_TEXTS and not self._is_shape_wanted:
            # Not map(): it takes a StopIteration that a function lets out for the end of the records.
            records, shape = [call(record) for record in cursor], None
        else:
            records, shape = self.loops.map(call, cursor, copies=not self.object_reuse)
        return ((None, RowBatch(records, batch.timestamps, batch.watermarks, shape)),)


class FilterOperator(FunctionOperator):
    """Emits the records for which the function is true."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "filter")

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        call, cursor, shape = self.call, self.iterate(batch.records), batch.shape
        as_they_are = self.object_reuse or shape is not None  # known not to change
        if batch.timestamps is None and not batch.watermarks:
            if as_they_are:
                records = [record for record in cursor if call(record)]
            else:
                records, shape = self.loops.filter(call, cursor)
            return ((None, RowBatch(records, shape=shape)),) if records else NOTHING
        if as_they_are:
            return ((None, batch.keeping([bool(call(record)) for record in cursor], batch.records)),)
        kept: list[bool] = []
        stamped: list[Any] = []
        for record in cursor:
            kept.append(bool(call(record)))
            stamped.append(copy_if_mutable(record) if kept[-1] else None)
        return ((None, batch.keeping(kept, stamped)),)


class FlatMapOperator(FunctionOperator):
    """Emits any number of records for each record; None means none (PyFlink fails on it)."""

    yields = True

    def __init__(self, function: Any) -> None:
        super().__init__(function, "flat_map")

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        if batch.timestamps is None and not batch.watermarks:
            return self._explode(batch.records)
        return ((None, self._explode_stamped(batch)),)

    def _explode(self, records: list[Any]) -> Iterable[Output]:
        call, given = self.call, _as_it_is if self.object_reuse else copy_if_mutable
        result: Any = None
        try:
            exploded: list[Any] = [
                item if type(item) in IMMUTABLE else given(item)
                for record in self.iterate(records)
                if (result := call(record)) is not None
                for item in result
            ]
        except TypeError:
            refuse_no_records(self.call, result)
            raise
        return ((None, RowBatch(exploded)),) if exploded else NOTHING

    def _explode_stamped(self, batch: RowBatch) -> RowBatch:
        call, given = self.call, _as_it_is if self.object_reuse else copy_if_mutable
        records: list[Any] = []
        ends: list[int] = [0]
        for record in self.iterate(batch.records):
            result = call(record)
            if result is not None:
                try:
                    records.extend([item if type(item) in IMMUTABLE else given(item) for item in result])
                except TypeError:
                    refuse_no_records(self.call, result)
                    raise
            ends.append(len(records))
        timestamps: list[int] | None = None
        if batch.timestamps is not None:
            timestamps = []
            for stamp, start, stop in zip(batch.timestamps, ends, ends[1:], strict=False):
                timestamps.extend([stamp] * (stop - start))
        return RowBatch(records, timestamps, [(ends[position], watermark) for position, watermark in batch.watermarks])


class CastOperator(Operator):
    """Casts the records of an output to the type that is declared for it."""

    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__()
        self._type_info = type_info
        self._conversion: Conversion | None = None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._conversion = conversion(self._type_info, f"The output of {context.operator_name!r}")

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        if self._conversion is None:
            return ((None, batch),)
        held, shape = self._conversion, batch.shape
        records = held.block(batch.records, self.iterate, shape)
        if shape != held.shape and records is not batch.records:
            shape = None
        return ((None, RowBatch(records, batch.timestamps, batch.watermarks, shape)),)


def keeps_nothing(function: Any) -> bool:
    """Return whether a function of numbers or texts cannot keep an object, because it uses only its arguments.

    Such a function only computes: calling a method, or accessing an earlier object, would need a name.
    """
    if type(function) is not FunctionType:
        return False
    code = function.__code__
    reaches = (code.co_names, code.co_freevars, function.__defaults__, function.__kwdefaults__)
    return not any(reaches) and CodeType not in map(type, code.co_consts)


def _as_it_is(record: Any) -> Any:
    return record
