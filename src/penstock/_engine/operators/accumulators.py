"""The accumulators of one operator subtask: functions add to them, and each epoch's ack takes their values.

Between two epochs all accumulators are empty, so an ack holds the additions of its own epoch. The additions of a void
epoch are dropped together with the objects that ran it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from penstock._engine.protocol.metadata import LATE_RECORDS, check_accumulators
from penstock._engine.state.files.pickles import dump
from penstock.common.accumulators import Accumulator
from penstock.common.names import checked_name
from penstock.common.user_values import error_line
from penstock.errors import AccumulatorTypeError, UnpicklableAccumulatorError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Mapping

AnyAccumulator: TypeAlias = "Accumulator[Any, Any]"
AccumulatorT = TypeVar("AccumulatorT", bound=Accumulator[Any, Any])


class AccumulatorRegistry:
    """The accumulators of an operator's functions, by name."""

    def __init__(self) -> None:
        self._added: dict[str, AnyAccumulator] = {}

    def add(self, name: str, accumulator: AnyAccumulator) -> None:
        """Register an accumulator of a function, and reset it."""
        if not isinstance(accumulator, Accumulator):  # pyright: ignore[reportUnnecessaryIsInstance] - a user's call
            raise AccumulatorTypeError(name, class_name(accumulator), class_name(Accumulator))
        if name in self._added:
            reason = "the operator has an accumulator of that name; get_accumulator returns it"
            raise UnsupportedOperationError(f"add_accumulator({name!r})", reason)
        _check_name(name)
        accumulator.reset_local()
        self._added[name] = accumulator

    def get(self, name: str) -> AnyAccumulator | None:
        """Return an accumulator, None when there is none of that name."""
        return self._added.get(name)

    def get_or_add(self, name: str, kind: type[AccumulatorT]) -> AccumulatorT:
        """Return an accumulator of a class, a new one when there is none of that name."""
        found = self._added.get(name)
        if found is None:
            _check_name(name)
            found = self._added[name] = kind()
        if type(found) is not kind:
            raise AccumulatorTypeError(name, class_name(found), class_name(kind))
        return found

    def values(self) -> dict[str, Any]:
        """Return the values of the functions' accumulators since they were last emptied."""
        own = {name: accumulator for name, accumulator in self._added.items() if name != LATE_RECORDS}
        return {name: accumulator.get_local_value() for name, accumulator in own.items()}

    def take(self) -> Mapping[str, bytes]:
        """Return all accumulators as pickles, and reset them."""
        taken = {name: _pickled(name, accumulator) for name, accumulator in self._added.items()}
        check_accumulators({name: len(data) for name, data in taken.items()})
        for accumulator in self._added.values():
            accumulator.reset_local()
        return taken

    def clear(self) -> None:
        """Forget all accumulators, because their functions were dropped."""
        self._added.clear()


def _check_name(name: str) -> None:
    checked_name(name, "An accumulator", "its name")


def _pickled(name: str, accumulator: AnyAccumulator) -> bytes:
    try:
        return dump(accumulator)
    except Exception as error:
        raise UnpicklableAccumulatorError(name, error_line(error).rstrip(".")) from error


def class_name(value: object) -> str:
    """Return the name of a class, or of a value's class, with its module."""
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
