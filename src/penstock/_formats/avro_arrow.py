"""Arrow's columns for the fields of an Avro schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._formats.arrow_types import arrow_schema
from penstock.common._codecs.avro_reading import type_of
from penstock.common.typeinfo import RowTypeInfo

if TYPE_CHECKING:
    from penstock.common._codecs.avro_schema import AvroSchema


def arrow_schema_of(schema: AvroSchema) -> Any:
    """Return the columns of a record.

    Raises:
        ValueError: It is no record, or a field has a type that columns do not have.
    """
    row_type = type_of(schema)
    if not isinstance(row_type, RowTypeInfo):
        raise ValueError(f"A file has columns for the fields of a record, and {schema} is none.")  # noqa: TRY004
    return arrow_schema(row_type)
