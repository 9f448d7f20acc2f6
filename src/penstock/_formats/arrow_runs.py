"""What becomes of values that no column holds together: runs of those that one holds, and pairs beside each other.

So it does not matter which records come in one batch, or to one subtask: each keeps its values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock._formats.arrow_misfits import MisfitError
from penstock._formats.arrow_types import kind_of, with_parts
from penstock._formats.arrow_values import array_of, arrow_array, families_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def runs(items: Sequence[Any], make: Callable[[Any], Any]) -> Iterator[tuple[int, int, Any]]:
    """Yield (start, stop, what ``make`` makes of them) of runs of items, each of as many as stand in one column.

    Raises:
        MisfitError: One that stands alone fits no column; the place is its own among all items.
    """
    start, size = 0, len(items)
    while start < len(items):
        stop = min(start + size, len(items))
        try:
            found = make(items if stop - start == len(items) else items[start:stop])
        except MisfitError as error:
            if stop - start == 1:
                raise MisfitError(start, error.reason, error.column) from error
            size = error.place or 1
        else:
            yield start, stop, found
            start, size = stop, 2 * size  # where values change often, few are tried in vain


def in_one_column(one: Any, other: Any) -> list[Any]:
    """Return two values as they are beside each other in one column: numbers have one class.

    Raises:
        MisfitError: They have no type in common.
    """
    return array_of([one, other]).to_pylist()


def array_as(values: Sequence[Any], kind: Any) -> Any:
    """Return values as an array of the type of a column that they were or will be beside, or else of their own type.

    Args:
        values: Python's own values.
        kind: The type. It is taken where the values are of its kind and stay as they are.

    Raises:
        MisfitError: They have no type in common.
    """
    import pyarrow as pa

    types: Any = pa.types
    if types.is_nested(kind) and not _has_map(kind):
        found = array_of(values)
        if found.type.equals(kind) or not _is_of(found.type, kind):
            return found
    elif not families_of(values) <= ({"struct"} if types.is_map(kind) else {kind_of(kind)}):
        return array_of(values)
    try:
        found = arrow_array(values, kind)
    except MisfitError:
        return array_of(values)
    if not _has(kind, types.is_float32, types.is_float16):
        return found
    whole = arrow_array(values, _with_doubles(kind))
    return found if found.cast(whole.type).equals(whole) else whole


def _has_map(kind: Any) -> bool:
    """Tell whether a type is of maps, or has some; values alone do not tell them from structs."""
    import pyarrow as pa

    return _has(kind, cast("Any", pa.types).is_map)


def _has(kind: Any, *are_there: Callable[[Any], bool]) -> bool:
    """Tell whether a type, or a part of it, is one of some."""
    parts = (kind.field(place).type for place in range(kind.num_fields))
    return any(is_there(kind) for is_there in are_there) or any(_has(part, *are_there) for part in parts)


def _is_of(found: Any, kind: Any) -> bool:
    """Tell whether values of the type that was found for them are of the same kinds in a column of another type."""
    import pyarrow as pa

    types: Any = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_null(found):
        return True
    if kind_of(found) != kind_of(kind):
        return False
    if types.is_struct(found):
        return all(
            _is_of(part.type, kind.field(part.name).type) for part in found if kind.get_field_index(part.name) >= 0
        )
    return not types.is_nested(found) or _is_of(found.value_type, kind.value_type)


def _with_doubles(kind: Any) -> Any:
    """Return a type with numbers of 64 bits in place of shorter fractions."""
    import pyarrow as pa

    if pa.types.is_floating(kind):
        return pa.float64()
    return with_parts(kind, lambda field: field.with_type(_with_doubles(field.type)))
