"""Streams with declared types: blocks of records as well as single values, such as those of state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.values.paths.json_and_avro import declared_row
from tests.values.same import same
from tests.values.table import Path, each

from penstock.common.conversion import conversion

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.values.values import Value

    from penstock.common.conversion import Conversion
    from penstock.common.typeinfo import TypeInformation


def _declared(value: Value) -> Callable[[list[dict[str, Any]]], list[Any]]:
    rows, fields = _held(declared_row(value)), _held(value.declared)

    def run(records: list[dict[str, Any]]) -> list[Any]:
        found = rows.block(list(records))
        assert same(found, [rows.value(record) for record in records])
        given = [one for record in records for one in record.values()]
        alone = [field for row in found for field in row]
        if len(given) == len(alone):
            assert same(alone, fields.block(list(given)))
            assert same(alone, [fields.value(one) for one in given])
        return found

    return run


def _held(type_info: TypeInformation | None) -> Conversion:
    found = conversion(type_info, "The output of 'Map'")
    assert found is not None
    return found


PATHS = (Path("Declared types", "Records of a stream with a type, and values of state with one.", each(_declared)),)
