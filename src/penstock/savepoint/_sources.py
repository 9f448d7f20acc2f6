"""The sources of a written state's content: mappings, pairs, entries, or the rows of a data frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pyarrow as pa

from penstock._engine.savepoints.draft import detached
from penstock._engine.state.declared import bare
from penstock._engine.state.kinds.registry import has_sub_keys
from penstock._engine.state.table import MISSING
from penstock.errors import SavepointChangeError, UnsupportedOperationError
from penstock.savepoint._plain import PYTHON, is_array, restored
from penstock.savepoint.entries import BroadcastEntry, KeyedEntry, ListItem, MapEntry, TimerEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._api.time_domain import TimeDomain
    from penstock._engine.state.files.trust import AllowedClasses

_ARRAYS: Final = (
    "it has arrays of NumPy's, which may have been lists before Arrow made a pandas frame of them. Take the frame from "
    "to_pandas(), or the table itself; or give the type (type_info), or a function of a row that returns the value as "
    "the job has it, such as lambda row: row['value'].tolist()"
)
_MISSING: Final = (
    "it has floats of which some are no numbers: pandas makes such a column of ints where one is missing. Take the "
    "frame from to_pandas(), or the table itself; or give the type (type_info), or a function of a row that returns "
    "the value as the job has it"
)

#: Kinds of state whose values are lists.
_LISTS: Final = frozenset({"list", "window-elements"})
#: Floats represent all ints up to this one exactly.
_EXACT_FLOATS: Final = 1 << 53

#: A column, several columns for a tuple, or a function of a row, which is a dict by column.
Selector: TypeAlias = str | Sequence[str] | Callable[[dict[str, Any]], Any]


class FrameRow(dict[str, Any]):
    """A row of a data frame by column, in Python values."""


@dataclass(frozen=True, slots=True)
class Unsure:
    """A cell of a pandas frame whose original value is uncertain, because Arrow or pandas may have changed it."""

    value: Any
    reason: str

    @classmethod
    def about(cls, value: Any) -> Any:
        """Return a cell, marked as unsure if it contains an array of NumPy."""
        return cls(value, _ARRAYS) if _has_array(value) else value


class StateContent:
    """The given content of a state, which each write iterates again.

    Args:
        given: A mapping, a data frame, or an iterable of items or of Arrow batches.
        title: Its purpose, for errors.
        classes: The classes that a data frame may name, beside plain types.
    """

    def __init__(self, given: Any, title: str, classes: AllowedClasses) -> None:
        self._given: Any = given
        self.title = title
        self.classes = classes
        self._last: Any = None
        self._gave_some = False

    def __iter__(self) -> Iterator[Any]:
        """Iterate the pairs of a mapping, the rows of a data frame, or the items.

        Raises:
            SavepointChangeError: It was an iterator, and has been read before.
        """
        given = self._given
        if isinstance(given, Mapping):
            return iter(cast("Mapping[Any, Any]", given).items())
        rows = _rows(given, self.classes)
        return self._items() if rows is None else rows

    def _items(self) -> Iterator[Any]:
        items = iter(self._given)
        if items is self._last:  # an iterator, or an object that returns the same one each time
            raise self._spent()
        self._last = items
        is_empty = True
        for item in items:
            is_empty, self._gave_some = False, True
            if isinstance(item, pa.RecordBatch):
                yield from _rows_of_batch(item, self.classes)
            else:
                yield item
        if is_empty and self._gave_some:
            raise self._spent()

    def _spent(self) -> SavepointChangeError:
        reason = (
            f"{self.title} was given as an iterator, which an earlier write has read. Set it once more, or give what "
            "can be read again: a list, a dict, a data frame, or the rows of a savepoint"
        )
        return SavepointChangeError("to be written", reason)


def keyed_entries(
    content: StateContent, key: Selector, value: Selector, kind: str = "value"
) -> Iterator[tuple[Any, tuple[int, ...], Any, Any]]:
    """Iterate (key, window, map key or MISSING, value) of the given content of a keyed state.

    Args:
        content: Pairs of key and value, KeyedEntry, or rows.
        key: The key of a row.
        value: The value of a row.
        kind: The kind of the state, perhaps with the type of its values. For a map, an item is one entry of a key's
            map, or the whole map.

    Raises:
        TypeError: An item is none of these.
        UnsupportedOperationError: A row has a key or value that does not say what it was.
    """
    is_map = has_sub_keys(bare(kind))
    for item in content:
        if isinstance(item, MapEntry):
            found = item.key, item.window, item.map_key, item.value
        elif isinstance(item, KeyedEntry):
            found = item.key, item.window, MISSING, item.value
        elif isinstance(item, FrameRow):
            map_key = _key(item, "map_key", content.title) if is_map and "map_key" in item else MISSING
            held = _picked(_typed(item, value, kind, content.classes), value)
            found = _key(item, key, content.title), _window(item), map_key, held
        else:
            name, held = _pair(item, "pairs of key and value, KeyedEntry")
            found = name, (), MISSING, held
        if is_map and found[2] is MISSING:
            yield from _entries_of_map(found[0], found[1], found[3], content.title)
        else:
            yield found


def _entries_of_map(
    key: Any, window: tuple[int, ...], held: Any, title: str
) -> Iterator[tuple[Any, tuple[int, ...], Any, Any]]:
    if not isinstance(held, Mapping):
        msg = f"Entries of {title}, a map, are MapEntry or pairs of a key and a mapping, not {held!r} of {key!r}."
        raise TypeError(msg)
    for map_key, value in cast("Mapping[Any, Any]", held).items():
        yield key, window, map_key, value


def timer_entries(content: StateContent, domain: TimeDomain) -> Iterator[tuple[Any, int, tuple[int, ...]]]:
    """Iterate (key, time, window) of the given timers: pairs of key and time, TimerEntry, or rows.

    Raises:
        TypeError: An item is none of these.
        SavepointChangeError: A timer is of another clock.
        UnsupportedOperationError: A row has a key that does not say what it was.
    """
    for item in content:
        if isinstance(item, TimerEntry):
            if item.domain is not domain:
                reason = f"{content.title} has timers of the other clock; set those with domain={item.domain}"
                raise SavepointChangeError("to be written", reason)
            yield item.key, item.timestamp, item.window
        elif isinstance(item, FrameRow):
            yield _key(item, "key", content.title), int(item["timestamp"]), _window(item)
        else:
            name, timestamp = _pair(item, "pairs of key and time, TimerEntry")
            yield name, timestamp, ()


def list_items(content: StateContent, value: Selector) -> list[tuple[int | None, Any]]:
    """Return (former subtask or None, item) of the given content of an operator list."""
    found: list[tuple[int | None, Any]] = []
    for item in content:
        if isinstance(item, ListItem):
            found.append((item.subtask, detached(item.value)))
        elif isinstance(item, FrameRow):
            subtask = item.get("subtask")
            found.append((None if subtask is None else int(subtask), _picked(item, value)))
        else:
            found.append((None, detached(item)))
    return found


def broadcast_entries(content: StateContent, key: Selector, value: Selector) -> dict[Any, Any]:
    """Return the given content of a broadcast state: pairs of key and value, BroadcastEntry, or rows.

    Raises:
        TypeError: An item is none of these.
        UnsupportedOperationError: A row has a key that does not say what it was.
    """
    found: dict[Any, Any] = {}
    for item in content:
        if isinstance(item, BroadcastEntry):
            found[item.key] = detached(item.value)
        elif isinstance(item, FrameRow):
            found[_key(item, key, content.title)] = _picked(item, value)
        else:
            name, held = _pair(item, "pairs of key and value, BroadcastEntry")
            found[name] = detached(held)
    return found


def _pair(item: Any, wanted: str) -> tuple[Any, Any]:
    if isinstance(item, tuple) and len(cast("tuple[Any, ...]", item)) == 2:
        return cast("tuple[Any, Any]", item)
    msg = f"Entries are {wanted} or Arrow batches, not {item!r}."
    raise TypeError(msg)


# -------------------------------------------------------------------------------------------------------- data frames


def _rows(source: Any, classes: AllowedClasses) -> Iterator[FrameRow] | None:
    """Iterate the rows of a data frame that can be read again; None for any other content."""
    if isinstance(source, pa.RecordBatch):
        return _rows_of_batch(source, classes)
    if isinstance(source, pa.Table):
        return (row for batch in source.to_batches() for row in _rows_of_batch(batch, classes))
    if hasattr(source, "toLocalIterator"):  # Spark, which only the engine imports
        return (_row(row.asDict(recursive=True), classes) for row in source.toLocalIterator())
    if type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
        return _rows_of_pandas(source, classes)
    return None


def _rows_of_batch(batch: Any, classes: AllowedClasses) -> Iterator[FrameRow]:
    return (_row(cells, classes) for cells in batch.to_pylist())


def _rows_of_pandas(frame: Any, classes: AllowedClasses) -> Iterator[FrameRow]:
    names = [str(name) for name in frame.columns]
    columns = [_pythons_own(frame.iloc[:, place]) for place in range(len(names))]
    return (
        FrameRow((name, _unsure_or_restored(cell, classes)) for name, cell in zip(names, row, strict=True))
        for row in zip(*columns, strict=True)
    )


def _unsure_or_restored(cell: Any, classes: AllowedClasses) -> Any:
    cell = Unsure.about(_without_arrays_in_structs(cell))
    return cell if isinstance(cell, Unsure) else restored(cell, classes)


def _without_arrays_in_structs(value: Any) -> Any:
    """Make lists of arrays inside structs with a Python type; a real array has a struct of its own."""
    if type(value) is list:
        return [_without_arrays_in_structs(item) for item in cast("list[Any]", value)]
    if type(value) is not dict:
        return value
    parts = cast("dict[Any, Any]", value)
    convert = _as_lists if PYTHON in parts else _without_arrays_in_structs
    return {name: convert(part) for name, part in parts.items()}


def _as_lists(value: Any) -> Any:
    """Make lists of all arrays.

    Raises:
        UnsupportedOperationError: An array contains NaN, which may have been None among ints.
    """
    if is_array(value):
        if value.dtype.kind == "f" and (value != value).any():  # noqa: PLR0124 - nan
            raise UnsupportedOperationError("A data frame as state", _MISSING)
        return [_as_lists(item) for item in value.tolist()]
    if type(value) is list:
        return [_as_lists(item) for item in cast("list[Any]", value)]
    if type(value) is dict:
        return {name: _as_lists(part) for name, part in cast("dict[Any, Any]", value).items()}
    return value


def _has_array(value: Any) -> bool:
    if type(value) is list:
        return any(map(_has_array, cast("list[Any]", value)))
    if type(value) is dict:
        return any(map(_has_array, cast("dict[Any, Any]", value).values()))
    return is_array(value)


def _pythons_own(column: Any) -> list[Any]:
    """Return the values of a pandas column as Python's numbers and timestamps; missing values are None."""
    values: list[Any] = column.tolist()
    if column.dtype.kind == "f" and not hasattr(column.dtype, "na_value") and column.isna().any():
        return [Unsure(value, _MISSING) for value in values]
    if column.dtype.kind in "iufbO" and not hasattr(column.dtype, "na_value"):
        return values
    missing = column.isna().tolist()
    return [None if gone else _plain_moment(value) for value, gone in zip(values, missing, strict=True)]


def _plain_moment(value: Any) -> Any:
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        return value  # Python has no nanoseconds
    for convert in ("to_pydatetime", "to_pytimedelta"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    return value


def _row(cells: dict[str, Any], classes: AllowedClasses) -> FrameRow:
    return FrameRow((name, restored(cell, classes)) for name, cell in cells.items())


def _window(row: FrameRow) -> tuple[int, ...]:
    start, end = row.get("window_start"), row.get("window_end")
    return () if start is None or end is None else (int(start), int(end))


def _key(row: FrameRow, selector: Selector, title: str) -> Any:
    key: Any = _picked(row, selector)
    if isinstance(key, (dict, list)) and not callable(selector):
        reason = (
            f"column {selector!r} has {'structs' if isinstance(key, dict) else 'lists'}, and could be any of several "
            "keys: give the function of a row that returns the key as the job has it (key=…)"
        )
        raise UnsupportedOperationError(f"A data frame as {title}", reason)
    return cast("Any", key)


def _picked(row: FrameRow, selector: Selector) -> Any:
    if callable(selector):
        return selector({name: cell.value if isinstance(cell, Unsure) else cell for name, cell in row.items()})
    if isinstance(selector, str):
        return _sure(selector, row[selector])
    return tuple(_sure(name, row[name]) for name in selector)


def _typed(row: FrameRow, selector: Selector, kind: str, classes: AllowedClasses) -> FrameRow:
    """Return a row whose value has the type that the kind of the state declares."""
    cell = row.get(selector) if isinstance(selector, str) else None
    if not isinstance(cell, Unsure):
        return row
    head, _, held = kind.partition("[")
    value = cell.value
    if cell.reason is _ARRAYS and (head in _LISTS or held.startswith(("list", "dict", "Row", "tuple"))):
        value = restored(_as_lists(value), classes)
    elif cell.reason is _MISSING and held.startswith("int"):
        value = None if value != value else int(value)  # noqa: PLR0124 - nan
        if value is not None and abs(value) > _EXACT_FLOATS:
            return row
    elif not (cell.reason is _MISSING and held.startswith("float")):
        return row
    return FrameRow({**row, str(selector): value})


def _sure(column: str, cell: Any) -> Any:
    if isinstance(cell, Unsure):
        raise UnsupportedOperationError("A data frame as state", f"column {column!r}: {cell.reason}")
    return cell
