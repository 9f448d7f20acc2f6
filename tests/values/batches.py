"""Paths whose stores are dear to open: one table for all values of a type, each written by itself, all read at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from tests.values.table import LostError, NotAskedError, Outcome, UntypedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.values.values import Value

#: The column by which records are found again.
NUMBER = "n"


class Store(Protocol):
    """A table of one type."""

    def write(self, records: list[dict[str, Any]]) -> None:
        """Write the records of one value, or raise."""

    def read(self) -> list[dict[str, Any]]:
        """Return all records that were written; called once, at the end."""

    def close(self) -> None:
        """Let go of all."""


def batched(
    type_of: Callable[[Value], Any], opened: Callable[[Any], Store]
) -> Callable[[Sequence[Value]], Iterable[Outcome]]:
    """Make a path's ``run``.

    Args:
        type_of: Returns the type of a value's column; raises NotAskedError.
        opened: Makes a table with a column of a type, beside one of numbers.
    """

    def run(values: Sequence[Value]) -> Iterable[Outcome]:
        outcomes: dict[Value, Outcome] = {}
        groups: dict[str, list[Value]] = {}
        types: dict[str, Any] = {}
        for value in values:
            try:
                kind = type_of(value)
            except NotAskedError as error:
                outcomes[value] = error
                continue
            except Exception as error:  # noqa: BLE001 - it is judged
                outcomes[value] = _untyped(error)
                continue
            types[str(kind)] = kind
            groups.setdefault(str(kind), []).append(value)
        for name, group in groups.items():
            outcomes |= _of_group(opened, types[name], group)
        return [outcomes[value] for value in values]

    return run


def _untyped(error: Exception) -> UntypedError:
    untyped = UntypedError(str(error))
    untyped.__cause__ = error
    return untyped


def _of_group(opened: Callable[[Any], Store], kind: Any, group: list[Value]) -> dict[Value, Outcome]:
    try:
        store = opened(kind)
    except Exception as error:  # noqa: BLE001 - it is judged
        return dict.fromkeys(group, _untyped(error))
    outcomes: dict[Value, Outcome] = {}
    numbers: dict[int, Value] = {}
    for value in group:
        own = {len(numbers) + place: value for place in range(len(value.records))}
        try:
            store.write([{NUMBER: number, **record} for number, record in zip(own, value.records, strict=True)])
        except Exception as error:  # noqa: BLE001 - it is judged
            outcomes[value] = error
        else:
            numbers |= own
            outcomes[value] = []
    try:
        for record in sorted(store.read(), key=lambda record: record[NUMBER]):
            number = record.pop(NUMBER)
            back = outcomes[numbers[number]]
            assert isinstance(back, list)
            back.append(record)
    except Exception as error:  # noqa: BLE001 - it is judged
        lost = LostError(str(error))
        lost.__cause__ = error
        outcomes |= dict.fromkeys(numbers.values(), lost)
    store.close()
    return outcomes
