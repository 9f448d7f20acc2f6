"""A job on a cluster that counts numbers by key, and shows how far it is.

Usage: counting.py CHECKPOINTS OUT NOTES [TOTAL]

Each record of the output is ``key,count``: a lost record or a repeated one leaves a gap or a double. NOTES is a
directory that all hosts share; tasks leave a file there for each slot that they run in, and for each thousand numbers.
Until it has a file ``go``, the job is slow, and slower towards its end; a file ``die`` kills one Python worker. When it
ends, the job leaves ``result.json``: what its driver saw.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from penstock.common import Configuration, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
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


def slot() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def main(checkpoints: str, out: str, notes: Path, total: int) -> dict[str, Any]:
    share = -(-total // PARALLELISM)

    def note(number: int) -> int:
        is_late = number % share > 4 * share // 5  # so the job does not end while a test waits for a new host
        if (number % 10 == 0 or is_late) and not (notes / "go").exists():
            time.sleep(0.05)
        if number % 100 == 0:
            (notes / f"slot-{slot()}").touch()
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
    env.set_parallelism(PARALLELISM)
    numbers = env.from_source(NumberSequenceSource(0, total - 1), WatermarkStrategy.no_watermarks(), "numbers")
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
        "moves": sum(subtask.moves for vertex in view.subtasks for subtask in vertex),
        "failures": [(failure.reason, failure.counted) for failure in view.failures],
    }
    (notes / "result.json").write_text(json.dumps(result))
    return result


if __name__ == "__main__":
    result = main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
