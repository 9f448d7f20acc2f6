"""Where the entries of a written state come from: mappings, pairs, entries, or the rows of any data frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

from penstock.state.entries import KeyedEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A column, several for a tuple of them, or a function of a row, which is a dict by column.
Selector: TypeAlias = str | Sequence[str] | Callable[[dict[str, Any]], Any]


def entries_of(source: Any, key: Selector, value: Selector) -> Iterator[tuple[Any, tuple[int, ...], Any]]:
    """Iterate (key, window, value) of what was given as the content of a keyed state.

    Args:
        source: A mapping, an iterable of pairs or of KeyedEntry, or a pandas, Arrow or Spark data frame.
        key: The key of a data frame's row.
        value: The value of a data frame's row.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(source, Mapping):
        for pair in cast("Mapping[Any, Any]", source).items():
            yield pair[0], (), pair[1]
        return
    rows = _rows(source)
    if rows is not None:
        for row in rows:
            yield _picked(row, key, is_key=True), _window(row), _picked(row, value, is_key=False)
        return
    for item in cast("Iterable[Any]", source):
        if isinstance(item, KeyedEntry):
            yield item.key, item.window, item.value
        elif isinstance(item, pa.RecordBatch):
            for row in item.to_pylist():
                yield _picked(row, key, is_key=True), _window(row), _picked(row, value, is_key=False)
        elif isinstance(item, tuple) and len(cast("tuple[Any, ...]", item)) == 2:
            yield item[0], (), item[1]
        else:
            msg = f"Entries are pairs of key and value, KeyedEntry or Arrow batches, not {item!r}."
            raise TypeError(msg)


def _rows(source: Any) -> Iterator[dict[str, Any]] | None:
    """Iterate the rows of a data frame; None for what is none."""
    if isinstance(source, pa.RecordBatch):
        return iter(source.to_pylist())
    if isinstance(source, (pa.Table, pa.RecordBatchReader)):
        batches = source.to_batches() if isinstance(source, pa.Table) else source
        return (row for batch in batches for row in batch.to_pylist())
    if hasattr(source, "toLocalIterator"):  # Spark, which only the engine imports
        return (row.asDict(recursive=True) for row in source.toLocalIterator())
    if type(source).__module__.partition(".")[0] == "pandas":
        names = [str(name) for name in source.columns]
        columns = [source[name].tolist() for name in source.columns]  # as Python's own numbers
        return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    return None


def _window(row: dict[str, Any]) -> tuple[int, ...]:
    start, end = row.get("window_start"), row.get("window_end")
    return () if start is None or end is None else (int(start), int(end))


def _picked(row: dict[str, Any], selector: Selector, *, is_key: bool) -> Any:
    if callable(selector):
        return selector(row)
    if not isinstance(selector, str):
        return tuple(row[name] for name in selector)
    value = row[selector]
    if is_key and isinstance(value, dict):  # a tuple, as `StateRows` gives it to data frames
        return tuple(cast("dict[str, Any]", value).values())
    return value
