"""The key selector that names a field of the records."""

from __future__ import annotations

from typing import Any

from penstock._api.functions.basic import KeySelector
from penstock.common.record_fields import missing_field


class FieldKey(KeySelector[Any, Any]):
    """Selects a field of the record as its key; made by ``key_by("name")``.

    Batches of columns are partitioned by the column of that name, without a Python object for each record.

    Args:
        field: The name of the field, in dicts and in Rows with names.

    Example:
        >>> from penstock.common.types import Row
        >>> FieldKey("user").get_key({"user": "ada"}), FieldKey("user").get_key(Row(user="ada"))
        ('ada', 'ada')
    """

    def __init__(self, field: str) -> None:
        self.field = field

    def get_key(self, value: Any) -> Any:
        """Return the field.

        Raises:
            FieldError: The record does not have it.
        """
        try:
            return value[self.field]
        except (LookupError, TypeError, ValueError, AttributeError):
            raise missing_field(f"key_by({self.field!r})", self.field, value) from None
