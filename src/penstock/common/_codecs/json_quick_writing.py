"""Writes blocks of records that msgspec writes as `json_writing` does.

Rows are checked by the compiled function of their type, and other values level by level, in C; they are written in C.
Anything else is left to `json_writing`, which a block function says by None, or by raising what that raises.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from penstock.common._conversion.exact import quick_check
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    Types,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.common.typeinfo import TypeInformation

#: Single values that msgspec writes as they are. BIG_INT may be beyond what it writes, which it refuses.
_PLAIN: Final = (
    *(Types.BOOLEAN(), Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT()),
    *(Types.STRING(), Types.CHAR()),
)
_LISTS: Final = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo, PrimitiveArrayTypeInfo)
_CONTAINERS: Final = frozenset({dict, list})
_TEXTS: Final = frozenset({str})
_OF_JSON: Final = _CONTAINERS | {str, int, bool, float, type(None)}
#: Values within values: deeper ones are left to `json_writing`, and so is what contains itself.
_MOST_LEVELS: Final = 8
_values_of: Final = cast("Any", dict).values
_encode_lines: Final = msgspec.json.Encoder().encode_lines
#: What msgspec also writes in place of a number that is not finite.
_NULL: Final = b"null"


def quick_writer(
    type_info: TypeInformation, write: Callable[[Any], bytes]
) -> Callable[[list[Any]], list[bytes] | None]:
    """Return a function that writes a block of rows of a type.

    Args:
        type_info: The type.
        write: Writes one row, whatever its form.
    """
    types = type_info.get_field_types() if isinstance(type_info, RowTypeInfo) else []
    if not isinstance(type_info, RowTypeInfo) or not types or not all(map(_is_plain, types)):
        return lambda rows: None
    own = [f"f{at}" for at in range(len(types))]
    try:
        rename = dict(zip(own, type_info.get_field_names(), strict=True))
        make: Any = msgspec.defstruct("Row", own, rename=rename, gc=False)
    except ValueError:  # msgspec has no fields with quotes, backslashes or control characters in their names
        return lambda rows: None
    holds, has_doubles = quick_check(type_info), Types.DOUBLE() in types

    def written(rows: list[Any]) -> list[bytes] | None:
        if holds(rows) is None:
            return None
        values = [make(*row._values) for row in rows]  # pyright: ignore[reportPrivateUsage]
        return _messages(rows, values, write if has_doubles else None)

    return written


def quick_values(values: list[Any], write: Callable[[Any], bytes]) -> list[bytes] | None:
    """Write a block of values without a type: those that consist of dicts, lists and what JSON has.

    Args:
        values: The values.
        write: Writes one value, whatever its form.
    """
    found = _kinds_in(values, _MOST_LEVELS)
    if not found <= _OF_JSON:
        return None
    return _messages(values, values, write if float in found else None)


def _kinds_in(values: Sequence[Any], levels: int) -> set[type]:
    """Return the classes of values and of what is in them; anything that is not of JSON stops the search."""
    kinds = set(map(type, values))
    if not kinds & _CONTAINERS or not kinds <= _OF_JSON:
        return kinds
    if not levels:
        return {object}
    inner: list[Sequence[Any]] = []
    if list in kinds:
        inner.append(list(chain.from_iterable(_of_kind(list, values, kinds))))
    if dict in kinds:
        dicts = _of_kind(dict, values, kinds)
        if set(map(type, chain.from_iterable(dicts))) - _TEXTS:
            return {object}
        try:  # mostly they have the same fields, of which few contain others
            inner += zip(*map(_values_of, dicts), strict=True)
        except ValueError:
            inner.append(list(chain.from_iterable(map(_values_of, dicts))))
    return kinds.union(*(_kinds_in(part, levels - 1) for part in inner))


def _of_kind(kind: type[Any], values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
    """Return the values of a class, where the values are of some classes."""
    if kind not in kinds:
        return []
    return values if len(kinds) == 1 else [value for value in values if type(value) is kind]


def _messages(records: list[Any], values: list[Any], write: Callable[[Any], bytes] | None) -> list[bytes]:
    """Write values as lines, all at once: no text of JSON has a line feed in it.

    Args:
        records: What is written.
        values: The same, as msgspec takes it.
        write: Writes one record; it gets those that may have a number that is not finite. None where there is none.
    """
    lines = _encode_lines(values)
    messages = lines.split(b"\n")
    messages.pop()
    if write is None or _NULL not in lines:
        return messages
    return [write(record) if _NULL in one else one for record, one in zip(records, messages, strict=True)]


def _is_plain(type_info: TypeInformation) -> bool:
    if type_info in _PLAIN or type_info == Types.DOUBLE():
        return True
    return isinstance(type_info, _LISTS) and type_info.elem_type in _PLAIN and type_info != _BYTES


_BYTES: Final = Types.PRIMITIVE_ARRAY(Types.BYTE())
