"""Errors about invalid values in records, and about invalid times."""

from __future__ import annotations

from penstock._errors.root import declared
from penstock._errors.run import JobRunError


@declared
class TimestampError(JobRunError, ValueError):
    """A timestamp, a watermark or a timer is not a time as Flink has them."""

    what: str  #: what it was to be, such as ``The timestamp of ('a', 1.5)``
    value: str  #: the value, as text

    def __str__(self) -> str:
        return (
            f"{self.what} is {self.value}; it must be a whole number of milliseconds since the epoch, of 64 bits. "
            "Convert it, for instance with int(seconds * 1000)."
        )


@declared
class MissingTimestampError(JobRunError, ValueError):
    """A record comes to an operator of event time, and has no timestamp."""

    operator: str  #: the operator
    record: str  #: the record, as text

    def __str__(self) -> str:
        return (
            f"{self.operator!r} goes by event time, and the record {self.record} has no timestamp. Call "
            "assign_timestamps_and_watermarks(...) on the stream before it."
        )


@declared
class AggregationError(JobRunError, TypeError):
    """The records of a key have fields that cannot be added up, or compared."""

    call: str  #: the aggregation, such as ``min``
    field: str  #: the field, as text
    values: tuple[str, str]  #: the two values, as text

    def __str__(self) -> str:
        first, second = self.values
        return (
            f"{self.call}({self.field}) cannot take {first} and {second} together: None has no place among other "
            "values, nor have values of types that Python does not compare, or add. Filter such records out, or map "
            "the field to a value of one type."
        )


@declared
class FieldError(JobRunError, LookupError, TypeError):
    """A record does not have the field that the program names, or is of another kind than the others."""

    call: str  #: what uses the field, such as ``key_by('user')`` or ``'SortPartition'``
    field: str  #: the field, as text
    record: str  #: the record, shortened
    reason: str  #: what is wrong with it, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"{self.call} cannot use the field {self.field} of the record {self.record}: {self.reason}. Name a field "
            "that all records have, give them one in a map() before it, or name a function of the record where the "
            "call takes one."
        )


@declared
class SortOrderError(JobRunError, TypeError):
    """A partition cannot be sorted, because two of its values cannot be compared."""

    operator: str  #: the name of the operator
    values: tuple[str, str]  #: the two values, as text
    reason: str  #: what Python says about them

    def __str__(self) -> str:
        first, second = self.values
        return (
            f"{self.operator!r} cannot sort {first} and {second}: {self.reason.removesuffix('.')}. Filter such records "
            "out, or sort by a function that makes values of one type; None and NaN may be among them."
        )


@declared
class FunctionResultError(JobRunError, TypeError):
    """A function, a window assigner, a trigger or an evictor returned something that it cannot return."""

    call: str  #: what returned it, such as ``assign_windows() of Sessions``
    operator: str  #: the name of the operator; empty where the caller adds it
    result: str  #: the result's repr, shortened
    wanted: str  #: what it is to return

    def __str__(self) -> str:
        where = f" in {self.operator!r}" if self.operator else ""
        return f"{self.call}{where} returned {self.result}; it must return {self.wanted}."


@declared
class MessageFormatError(JobRunError, ValueError):
    """A message is not what its schema describes, or a record cannot be written as one."""

    message_format: str  #: the format, such as ``JSON``
    message: str  #: the message or the record, shortened
    schema: str  #: the type or the schema
    reason: str  #: what does not fit, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"{self.message} does not fit {self.schema} as {self.message_format}: {self.reason}. Change the schema or "
            "the data; where the schema's builder has it, ignore_parse_errors leaves such messages and fields out."
        )
