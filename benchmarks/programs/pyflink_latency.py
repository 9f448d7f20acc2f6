"""The latency job for PyFlink: python pyflink_latency.py PORT DIRECTORY SECONDS INTERVAL_MS process|thread.

Flink's socket source, a keyed process function in Python with a counter in a ValueState, and Flink's file sink, whose
files get their names when a checkpoint is complete. The socket source is Java's: PyFlink has no name for it.
"""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

from pyflink.common import Configuration, Encoder, Types
from pyflink.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, RollingPolicy
from pyflink.datastream.state import ValueStateDescriptor

KEYS = 1_000
RECORD = Types.TUPLE([Types.LONG(), Types.LONG()])
#: How long PyFlink may keep records to send them to Python together (process mode).
BUNDLE_MS = 10


class Count(KeyedProcessFunction):
    """Counts the records of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        yield f"{value[0]},{value[1]},{seen}"


def parsed(line: str) -> tuple[int, int]:
    number, created = line.split(",")
    return int(number), int(created)


def main(port: int, directory: Path, seconds: float, interval_ms: int, mode: str) -> None:
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", directory.joinpath("checkpoints").as_uri())
    configuration.set_string("execution.checkpointing.interval", f"{interval_ms} ms")
    configuration.set_string("python.execution-mode", mode)
    configuration.set_string("python.fn-execution.bundle.time", str(BUNDLE_MS))
    configuration.set_string("python.executable", sys.executable)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    lines = DataStream(env._j_stream_execution_environment.socketTextStream("127.0.0.1", port))
    sink = (
        FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    records = lines.map(parsed, RECORD)
    records.key_by(lambda record: record[0] % KEYS, Types.LONG()).process(Count(), Types.STRING()).sink_to(sink)
    client = env.execute_async("latency")
    time.sleep(seconds)
    client.cancel().result()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
