"""Finds what a reader's Avro schema does not accept of a writer's, for errors: the decoder does not say which field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common._codecs.avro_schema import kind_of, logical_of

if TYPE_CHECKING:
    from penstock.common._codecs.avro_schema import AvroSchema

#: The types that a reader may have in place of a writer's.
_PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def mismatch(writer: AvroSchema, reader: AvroSchema) -> str | None:
    """Return where two schemas do not match, with both types; None if they do, or if it depends on the values.

    Args:
        writer: The schema by which values were written.
        reader: The schema by which they are to be read.

    Example:
        >>> from penstock.common._codecs.avro_schema import AvroSchema
        >>> record = lambda kind: AvroSchema({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]})
        >>> mismatch(record("string"), record(["null", "int"]))
        'its field a is of type string, and the schema has null or int'
        >>> mismatch(record("int"), record("long")) is None
        True
    """
    return _Match(writer, reader).differ(writer.parsed, reader.parsed, "")


class _Match:
    """The comparison of two schemas."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema) -> None:
        self._writer, self._reader = writer.named, reader.named
        self._compared: set[tuple[str, str]] = set()

    def differ(self, written: Any, wanted: Any, path: str) -> str | None:
        as_written, as_wanted = written, wanted
        (written, kind), (wanted, other) = kind_of(written, self._writer), kind_of(wanted, self._reader)
        if kind == "union":
            found = [self.differ(one, as_wanted, path) for one in written]
            return None if any(one is None for one in found) else found[0]
        if other == "union":
            found = [self.differ(as_written, one, path) for one in wanted]
            within = next((one for one in found if one is None or not one.startswith(_place(path))), "")
            return within if within != "" else _differ(path, _name(written, kind), " or ".join(self._names(wanted)))
        if _family(written, kind) != _family(wanted, other) or (
            kind != other and other not in _PROMOTIONS.get(kind, ())
        ):
            return _differ(path, _name(written, kind), _name(wanted, other))
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            return self.differ(written[key], wanted[key], f"{path}[]")
        is_named = kind == other and kind in ("record", "enum", "fixed")
        return self._named(written, wanted, kind, path) if is_named else None

    def _named(self, written: Any, wanted: Any, kind: str, path: str) -> str | None:
        names = (written["name"], wanted["name"])
        aliases = (*wanted.get("aliases", ()), names[1])
        if names[0] not in aliases and _short(names[0]) not in map(_short, aliases):
            return _differ(path, f"{kind} {names[0]}", f"{kind} {names[1]}")
        if kind == "fixed" and written["size"] != wanted["size"]:
            return _differ(path, f"fixed of {written['size']} bytes", f"fixed of {wanted['size']} bytes")
        if kind != "record" or names in self._compared:
            return None
        self._compared.add(names)
        given = {one["name"]: one for one in written["fields"]}
        for field in wanted["fields"]:
            step = f"{path}.{field['name']}"
            own = next((given[name] for name in (field["name"], *field.get("aliases", ())) if name in given), None)
            if own is None and "default" not in field:
                kind_wanted = kind_of(field["type"], self._reader)
                return f"it has no field {step[1:]}, which the schema has as {_name(*kind_wanted)} without a default"
            found = None if own is None else self.differ(own["type"], field["type"], step)
            if found is not None:
                return found
        return None

    def _names(self, union: list[Any]) -> list[str]:
        return [_name(*kind_of(one, self._reader)) for one in union]


def _name(node: Any, kind: str) -> str:
    if kind in ("record", "enum", "fixed"):
        return f"{kind} {node['name']}"
    return (logical_of(node, kind) or kind) if kind != "union" else kind


def _family(node: Any, kind: str) -> str:
    """Return the logical type of a part without its unit: values of one unit are values of the other as well."""
    logical = None if kind == "union" else logical_of(node, kind)
    return "" if logical is None else logical.removesuffix("-millis").removesuffix("-micros")


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _differ(path: str, written: str, wanted: str) -> str:
    return f"{_place(path)} {written}, and the schema has {wanted}"


def _place(path: str) -> str:
    return f"its field {path[1:]} is of type" if path else "its records are of type"
