"""A keyed job with a file sink, to be killed: numbers are counted by key and each count is written once.

Usage: counting_job.py DIRECTORY NUMBERS
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from penstock.common import Configuration, Encoder, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor

KEYS = 97
#: Slows the job down to some thousand records a second, so that kills meet it at work.
PAUSE_EVERY = 200


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{ctx.get_current_key()},{value},{count}"


def slowly(number: int) -> int:
    if number % PAUSE_EVERY == 0:
        time.sleep(0.02)
    return number


def main(directory: Path, numbers: int) -> None:
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    configuration.set_string("execution.checkpointing.interval", "300 ms")
    configuration.set_string("execution.state-recovery.path", "latest")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build()
    source = NumberSequenceSource(0, numbers - 1)
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        .map(slowly)
        .key_by(lambda number: number % KEYS)
        .process(Count(), Types.STRING())
        .sink_to(sink)
    )
    env.execute("counting")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
