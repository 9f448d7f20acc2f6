"""A job on a cluster that counts numbers by key, and shows how far it is.

Usage: counting.py CHECKPOINTS OUT NOTES TOTAL [PARALLELISM]

Each record of the output is ``key,count``: a lost record or a repeated one leaves a gap or a double. NOTES is a
directory that all hosts share; tasks leave a file there for each slot that they run in, and for each thousand numbers.
Until it has a file ``go``, the job is slow, and slower towards its end. While it has a file ``hold``, the last fifth of
the numbers is not read, so the job goes on. A file ``die`` kills one Python worker. When it ends, the job leaves
``result.json``: what its driver saw.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from penstock._connectors.number_sequence import NumberSequenceReader, NumberSequenceSplit
from penstock.common import Configuration, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import InputStatus, SourceOutput, SourceReaderContext
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.connectors.reader_base import SplitCursor
from penstock.datastream.functions import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor

KEYS = 97
PARALLELISM = 3


class Count(KeyedProcessFunction[int, int, str]):
    """Counts the records of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value % KEYS},{count}"


def note_slot(notes: Path) -> None:
    context = TaskContext.get()
    assert context is not None
    (notes / f"slot-{context.partitionId()}").touch()


class Held(SplitCursor[int, NumberSequenceSplit]):
    """Reads the numbers of a split by tens, and may be held before its last ones.

    Args:
        split: The split.
        last: The number of those numbers.
        notes: The directory of the notes.
    """

    def __init__(self, split: NumberSequenceSplit, last: int, notes: Path) -> None:
        self._split, self._next, self._last, self._notes = split, split.next, last, notes

    def poll_next(self, output: SourceOutput[int]) -> InputStatus:
        if self._next > self._split.end - self._last and (self._notes / "hold").exists():
            note_slot(self._notes)
            time.sleep(0.05)
            return InputStatus.MORE_AVAILABLE
        behind = min(self._next + min(10, output.wanted), self._split.end + 1)
        output.collect_all(list(range(self._next, behind)))
        self._next = behind
        return InputStatus.END_OF_INPUT if behind > self._split.end else InputStatus.MORE_AVAILABLE

    def snapshot(self) -> NumberSequenceSplit:
        return replace(self._split, next=self._next)


class HeldReader(NumberSequenceReader):
    def __init__(self, context: SourceReaderContext, last: int, notes: Path) -> None:
        super().__init__(context)
        self._last, self._notes = last, notes

    def open_split(self, split: NumberSequenceSplit) -> Held:
        return Held(split, self._last, self._notes)


class HeldSource(NumberSequenceSource):
    """The numbers below a total, in one part for each reader."""

    def __init__(self, total: int, notes: Path) -> None:
        super().__init__(0, total - 1)
        self._last, self._notes = total // PARALLELISM // 5, notes

    def create_reader(self, reader_context: SourceReaderContext) -> HeldReader:
        return HeldReader(reader_context, self._last, self._notes)


def main(checkpoints: str, out: str, notes: Path, total: int, parallelism: int = PARALLELISM) -> dict[str, Any]:
    share = -(-total // PARALLELISM)

    def note(number: int) -> int:
        is_late = number % share > 4 * share // 5  # so that a life is not over before its kills
        if (number % 10 == 0 or is_late) and not (notes / "go").exists():
            time.sleep(0.05)
        if number % 100 == 0:
            note_slot(notes)
            with contextlib.suppress(FileNotFoundError):
                (notes / "die").unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        if number % 1000 == 0:
            (notes / f"passed-{number}").touch()
        return number

    settings = {
        "execution.checkpointing.dir": checkpoints,
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.data-inline-threshold": "120 bytes",
        "restart-strategy.type": "none",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(parallelism)
    numbers = env.from_source(HeldSource(total, notes), WatermarkStrategy.no_watermarks(), "numbers")
    counted = numbers.map(note).key_by(lambda number: number % KEYS).process(Count())
    sink = FileSink.for_row_format(out, Encoder.simple_string_encoder())
    counted.sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    client: Any = env.execute_async("count")
    client.get_job_execution_result().result()
    view = client._driver.view
    result = {
        "returned_share": view.returned_share,
        "restored_bytes": view.restored_bytes,
        "epochs": view.progress.epochs,
        "running_ms": view.running_ms,
        "subtasks": [len(vertex) for vertex in view.subtasks],
        "moves": sum(subtask.moves for vertex in view.subtasks for subtask in vertex),
        "failures": [(failure.reason, failure.counted) for failure in view.failures],
    }
    (notes / "result.json").write_text(json.dumps(result))
    return result


if __name__ == "__main__":
    result = main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *map(int, sys.argv[4:]))
