"""A job with much keyed state that is stopped, and then goes on: state.py runs it.

python benchmarks/restore.py fill DIRECTORY MEGABYTES    gives each key 1,000 random bytes, and is cancelled
python benchmarks/restore.py resume DIRECTORY MEGABYTES  goes on from the checkpoint, and prints FIRST and USUAL: the
                                                         milliseconds of its first epoch, and of the later ones
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from jobs import start

from penstock._engine.spark.epoch import SparkEpochRunner
from penstock._engine.spark.session import get_session
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from penstock._engine.gateway.progress import JobProgress
    from penstock.datastream.functions import RuntimeContext

SLOTS = 2
VALUE_BYTES = 1_000
#: Keys of one epoch while state is filled; afterwards an epoch looks up so many.
FILL, LOOK = 100_000, 100
LATER_EPOCHS = 10


class Keep(KeyedProcessFunction):
    """Gives each key its bytes when it comes for the first time, and looks at them afterwards."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        kept = self.kept.value()
        if kept is None:
            self.kept.update(random.Random(value).randbytes(VALUE_BYTES))
        else:
            assert len(kept) == VALUE_BYTES


def main(mode: str, directory: Path, megabytes: int) -> None:
    keys = megabytes * 1_000_000 // VALUE_BYTES
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(directory))
    configuration.set_string("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION")
    configuration.set_string("execution.state-recovery.path", "latest")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(SLOTS)
    rate = RateLimiterStrategy.per_checkpoint(FILL if mode == "fill" else LOOK)
    source = DataGeneratorSource(lambda index: index % keys, None, rate)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.key_by(lambda key: key).process(Keep()).uid("keep").print()

    epochs: list[int] = []
    done = threading.Event()

    def on_epoch(progress: JobProgress) -> None:
        if progress.records:
            epochs.append(progress.epoch_ms)
        if progress.records >= keys or (mode == "resume" and len(epochs) > LATER_EPOCHS):
            done.set()

    spark = get_session(SLOTS)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        runner = SparkEpochRunner(spark)
        driver = start(env, "restore", runner, slots=SLOTS, state_directory=Path(scratch), on_epoch=on_epoch)
        while not done.wait(0.2):
            if driver.result.done():
                driver.result.result()
        driver.cancel()
        driver.result.exception(120)
    print("FIRST", epochs[0], "USUAL", round(median(epochs[1:])), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
