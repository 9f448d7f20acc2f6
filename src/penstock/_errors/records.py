"""Errors about values in records, and about times: they cannot be what they stand for."""

from __future__ import annotations

from penstock._errors.run import JobRunError


class TimestampError(JobRunError, ValueError):
    """A timestamp, a watermark or a timer is not a time as Flink has them.

    Args:
        what: What it was to be, such as ``The timestamp of ('a', 1.5)``.
        value: The value, as text.
    """

    def __init__(self, what: str, value: str) -> None:
        super().__init__(what, value)
        self.what, self.value = what, value

    def __str__(self) -> str:
        return (
            f"{self.what} is {self.value}; it must be a whole number of milliseconds since the epoch, of 64 bits. "
            "Convert it, for instance with int(seconds * 1000)."
        )


class AggregationError(JobRunError, TypeError):
    """The records of a key have fields that cannot be added up, or compared.

    Args:
        call: The aggregation, such as ``min``.
        field: The field, as text.
        values: The two values, as text.
    """

    def __init__(self, call: str, field: str, values: tuple[str, str]) -> None:
        super().__init__(call, field, values)
        self.call, self.field, self.values = call, field, values

    def __str__(self) -> str:
        first, second = self.values
        return (
            f"{self.call}({self.field}) cannot take {first} and {second} together: None has no place among other "
            "values, nor have values of types that Python does not compare, or add. Filter such records out, or map "
            "the field to a value of one type."
        )
