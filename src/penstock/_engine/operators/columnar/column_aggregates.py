"""Aggregates of columns by key: Arrow computes partial results of many records at once, which keyed state holds.

Nulls are left out, as in SQL: a sum of nothing but nulls is null, a count of them is 0. NaN is greater than all other
values, as in the aggregations of records.
"""

from __future__ import annotations

import decimal
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._api.functions.basic import AggregateFunction
from penstock._engine.operators.column_keys import key_column, plain_column
from penstock._formats.arrow_misfits import MisfitError
from penstock._formats.arrow_runs import array_as, in_one_column, runs
from penstock.common.columns import named_values
from penstock.common.user_values import short_repr
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: The partial results that each aggregate is made of.
PARTS: Final[dict[str, tuple[str, ...]]] = {
    "sum": ("sum",),
    "min": ("min",),
    "max": ("max",),
    "count": ("count",),
    "mean": ("sum", "count"),
}
#: What becomes of a column of partial results.
_AGAIN: Final = {"sum": "sum", "min": "min", "max": "max", "count": "sum"}
#: The columns of keys, timestamps and groups in tables of partial results.
KEY: Final = "key"
STAMP: Final = "stamp"
GROUP: Final = "group"
_LARGEST_EXACT_SUM: Final = 2**62
#: The digits of Arrow's sums of decimals of 128 bits, and of 256 bits: more of them would wrap around.
_DIGITS: Final = 38
_MOST_DIGITS: Final = 76
_EXACT: Final = decimal.Context(prec=100)


class ColumnAggregates(AggregateFunction["tuple[Any, ...]", "tuple[Any, ...]", "tuple[Any, ...]"]):
    """Aggregates of some columns for each key; in keyed state it aggregates rows of partial results.

    Args:
        key: The column of keys.
        aggregates: (column, aggregate) in the order of the results.
    """

    combinable = True

    def __init__(self, key: str, aggregates: Sequence[tuple[str, str]]) -> None:
        self.key = key
        self.names: list[str] = [f"{column}_{function}" for column, function in aggregates]
        wanted = [(column, part) for column, function in aggregates for part in PARTS[function]]
        #: (column, partial result), each once.
        self.parts: list[tuple[str, str]] = list(dict.fromkeys(wanted))
        #: Each aggregate, with the places of its partial results.
        self.places: list[tuple[str, list[int]]] = [
            (function, [self.parts.index((column, part)) for part in PARTS[function]])
            for column, function in aggregates
        ]
        #: Whether the results are the partial results.
        self._is_as_held = [places for _, places in self.places] == [[place] for place in range(len(self.parts))]
        self._merge: list[Callable[[Any, Any], Any]] = [_MERGES[part] for _, part in self.parts]
        #: The schema of the last table of `columns_of`.
        self._checked: Any = None

    # ------------------------------------------------------------------------------------------------------- in Arrow

    def columns_of(self, batch: Any, stamps: Any = None) -> Any:
        """Return a table of what `partials` needs of a batch; nothing is copied.

        Args:
            batch: The Arrow batch.
            stamps: A column of timestamps; None without any.

        Raises:
            BatchColumnsError: The batch lacks a column, or a column cannot be aggregated in that way or be a key.
        """
        names: list[str] = batch.schema.names
        missing = next((name for name in (self.key, *dict(self.parts)) if name not in names), None)
        if missing is not None:
            raise BatchColumnsError(tuple(names), f"it has no column {missing!r}, by which it is to be aggregated")
        columns: dict[str, Any] = {KEY: key_column(self.key, batch.column(self.key))}
        columns |= {str(place): plain_column(batch.column(column)) for place, (column, _) in enumerate(self.parts)}
        if stamps is not None:
            columns[STAMP] = stamps
        table = _table(columns)
        if table.schema != self._checked:  # the error is to name the batch, not the records that waited with it
            self.partials(table.slice(0, 0))
            self._checked = table.schema
        return table

    def partials(self, table: Any) -> Any:
        """Return a table of partial results, a row for each key and group, with the greatest timestamp of its records.

        Args:
            table: One of `columns_of`, or several of one schema joined; each number in a column of `GROUP` is a group.

        Raises:
            BatchColumnsError: A column cannot be aggregated in that way.
        """
        import pyarrow as pa

        try:
            return self._grouped(table, dict(enumerate(part for _, part in self.parts)))
        except pa.ArrowNotImplementedError as error:
            found = {self.key: table.schema.field(KEY).type}
            found |= {column: table.schema.field(str(place)).type for place, (column, _) in enumerate(self.parts)}
            types = ", ".join(f"{column}: {kind}" for column, kind in found.items())
            told = ", ".join(f"{function} of {column!r}" for column, function in self.parts)
            reason = f"Arrow cannot compute {told} by {self.key!r} where the types are {types} ({error})"
            raise BatchColumnsError(tuple(found), reason) from error

    def combined(self, tables: Sequence[Any]) -> Any:
        """Return a table of partial results of several ones of one schema."""
        import pyarrow as pa

        table: Any = pa.concat_tables(tables)
        return self._grouped(table, {place: _AGAIN[part] for place, (_, part) in enumerate(self.parts)})

    def _grouped(self, table: Any, parts: Mapping[int, str]) -> Any:
        import pyarrow.compute as pc

        functions: Any = pc
        names: list[str] = table.schema.names
        by = [KEY, *([GROUP] if GROUP in names else [])]
        wanted: list[tuple[str, str]] = [(STAMP, "max")] if STAMP in names else []
        with_nan: list[str] = []
        whole: dict[str, Any] = {}
        for place, function in parts.items():
            name, column = str(place), table.column(str(place))
            if function == "sum" and (wide := self._wide(place, column)) is not None:
                table = table.set_column(table.schema.names.index(name), name, column.cast(wide))
                whole |= {name: wide} if wide in _big_numbers().values() else {}
            elif function == "max" and _has_nan(column):
                table = table.append_column(f"{name}-nan", functions.is_nan(column))
                wanted.append((f"{name}-nan", "any"))
                with_nan.append(name)
            wanted.append((name, function))
        grouped: Any = table.group_by(by, use_threads=False).aggregate(wanted)
        made: dict[str, Any] = {name: grouped.column(name) for name in by}
        made |= {name: grouped.column(f"{name}_{function}") for name, function in wanted if not name.endswith("-nan")}
        for name, kind in whole.items():  # Arrow's sums of decimals have the most digits there are
            made[name] = made[name].cast(kind)
        for name in with_nan:
            is_nan: Any = grouped.column(f"{name}-nan_any")
            made[name] = functions.if_else(is_nan, math.nan, made[name])
        return _table(made)

    def _wide(self, place: int, column: Any) -> Any:
        """Return the type in which a sum has place; None for that of Arrow's sums of the column.

        Raises:
            BatchColumnsError: There is none.
        """
        import pyarrow as pa

        types: Any = pa.types
        if types.is_integer(column.type):
            is_signed = types.is_signed_integer(column.type)
            return _big_numbers()[is_signed] if _most(column) >= _LARGEST_EXACT_SUM else None
        if column.type in _big_numbers().values():
            return column.type
        if not types.is_decimal(column.type) or _most(column).scaleb(column.type.scale, _EXACT) < 10**_DIGITS:
            return None
        name = self.parts[place][0]
        if types.is_decimal256(column.type) and _most(column).scaleb(column.type.scale, _EXACT) >= 10**_MOST_DIGITS:
            reason = f"a sum of {name!r} may have more than {_MOST_DIGITS} digits; cast it to floating point"
            raise BatchColumnsError((name,), reason)
        return pa.decimal256(_MOST_DIGITS, column.type.scale)

    def rows(self, table: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a table of partial results as tuples: the key, and the partial results.

        Raises:
            BatchColumnsError: A value has no counterpart in Python.
        """
        columns = [named_values(name, table.column(str(place))) for place, (name, _) in enumerate(self.parts)]
        whole = _big_numbers().values()
        big = [place for place in range(len(self.parts)) if table.schema.field(str(place)).type in whole]
        for place in big:
            columns[place] = [None if value is None else int(value) for value in columns[place]]
        return list(zip(named_values(self.key, table.column(KEY)), *columns, strict=True))

    # ----------------------------------------------------------------------------------------------- in keyed state

    def create_accumulator(self) -> tuple[Any, ...]:
        """Return the partial results of no record."""
        return tuple(0 if part == "count" else None for _, part in self.parts)

    def add(self, value: tuple[Any, ...], accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        """Add a row of `rows`."""
        return self.merge(accumulator, value[1:])

    def merge(self, acc_a: tuple[Any, ...], acc_b: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the partial results of both."""
        try:
            return tuple(
                [
                    merge(held, more)
                    if type(held) is type(more) and held is not None
                    else _brought_together(merge, held, more)
                    for merge, held, more in zip(self._merge, acc_a, acc_b, strict=True)
                ]
            )
        except (MisfitError, TypeError) as error:  # of a time with a zone and one without it is a TypeError
            raise self._unlike(acc_a, acc_b) from error

    def _unlike(self, acc_a: tuple[Any, ...], acc_b: tuple[Any, ...]) -> BatchColumnsError:
        """Return the error that names the first column whose values of two batches have no type in common."""
        for (column, function), held, more in zip(self.parts, acc_a, acc_b, strict=True):
            try:
                in_one_column(held, more)
            except MisfitError as error:
                told = f"{short_repr(held)} ({type(held).__name__}) and {short_repr(more)} ({type(more).__name__})"
                reason = f"the {function} of {column!r} brings {told} together, which have no type in common"
                return BatchColumnsError((self.key, column), f"{reason} ({error.reason}); cast the column to one")
        return BatchColumnsError((self.key,), f"its partial results {acc_a!r:.200} and {acc_b!r:.200} are unlike")

    def get_result(self, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the aggregates."""
        if self._is_as_held:
            return accumulator
        return tuple(
            [
                accumulator[places[0]] if function != "mean" else _mean(*[accumulator[place] for place in places])
                for function, places in self.places
            ]
        )

    def results(
        self, keys: list[Any], results: Sequence[Sequence[Any]], schema: Any, more: Mapping[str, Any]
    ) -> Iterator[tuple[int, int, Any]]:
        """Yield (start, stop, Arrow batch) of runs of keys and their results, each of as many as columns hold together.

        Args:
            keys: The keys.
            results: The values of each aggregate, as `get_result` has made them for the keys.
            schema: The schema of a table of partial results, which says what types the columns have.
            more: Columns to put behind the keys, by name.

        Raises:
            BatchColumnsError: A sum has no place in 64 bits.
        """
        import pyarrow as pa

        columns = {self.key: partial(_column, self.key, keys, schema.field(KEY).type)}
        columns |= {name: column.__getitem__ for name, column in more.items()}
        for place, values in enumerate(results):
            function, parts = self.places[place]
            kind: Any = pa.float64() if function == "mean" else _narrow(schema.field(str(parts[0])).type)
            make = _sums if function == "sum" else _column
            columns[self.names[place]] = partial(make, self.names[place], values, kind)

        def batch(rows: range) -> Any:
            arrays = [column(slice(rows.start, rows.stop)) for column in columns.values()]
            return cast("Any", pa.RecordBatch).from_arrays(arrays, names=list(columns))

        try:
            yield from runs(range(len(keys)), batch)
        except MisfitError as error:
            reason = f"of the key {short_repr(keys[error.place])} {error.reason}"
            raise BatchColumnsError((error.column,), reason) from error


def _narrow(kind: Any) -> Any:
    """Return the type of the result of a sum, as it is where the sum was not computed in a wider type."""
    import pyarrow as pa

    if kind in _big_numbers().values():
        return pa.int64() if kind == _big_numbers()[True] else pa.uint64()
    return pa.decimal128(_DIGITS, kind.scale) if pa.types.is_decimal256(kind) and kind.scale <= _DIGITS else kind


def _column(name: str, values: Sequence[Any], kind: Any, rows: slice) -> Any:
    """Return some values as a column of a type, or of their own where earlier ones were of another type."""
    try:
        return array_as(list(values[rows]), kind)
    except MisfitError as error:
        reason = f"the values of {name!r} have no place in a column of {kind} ({error})"
        raise MisfitError(error.place, reason, name) from error


def _sums(name: str, values: Sequence[Any], kind: Any, rows: slice) -> Any:
    """Return a column of some sums; one gets no other type by being great."""
    import pyarrow as pa

    found = _column(name, values, kind, rows)
    if kind == pa.int64() and found.type == pa.uint64():
        place, most = next((place, one) for place, one in enumerate(values[rows]) if one is not None and one >= 2**63)
        told = f"the values of {name!r} have no place in a column of {kind} (one is {most})"
        raise MisfitError(place, f"{told}; cast what is summed to a decimal or to floating point", name)
    return found


def _table(columns: dict[str, Any]) -> Any:
    import pyarrow as pa

    return cast("Any", pa.table(columns))


def _big_numbers() -> dict[bool, Any]:
    """Return the types of sums of whole numbers that may have no place in 64 bits: with a sign, and without.

    They are told from those of decimals, which have all digits that there are.
    """
    import pyarrow as pa

    return {True: pa.decimal256(_MOST_DIGITS - 1, 0), False: pa.decimal256(_MOST_DIGITS - 2, 0)}


def _most(column: Any) -> Any:
    """Return a number, of the type of the values, that no sum of a column is further from 0 than."""
    import pyarrow.compute as pc

    extremes: Any = cast("Any", pc).min_max(column).as_py()
    low, high = extremes["min"], extremes["max"]
    if low is None:
        return decimal.Decimal(0)
    return (
        _EXACT.multiply(max(abs(low), abs(high)), len(column))
        if isinstance(low, decimal.Decimal)
        else max(-low, high) * len(column)
    )


def _has_nan(column: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    functions: Any = pc
    return pa.types.is_floating(column.type) and functions.any(functions.is_nan(column)).as_py() is True


def _brought_together(merge: Callable[[Any, Any], Any], held: Any, more: Any) -> Any:
    """Merge partial results of which one may be None, or that are of two types; a type only widens.

    Raises:
        MisfitError: They have no type in common.
    """
    if held is None or more is None:
        return more if held is None else held
    return merge(*in_one_column(held, more))


def _add(held: Any, more: Any) -> Any:
    return _EXACT.add(held, more) if type(held) is type(more) is decimal.Decimal else held + more


def _least(held: Any, more: Any) -> Any:
    return more if more < held or held != held else held  # noqa: PLR0124 - only NaN differs from itself


def _greatest(held: Any, more: Any) -> Any:
    return more if more > held or more != more else held  # noqa: PLR0124


def _mean(total: Any, count: int) -> float | None:
    return float(total / count) if count else None


_MERGES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "sum": _add,
    "min": _least,
    "max": _greatest,
    "count": _add,
}
