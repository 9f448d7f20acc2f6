"""What copies of records cost: maps with and without `pipeline.object-reuse`, in processor time.

    python benchmarks/micro/copies.py [rounds]

Each map makes its record anew, in blocks of 2,048 records; the two settings run in turn, and the ratio is that of their
medians. Times are processor time of one process a record.
"""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.functions.stateless import MapOperator
from penstock.common.types import Row

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = list(range(10_000, 12_048))
REPEATS = 20

MAPS: dict[str, Callable[[int], Any]] = {
    "int": lambda i: i * 3 + 1,
    "tuple of three fields": lambda i: ("key", 1, i),
    "flat dict of five fields": lambda i: {"id": i, "name": "ada", "score": 2.5, "note": None, "count": i},
    "flat list of five fields": lambda i: [i, "ada", 2.5, None, i],
    "Row of two fields": lambda i: Row(id=i, name="ada"),
    "dict with a list in it": lambda i: {"id": i, "names": ["ada"]},
}


def seconds(operator: MapOperator) -> float:
    start = time.process_time()
    for _ in range(REPEATS):
        list(operator.process(RowBatch(BLOCK), 0))
    return time.process_time() - start


def main(rounds: int = 15) -> None:
    print(f"{'map to':28} {'copies':>10} {'reuse':>10} {'ratio':>7}")
    for name, function in MAPS.items():
        copying, reusing = MapOperator(function), MapOperator(function)
        reusing.object_reuse = True
        runs = [(seconds(copying), seconds(reusing)) for _ in range(rounds)]
        a, b = (median(column) / REPEATS / len(BLOCK) * 1e9 for column in zip(*runs, strict=True))
        print(f"{name:28} {a:7.0f} ns {b:7.0f} ns {a / b:6.2f}x")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
