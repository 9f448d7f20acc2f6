"""The type of rows that a JSON schema describes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.common.typeinfo import RowTypeInfo, Types

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

_SINGLE: Final[dict[str, Callable[[], TypeInformation]]] = {
    "boolean": Types.BOOLEAN,
    "integer": Types.BIG_INT,
    "number": Types.BIG_DEC,
}
_FORMATS: Final[dict[str, Callable[[], TypeInformation]]] = {
    "date": Types.SQL_DATE,
    "time": Types.SQL_TIME,
    "date-time": Types.SQL_TIMESTAMP,
}


def type_of_json_schema(text: str) -> RowTypeInfo:
    """Return the type of rows that a JSON schema describes; its root is an object.

    Raises:
        ValueError: It is no JSON, or describes no type of rows.

    Example:
        >>> type_of_json_schema('{"type": "object", "properties": {"id": {"type": "integer"}}}')
        RowTypeInfo(id: BigInteger)
    """
    root = json.loads(text)
    found = _Schema(root).type_of(root, "#")
    if not isinstance(found, RowTypeInfo):
        raise ValueError(f"The JSON schema describes {found}, and a row is an object with properties.")  # noqa: TRY004
    return found


def _is_null(part: Any) -> bool:
    return isinstance(part, dict) and cast("dict[str, Any]", part).get("type") == "null"


class _Schema:
    """A JSON schema, whose parts may refer to each other."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._open: list[str] = []

    def type_of(self, node: Any, place: str) -> TypeInformation:
        """Return the type of a part."""
        if not isinstance(node, dict):
            raise ValueError(f"{place} of the JSON schema is no object.")  # noqa: TRY004 - of the text
        part = cast("dict[str, Any]", node)
        if "$ref" in part:
            return self._referred(str(part["$ref"]), place)
        if "oneOf" in part:
            return self._one_of(part["oneOf"], f"{place}/oneOf")
        kind = part.get("type")
        if isinstance(kind, list):
            return self._one_of([{**part, "type": one} for one in cast("list[Any]", kind)], place)
        return self._of_kind(kind, part, place)

    def _of_kind(self, kind: Any, part: dict[str, Any], place: str) -> TypeInformation:
        if kind == "object":
            properties = cast("dict[str, Any]", part.get("properties", {}))
            types = [self.type_of(one, f"{place}/{name}") for name, one in properties.items()]
            return Types.ROW_NAMED(list(properties), types)
        if kind == "array":
            return self._array(part.get("items"), place)
        if kind == "string":
            if part.get("contentEncoding") == "base64":
                return Types.PRIMITIVE_ARRAY(Types.BYTE())
            return _FORMATS.get(str(part.get("format")), Types.STRING)()
        if kind in _SINGLE:
            return _SINGLE[kind]()
        raise ValueError(f"{place} of the JSON schema has the type {kind!r}, which fields cannot have.")

    def _array(self, items: Any, place: str) -> TypeInformation:
        if isinstance(items, list):
            parts = enumerate(cast("list[Any]", items))
            return Types.ROW([self.type_of(one, f"{place}/items/{index}") for index, one in parts])
        return Types.OBJECT_ARRAY(self.type_of(items, f"{place}/items"))

    def _one_of(self, choices: list[Any], place: str) -> TypeInformation:
        """Return the type of several: one, beside null."""
        left: list[Any] = [one for one in choices if not _is_null(one)]
        if len(left) != 1:
            raise ValueError(f"{place} of the JSON schema has {len(left)} types, and a field has one beside null.")
        return self.type_of(left[0], place)

    def _referred(self, reference: str, place: str) -> TypeInformation:
        if not reference.startswith("#/") or reference in self._open:
            raise ValueError(f"{place} of the JSON schema refers to {reference}, which is no other part of it.")
        node = self._root
        for step in reference.removeprefix("#/").split("/"):
            if not isinstance(node, dict) or step not in node:
                raise ValueError(f"{place} of the JSON schema refers to {reference}, which it does not have.")
            node = cast("dict[str, Any]", node)[step]
        self._open.append(reference)
        try:
            return self.type_of(node, reference)
        finally:
            self._open.pop()
