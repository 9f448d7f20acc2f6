"""What a declared type costs a record: processor time of one process, in the operator that holds records to types.

    python benchmarks/declared_types.py
    python benchmarks/declared_types.py jobs 5 b c Q18     whole jobs with and without types, five pairs of each

A batch has as many records as blocks of jobs have at most. Each figure is the least of many rounds: what runs beside
can only make it worse. The first line says what a comprehension that does nothing costs here, to compare machines by.

Whole jobs are those of `programs/typed_programs.py`, in this process without Spark. A figure is the difference of two
sizes, so it has no start-up in it; both ways run in turn, and the ratio is the median of those of each pair.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from jobs import seconds_in_process

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.functions.stateless import CastOperator
from penstock.common import Configuration, WatermarkStrategy
from penstock.common.conversion import conversion
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.testing.harness import OperatorHarness

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

RECORDS, REPEATS, ROUNDS = 2048, 50, 40
SIZES = 40_000, 240_000
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


def seconds(job: str, records: int, *, typed: bool) -> tuple[float, tuple[int, ...]]:
    """Return the processor time of a job, and its result."""
    from penstock_programs import Tally
    from typed_programs import JOBS

    with tempfile.TemporaryDirectory() as place:
        env = StreamExecutionEnvironment.get_execution_environment(Configuration()).set_parallelism(2)
        env.enable_checkpointing(1000)
        source, kind = NumberSequenceSource(0, records - 1), Types.LONG() if typed else None
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", kind)
        out = Path(place, "out")
        out.mkdir()
        JOBS[job](numbers, records, typed).sink_to(Tally(str(out)))
        took = seconds_in_process(env, job, 2, Path(place))
        parts = [tuple(map(int, part.read_text().split())) for part in out.iterdir()]
    return took, tuple(map(sum, zip(*parts, strict=True)))


def compare(job: str, pairs: int) -> None:
    """Print what a record of a job takes without types and with them."""
    figures: list[tuple[float, ...]] = []
    for _ in range(pairs):
        slopes: list[float] = []
        results: set[tuple[int, ...]] = set()
        for typed in (False, True):
            (small, _), (large, result) = (seconds(job, records, typed=typed) for records in SIZES)
            slopes.append((large - small) / (SIZES[1] - SIZES[0]) * 1e9)
            results.add(result)
        assert len(results) == 1, results
        figures.append(tuple(slopes))
    untyped, typed = (median(column) for column in zip(*figures, strict=True))
    ratio = median(two / one for one, two in figures)
    print(f"{job:4} {untyped:6.0f} ns without types, {typed:6.0f} ns with, ratio {ratio:.2f}", flush=True)


def jobs(pairs: int, wanted: list[str]) -> None:
    """Compare jobs."""
    sys.path.append(str(Path(__file__).resolve().parent / "programs"))
    from typed_programs import JOBS

    for job in wanted or JOBS:
        compare(job, pairs)


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
    if sys.argv[1:2] == ["jobs"]:
        jobs(int(sys.argv[2]) if len(sys.argv) > 2 else 5, sys.argv[3:])
    else:
        main()
