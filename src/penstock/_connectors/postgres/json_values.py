"""Values of ``json`` and ``jsonb``: numbers stay exact, and ``null`` is not the missing value."""

from __future__ import annotations

import json
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from penstock._connectors.postgres.unfit import UnfitError, python_scalar
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Sequence


class Json(Enum):
    """The value ``null`` of a ``json`` or ``jsonb`` column, which is another one than no value, None.

    Example:
        >>> Json.NULL
        <Json.NULL: 'null'>
    """

    NULL = "null"


def parse_json(text: str) -> Any:
    try:
        found = json.loads(text, parse_float=_json_number, parse_int=_json_integer, object_pairs_hook=_json_object)
    except RecursionError:
        raise UnfitError("it is nested too deeply") from None
    return Json.NULL if found is None else found


def _json_number(text: str) -> float | Decimal:
    """Return a number as a float if that is the same number, and else as a Decimal."""
    found, exact = float(text), Decimal(text)
    return found if abs(found) != float("inf") and Decimal(repr(found)) == exact else exact


def _json_integer(text: str) -> int | Decimal:
    return int(text) if len(text) < 4000 else Decimal(text)  # longer ones Python does not read


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UnfitError("an object in it has a name twice")
    return found


def write_json(value: Any) -> str:
    if value is Json.NULL:
        return "null"
    try:
        text = json.dumps(value, allow_nan=False)
        if json.loads(text) == value:
            return text
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return _json_text(value)
    except RecursionError:
        raise UnfitError("it is nested too deeply, or contains itself") from None


def _json_text(value: Any) -> str:
    """Return the JSON of what ``json`` does not write, or writes as something else."""
    value = python_scalar(value)
    if isinstance(value, Decimal) and value.is_finite():
        return str(value)
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        if wrong := [key for key in fields if not isinstance(key, str)]:
            raise UnfitError(f"the name {wrong[0]!r:.50} of a field in it is no text")
        return f"{{{', '.join(f'{json.dumps(key)}: {_json_text(one)}' for key, one in fields.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_json_text, cast('Sequence[Any]', value)))}]"
    if not isinstance(value, str | int | float | None):
        raise UnfitError(f"a {type(value).__name__} in it has no form in JSON")
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        raise UnfitError(f"{value!r:.50} in it is no number of JSON") from None


show("penstock.datastream.connectors.postgres", Json)
