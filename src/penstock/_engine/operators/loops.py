"""The loops of map, filter, reduce and aggregate, compiled for the shape of the current records.

Whatever leaves a function is tested, one by one, for whether anything could change it. For most records that is a look
at their type, or at the types of a tuple's fields; a call for each of them would take as long as a function of the
user's does. So the test stands in the loop, written out for tuples of that size, and compares with the types that the
record before had. A record of another shape is left to `own`, which finds out about any record.

Example:
    >>> loops = Loops()
    >>> loops.map(lambda number: (number, [number]), [1, 2])
    [(1, [1]), (2, [2])]
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.state.table import ABSENT
from penstock.common.copies import all_immutable, own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Larger tuples are left to `own`.
_MOST_FIELDS: Final = 8

_MAP: Final = """
def loop(call, records, {kinds}):
    results = []
    for record in records:
        result = call(record)
        results.append(result if {known} else own(result))
    return results
"""

_FILTER: Final = """
def loop(call, records, {kinds}):
    results = []
    for result in records:
        if call(result):
            results.append(result if {known} else own(result))
    return results
"""

_REDUCE: Final = """
def loop(call, records, keys, hot, load, keep_apart, {kinds}):
    results = []
    for key, record in zip(keys, records, strict=True):
        try:
            before = hot[key]
        except KeyError:
            before = load(key)
        result = record if before is ABSENT else call(before, record)
        if {known}:
            hot[key] = result
            results.append(result)
        else:
            results.append(keep_apart(key, result))
    return results
"""

_AGGREGATE: Final = """
def loop(add, records, keys, hot, load, create, {kinds}):
    for key, record in zip(keys, records):
        try:
            before = hot[key]
        except KeyError:
            before = load(key)
        if before is ABSENT:
            before = own(create())
        result = add(record, before)
        hot[key] = result if result is before or {known} else own(result)
    return [hot[key]] if keys else []
"""


@cache
def _compiled(template: str, size: int | None) -> Callable[..., list[Any]]:
    """Return a loop for tuples of that many fields, or for values that are no tuples.

    `kind` is looked up as a name of the function, not of the module: that makes a tenth of the loop.
    """
    if size is None:
        parts, shape = ["result"], ""
    else:
        parts = [f"result[{place}]" for place in range(size)]
        shape = f"kind(result) is tuple and len(result) == {size} and "
    tests = " and ".join(f"kind({part}) is kind_{place}" for place, part in enumerate(parts))
    source = template.format(
        kinds=", ".join(["kind", *(f"kind_{place}" for place in range(len(parts)))]), known=f"({shape}{tests})"
    )
    space: dict[str, Any] = {"own": own, "ABSENT": ABSENT}
    # Below the name of this file its frames count as the library's, which tracebacks leave out.
    exec(compile(source, f"{__file__}/loop", "exec"), space)  # noqa: S102 - the text above, with numbers in it
    return space["loop"]


class Loops:
    """The loops of one operator; they follow the shape of what its function gives."""

    def __init__(self) -> None:
        #: Of the record before: the types of a tuple's fields, or the type of a value that is no tuple.
        self._kinds: tuple[type, ...] = (int,)
        self._size: int | None = None

    def map(self, call: Callable[[Any], Any], records: Iterable[Any]) -> list[Any]:
        """Return what a function gives for each record, as its receiver's own."""
        results = _compiled(_MAP, self._size)(call, records, type, *self._kinds)
        self._follow(results)
        return results

    def filter(self, call: Callable[[Any], Any], records: Iterable[Any]) -> list[Any]:
        """Return the records for which a function is true, as their receiver's own."""
        results = _compiled(_FILTER, self._size)(call, records, type, *self._kinds)
        self._follow(results)
        return results

    def reduce(
        self,
        call: Callable[[Any, Any], Any],
        records: Iterable[Any],
        keys: list[Any],
        state: tuple[dict[Any, Any], Callable[[Any], Any]],
        keep_apart: Callable[[Any, Any], Any],
    ) -> list[Any]:
        """Fold each record into the value of its key, and return the values after each.

        Args:
            call: Folds.
            records: The records.
            keys: Their keys.
            state: The values by key, and what gives the value of a key that is not among them.
            keep_apart: Keeps a value that may be changed as that of a key, and returns what is put out.
        """
        results = _compiled(_REDUCE, self._size)(call, records, keys, *state, keep_apart, type, *self._kinds)
        self._follow(results)
        return results

    def aggregate(
        self,
        add: Callable[[Any, Any], Any],
        records: Iterable[Any],
        keys: list[Any],
        state: tuple[dict[Any, Any], Callable[[Any], Any]],
        create: Callable[[], Any],
    ) -> None:
        """Add each record to the accumulator of its key, which is of no other key; one that grows is not copied.

        Args:
            add: Returns the accumulator with a record.
            records: The records; as many are taken as there are keys.
            keys: Their keys.
            state: The accumulators by key, and what gives that of a key that is not among them.
            create: Makes an accumulator; it may give one object several times.
        """
        self._follow(_compiled(_AGGREGATE, self._size)(add, records, keys, *state, create, type, *self._kinds))

    def _follow(self, results: list[Any]) -> None:
        """Take the shape of the last result for that of the next ones."""
        if not results:
            return
        last = results[-1]
        is_tuple = type(last) is tuple
        fields: Any = last if is_tuple else (last,)  # pyright: ignore[reportUnknownVariableType]
        if not 0 < len(fields) <= _MOST_FIELDS:
            return
        kinds: tuple[type, ...] = tuple(map(type, fields))
        if all_immutable(kinds):
            self._kinds, self._size = kinds, len(fields) if is_tuple else None
