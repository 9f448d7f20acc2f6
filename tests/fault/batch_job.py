"""A batch job of three stages on real Spark, in a process of its own.

Usage: python -m tests.fault.batch_job DIRECTORY [--wait]

With ``--wait`` a task of the last stage stands still, and says so with a file ``waiting``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource

TOTAL, KEYS = 1_000, 7
FOR_EVER_S = 3600


def main() -> None:
    """Run the job to its end."""
    directory, waits = Path(sys.argv[1]), "--wait" in sys.argv

    def trap(pair: Any) -> str:
        if waits:
            (directory / "waiting").touch()
            time.sleep(FOR_EVER_S)
        return f"{pair[0]},{pair[1]}"

    configuration = Configuration.from_dict(
        {"execution.checkpointing.dir": str(directory / "checkpoints"), "execution.state-recovery.path": "latest"}
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_source(NumberSequenceSource(0, TOTAL - 1), WatermarkStrategy.no_watermarks(), "numbers")
    staged = FileSink.for_row_format(str(directory / "all"), Encoder.simple_string_encoder()).build()
    numbers.map(str).sink_to(staged)
    sums = numbers.map(lambda number: (number % KEYS, number)).key_by(lambda pair: pair[0]).sum(1)
    published = FileSink.for_row_format(str(directory / "sums"), Encoder.simple_string_encoder()).build()
    sums.rebalance().map(trap).sink_to(published)
    env.execute("batch")


if __name__ == "__main__":
    main()
