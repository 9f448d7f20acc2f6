"""Distributes columns to the receivers of an edge, without a Python object for each record."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from penstock._api.functions.field_key import FieldKey
from penstock._engine.operators.key_selection import KeySelection
from penstock.common.columns import int64_column_of, named_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.operators.columns import ColumnBatch
    from penstock._engine.runtime.key_routes import KeyRoutes

#: The records of so many receivers are looked for one receiver after the other; those of more are sorted.
_MOST_LOOKED_FOR: Final = 4


@cache
def _key_types() -> tuple[Callable[[Any], bool], ...]:
    """Return Arrow's predicates of the types whose distinct values it can find."""
    from pyarrow import types

    return (
        *(types.is_integer, types.is_floating, types.is_boolean, types.is_decimal),
        *(types.is_date, types.is_time, types.is_timestamp, types.is_duration),
        *(types.is_string, types.is_large_string),
        *(types.is_binary, types.is_large_binary, types.is_fixed_size_binary),
    )


def by_receiver(batch: ColumnBatch, receivers: Any) -> list[tuple[int, ColumnBatch]]:
    """Return the records of each receiver in their order.

    Args:
        batch: The batch, with at least one record.
        receivers: The receiver of each record, a list or an array of NumPy's.
    """
    import numpy as np

    receivers = np.asarray(receivers)
    counts = np.bincount(receivers)
    found: list[int] = np.flatnonzero(counts).tolist()
    if len(found) == 1:
        return [(found[0], batch)]
    if len(found) <= _MOST_LOOKED_FOR:
        return [(one, batch.take(int64_column_of(np.flatnonzero(receivers == one)))) for one in found]
    taken, start = batch.take(int64_column_of(np.argsort(receivers, kind="stable"))), 0
    parts: list[tuple[int, ColumnBatch]] = []
    for receiver in found:
        end = start + int(counts[receiver])
        parts.append((receiver, taken.slice(start, end)))
        start = end
    return parts


class KeyColumn:
    """A column with the key of each record."""

    def __init__(self, name: str) -> None:
        self.name = name

    @staticmethod
    def of(key_selector: Any) -> KeyColumn | None:
        """Return the column that a key selector names, None for a selector that computes keys."""
        return KeyColumn(key_selector.field) if isinstance(key_selector, FieldKey) else None

    def is_in(self, batch: ColumnBatch) -> bool:
        """Return whether a batch has the column, with a type whose distinct values Arrow can find."""
        import pyarrow as pa

        schema = batch.columns.schema
        if not batch.has(self.name):
            return False
        kind: Any = schema.field(self.name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        return any(is_one(kind) for is_one in _key_types())

    def receivers(self, batch: ColumnBatch, routes: KeyRoutes) -> Any:
        """Return an array of NumPy's with the receivers of the records, computed once for each distinct key."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        column: Any = batch.columns.column(self.name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if _has_plain_ints(column):
            receivers = routes.of_dense_ints(column.cast(pa.int64()).to_numpy())
            if receivers is not None:
                return receivers
        functions: Any = pc
        encoded = functions.dictionary_encode(column, null_encoding="encode")
        keys = encoded.dictionary
        if _has_plain_ints(keys):
            receivers = routes.of_ints(keys.cast(pa.int64()).to_numpy())
        else:
            receivers = np.array(routes.of(named_values(self.name, keys), _ITSELF), routes.smallest_type)
        return receivers[encoded.indices.to_numpy()]


def _has_plain_ints(column: Any) -> bool:
    """Return whether all values of a column are ints of 64 bits; those of uint64 may be larger."""
    import pyarrow as pa

    return pa.types.is_integer(column.type) and column.type != pa.uint64() and not column.null_count


def _itself(key: Any) -> Any:
    return key


#: Of keys that are there already.
_ITSELF: Final = KeySelection(_itself)
