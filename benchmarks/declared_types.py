"""What a declared type costs a record: processor time of one process, in the operator that holds records to types.

    python benchmarks/declared_types.py

A batch has as many records as blocks of jobs have at most. Each figure is the least of many rounds: what runs beside
can only make it worse. The first line says what a comprehension that does nothing costs here, to compare machines by.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.functions.stateless import CastOperator
from penstock.common.conversion import conversion
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.testing.harness import OperatorHarness

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

RECORDS, REPEATS, ROUNDS = 2048, 50, 40
NAMED = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])


def least_ns(work: Callable[[], object]) -> float:
    """Return the processor time of one record."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time_ns()
        for _ in range(REPEATS):
            work()
        best = min(best, (time.process_time_ns() - start) / REPEATS / RECORDS)
    return best


def of_type(type_info: TypeInformation, records: list[Any]) -> float:
    """Return what the operator takes for a record."""
    operator = CastOperator(type_info)
    with OperatorHarness(operator):
        batch = RowBatch(records)
        return least_ns(lambda: list(operator.process(batch, 0)))


def main() -> None:
    numbers, names = range(0, RECORDS * 7919, 7919), [f"name {number}" for number in range(RECORDS)]
    pairs = list(zip(numbers, names, strict=True))
    plain = [Row(*pair) for pair in pairs]
    held = conversion(NAMED, "")
    assert held is not None
    nothing = least_ns(lambda: [name for name in names])  # noqa: C416 - a copy in C costs less
    print(f"{'a comprehension that does nothing':45}{nothing:6.0f} ns")
    for title, type_info, records in (
        ("no type", Types.PICKLED_BYTE_ARRAY(), list(numbers)),
        ("INT", Types.INT(), list(numbers)),
        ("LONG", Types.LONG(), [number << 20 for number in numbers]),
        ("DOUBLE", Types.DOUBLE(), [number / 7 for number in numbers]),
        ("STRING", Types.STRING(), names),
        ("FLOAT, which is rounded", Types.FLOAT(), [number / 7 for number in numbers]),
        ("ROW of two fields, with its names", NAMED, held.block(plain)),
        ("TUPLE of two fields", Types.TUPLE([Types.INT(), Types.STRING()]), pairs),
        ("ROW of two fields, as Row(id=…, name=…)", NAMED, [Row(id=one, name=two) for one, two in pairs]),
        ("ROW of two fields that gets its names", NAMED, plain),
        ("INT in DOUBLE, converted", Types.DOUBLE(), list(numbers)),
    ):
        print(f"{title:45}{of_type(type_info, records):6.0f} ns")


if __name__ == "__main__":
    main()
