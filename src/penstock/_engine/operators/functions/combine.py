"""Combines records before a shuffle in batch mode: a sender sends one partial result for many records.

Partial results travel with the key of their records, because the key of a partial result may be another one. A reduce
does not combine records with timestamps: timestamps order the records of a key over all senders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock._api.functions.held import method_and_type
from penstock._engine.operators.base import NOTHING
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.keyed import KeyedOperator
from penstock._engine.operators.loops import Loops
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock._engine.state.files import pickles
from penstock._engine.state.table import ABSENT
from penstock.common.batch_options import SORTED_INPUTS_MEMORY
from penstock.common.configuration import Configuration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.operators.base import EpochContext, OperatorContext, Output

#: The number of partial results that a sender holds.
_MOST_KEYS: Final = 1 << 16
#: The number of records after which a sender looks for the first time how much memory its partial results take.
_FIRST_LOOK: Final = 1 << 12


class CombineOperator(KeyedOperator):
    """Folds the records of a subtask by key, in their order, into pairs of key and partial result."""

    def __init__(self, function: Any, key_selector: Any) -> None:
        super().__init__(key_selector)
        self.function = function
        self.loops = Loops()
        #: The partial results by normal key, for each timestamp that they are sent with.
        self.partials: dict[int, dict[Any, Any]] = {}
        #: The keys that are not their own normal key, by normal key.
        self._keys: dict[Any, Any] = {}
        self._records, self._next_look = 0, _FIRST_LOOK

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._memory_bytes = Configuration.from_dict(context.configuration).get(SORTED_INPUTS_MEMORY)

    def open_functions(self, epoch: EpochContext) -> None:
        self.open_function(self.function, EngineRuntimeContext(self.context), epoch)

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        if not batch.records:
            return ((None, batch),)
        self.selections[0].refuse_unstable(next(self.iterate(batch.records)), self.context.operator_name)
        keys, normals = self.keys_of(batch.records)
        if not self.combines(batch):
            return self._passed_on(keys, batch)
        self.fold(batch, normals)
        if keys is not normals:
            self._keys.update(zip(normals, keys, strict=True))
        self._records += len(keys)
        return self._taken() if self._are_many() else NOTHING

    def combines(self, batch: RowBatch) -> bool:
        """Return whether the records of a batch are combined."""
        return batch.timestamps is None

    def fold(self, batch: RowBatch, normals: list[Any]) -> None:
        """Fold records into the partial results of their keys."""
        call, held = method_and_type(self.function, "reduce")
        partials = self.partials.setdefault(NO_TIMESTAMP, {})
        self.loops.fold(call, self.iterate(batch.records), normals, (partials, absent), held=held)

    def alone(self, record: Any) -> Any:
        """Return the partial result of one record."""
        return record

    def _passed_on(self, keys: list[Any], batch: RowBatch) -> Iterator[Output]:
        yield from self._taken()
        records = [(key, self.alone(record)) for key, record in zip(keys, self.iterate(batch.records), strict=True)]
        yield None, RowBatch(records, batch.timestamps, batch.watermarks)

    def _are_many(self) -> bool:
        """Return whether the partial results have to go: those of texts or lists grow with each record."""
        if len(self._keys) >= _MOST_KEYS or sum(map(len, self.partials.values())) >= _MOST_KEYS:
            return True
        if self._records < self._next_look:
            return False
        self._next_look = 2 * self._records
        return 2 * len(pickles.dump(self.partials)) >= self._memory_bytes  # objects take about twice their pickles

    def _taken(self) -> Iterator[Output]:
        """Yield the partial results so far."""
        taken, self.partials = self.partials, {}
        keys, self._keys = self._keys, {}
        self._records, self._next_look = 0, _FIRST_LOOK
        for stamp, partials in taken.items():
            stamps = None if stamp == NO_TIMESTAMP else [stamp] * len(partials)
            yield None, RowBatch([(keys.get(normal, normal), partial) for normal, partial in partials.items()], stamps)

    def prepare_snapshot(self) -> Iterable[Output]:
        return self._taken()

    def end_input(self, input_index: int) -> Iterable[Output]:
        yield from self._taken()
        yield from super().end_input(input_index)

    def finish(self) -> Iterable[Output]:
        yield from self._taken()
        yield from super().finish()


def absent(key: Any) -> Any:
    """Return that there is no partial result of a key yet."""
    del key
    return ABSENT
