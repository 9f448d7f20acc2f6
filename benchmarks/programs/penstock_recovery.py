"""A batch job with recovery, or without: recovery.py runs it.

python penstock_recovery.py DIRECTORY SHAPE SIZE on|off

SHAPE is ``long`` (a short stage, then a long last one), ``short`` (ten stages alike), both of SIZE seconds, in which
records take their time and no processor; or ``work``: two sources, a join, an aggregate and a sort of SIZE records.
Each subtask notes its begin and end below DIRECTORY/notes. The last line of output has the seconds of processor time of
the process and of its event store, and the longest time that the main loop gave to the store, in milliseconds.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from penstock._engine.driver.stages.event_store import JobEventStore
from penstock.common import Configuration, Encoder, Order, WatermarkStrategy
from penstock.datastream import MapFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource

SLOTS, SUBTASKS, RECORDS = 2, 8, 800


class Paced(MapFunction):
    """Takes its time for each record, and notes when it begins and ends."""

    def __init__(self, notes: Path, stage: int, seconds: float) -> None:
        self.notes, self.stage, self.pause_s = notes, stage, seconds * SLOTS / RECORDS

    def open(self, runtime_context: Any) -> None:
        self.name = f"{self.stage}-{runtime_context.get_index_of_this_subtask()}-{uuid4().hex}"
        (self.notes / f"{self.name}-began").touch()

    def map(self, value: Any) -> Any:
        time.sleep(self.pause_s)
        return value

    def close(self) -> None:
        (self.notes / f"{self.name}-ended").touch()


def numbers(env: Any, name: str, size: int) -> Any:
    return env.from_source(NumberSequenceSource(0, size - 1), WatermarkStrategy.no_watermarks(), name).uid(name)


def build(env: Any, directory: Path, shape: str, size: int) -> Any:
    notes = directory / "notes"
    if shape == "work":
        # Each number of one source meets one of the other, as its key comes twice.
        both = numbers(env, "left", size).union(numbers(env, "right", size)).map(lambda number: (number, 1))
        pairs = both.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1])).uid("pairs")
        sums = pairs.map(lambda pair: (pair[0] * 2654435761 % 1_000_003 // 10, pair[1]))
        totals = sums.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1])).uid("totals")
        ordered = totals.rebalance().full_window_partition().sort_partition(0, Order.ASCENDING)
        return ordered.map(lambda pair: f"{pair[0]},{pair[1]}")
    parts = [0.1, 0.9] if shape == "long" else [0.1] * 10
    stream = numbers(env, "in", RECORDS)
    for stage, part in enumerate(parts):
        stream = stream.rebalance().map(Paced(notes, stage, part * size)).uid(f"stage {stage}")
    return stream.map(str)


def main(place: str, shape: str, size: str, recovery: str) -> None:
    directory = Path(place)
    (directory / "notes").mkdir(parents=True, exist_ok=True)
    configuration = Configuration.from_dict(
        {
            "execution.checkpointing.dir": str(directory / "checkpoints"),
            "execution.batch.job-recovery.enabled": str(recovery == "on").lower(),
            "execution.batch.job-recovery.snapshot.min-pause": "0 ms",
            "execution.batch.adaptive.auto-parallelism.enabled": "false",
            "penstock.batch.combine": "false",
        }
    )
    parallelism = SLOTS if shape == "work" else SUBTASKS
    env: Any = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    stores, waits, record = list[JobEventStore](), [0.0], JobEventStore.record

    def timed(store: JobEventStore, instruction: Any) -> None:
        begun = time.perf_counter()
        record(store, instruction)
        waits.append(time.perf_counter() - begun)
        stores[:] = [store]

    JobEventStore.record = timed  # type: ignore[method-assign]
    out = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build()
    build(env, directory, shape, int(size)).sink_to(out).uid("out")
    env.execute("recovery")
    cpu = sum(os.times()[:4])
    print(f"{cpu:.3f} {sum(store.cpu_s for store in stores):.4f} {1000 * max(waits):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
