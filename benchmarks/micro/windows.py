"""Windows in one process, without Spark: what a record costs, by kind of window.

    python benchmarks/micro/windows.py [records] [kind …]

2,000 keys, batches of 2,000 records, a watermark after each. Each kind prints its processor time for a record, and the
ratio to sessions of one gap in event time in the same run, which moves less with the machine than the figures do.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from typing import TYPE_CHECKING, Any

from penstock._engine.operators.batch import RowBatch
from penstock.common import Time
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.testing import OperatorHarness

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS, BATCH, ROUNDS = 2_000, 2_000, 3
GAP = Time.seconds(5)


class Gap(SessionWindowTimeGapExtractor):
    """A gap that depends on the record."""

    def extract(self, element: Any) -> int:
        return 5_000


class Total(AggregateFunction[Any, Any, Any]):
    """A count and a sum."""

    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Custom(EventTimeTrigger):
    """A trigger of the program's own: to the engine it is no other than one with rules of its own."""


#: Each makes assigner and trigger.
KINDS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "sessions, one gap": lambda: (EventTimeSessionWindows.with_gap(GAP), None),
    "sessions, dynamic gap": lambda: (EventTimeSessionWindows.with_dynamic_gap(Gap()), None),
    "sessions, custom trigger": lambda: (EventTimeSessionWindows.with_gap(GAP), Custom()),
    "sessions, processing time": lambda: (ProcessingTimeSessionWindows.with_gap(GAP), None),
    "tumbling, event time": lambda: (TumblingEventTimeWindows.of(GAP), None),
    "sliding, event time": lambda: (SlidingEventTimeWindows.of(GAP, Time.seconds(1)), None),
    "tumbling, custom trigger": lambda: (TumblingEventTimeWindows.of(GAP), Custom()),
    "tumbling, continuous": lambda: (TumblingEventTimeWindows.of(GAP), ContinuousEventTimeTrigger.of(Time.seconds(1))),
    "tumbling, processing time": lambda: (TumblingProcessingTimeWindows.of(GAP), None),
    "sliding, processing time": lambda: (SlidingProcessingTimeWindows.of(GAP, Time.seconds(1)), None),
    "count windows": lambda: (GlobalWindows.create(), PurgingTrigger[Any, Any](CountTrigger.of(10))),
}


def records(count: int) -> list[tuple[list[Any], list[int]]]:
    """Return batches of records with their timestamps: a millisecond each, a little out of order."""
    choose = random.Random(7)
    return [
        (
            [(choose.randrange(KEYS), number) for number in range(start, start + BATCH)],
            [number - choose.randrange(500) for number in range(start, start + BATCH)],
        )
        for start in range(0, count, BATCH)
    ]


def run(kind: str, batches: list[tuple[list[Any], list[int]]]) -> float:
    """Return the processor time of a record in microseconds."""
    assigner, trigger = KINDS[kind]()
    harness = OperatorHarness.for_window(lambda pair: pair[0], assigner, aggregate=Total(), trigger=trigger)
    harness.open()
    operator, fired = harness._operator, 0
    gc.collect()
    start = time.process_time()
    for place, (values, stamps) in enumerate(batches):
        last = place * BATCH
        harness.clock.set(max(last, harness.clock.now_ms()))
        batch = RowBatch(values, stamps, [(BATCH, last - 500)])
        for outputs in (operator.on_processing_time(last), operator.process(batch, 0)):
            fired += sum(len(out) for _, out in outputs)
    took = time.process_time() - start
    assert fired
    return took / (len(batches) * BATCH) * 1e6


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    batches = records(count)
    wanted = [kind for kind in KINDS if not sys.argv[2:] or any(word in kind for word in sys.argv[2:])]
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for kind in dict.fromkeys(["sessions, one gap", *wanted]):
            best[kind] = min(best.get(kind, 1e9), run(kind, batches))
    for kind, micros in best.items():
        print(f"{kind:28} {micros:6.2f} µs a record   x {micros / best['sessions, one gap']:5.2f}")


if __name__ == "__main__":
    main()
