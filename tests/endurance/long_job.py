"""A job of many epochs that looks at itself: one of its two sources ends half way.

Usage: long_job.py DIRECTORY EPOCHS; prints a line of JSON for each look, and the last after the job's end.

The sources give 100 records for each checkpoint, the first for EPOCHS of them, the second for twice as many. They are
counted by 1,000 keys in a ValueState with a timer for each, and each count is written to a file of its epoch.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.endurance.watch import sample

from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.functions import RuntimeContext
from penstock.datastream.state import ValueStateDescriptor

PER_EPOCH = 100
KEYS = 1_000
LOOKS = 20


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + 500)
        yield f"{value},{count}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        self.count.value()


def build(directory: Path, epochs: int) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)

    def source(name: str, its_epochs: int) -> DataStream:
        rate = RateLimiterStrategy.per_checkpoint(PER_EPOCH)
        numbers = DataGeneratorSource(lambda index: index, PER_EPOCH * its_epochs, rate)
        return env.from_source(numbers, WatermarkStrategy.no_watermarks(), name)

    policy = RollingPolicy.on_checkpoint_rolling_policy()
    encoder = Encoder.simple_string_encoder()
    sink = FileSink.for_row_format(str(directory / "out"), encoder).with_rolling_policy(policy).build()
    both = source("ends", epochs).union(source("lasts", 2 * epochs))
    both.key_by(lambda number: number % KEYS).process(Count()).sink_to(sink)
    return env


def look(checkpoint: int, directory: Path) -> None:
    print(json.dumps(asdict(sample(checkpoint, directory / "checkpoints"))), flush=True)


def main(directory: Path, epochs: int) -> None:
    job = build(directory, epochs).execute_async("endurance").get_job_execution_result()
    every, seen, ended = 2 * epochs // LOOKS, 0, False
    while not ended:
        try:
            job.result(timeout=0.2)
            ended = True
        except TimeoutError:
            newest = max((int(path.name[4:]) for path in directory.glob("checkpoints/*/chk-*")), default=0)
            if newest // every > seen // every:
                look(newest, directory)
                seen = newest
    look(seen, directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
