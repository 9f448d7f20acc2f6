"""The latency job for Penstock: PORT DIRECTORY SECONDS INTERVAL_MS [EXCHANGE [PARALLELISM]]; PORT is the second one.

A source that can be read again, a keyed process function with a counter in a ValueState, and the file sink, whose files
appear when their checkpoint is complete.
"""

import contextlib
import select
import socket
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.base import (
    Boundedness,
    InputStatus,
    ReaderOutput,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from penstock.datastream.connectors.enumerator_base import SplitQueueEnumerator
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.functions import RuntimeContext
from penstock.datastream.state import ValueStateDescriptor

KEYS = 1_000

Record = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Share(SourceSplit):
    """Every step-th line from one on."""

    first: int
    step: int
    next: int

    def split_id(self) -> str:
        return str(self.first)


class Feed(Source[Record, Share, list[Share]]):
    """The lines of the feeder."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, enum_context: SplitEnumeratorContext[Share]) -> SplitEnumerator[Share, list[Share]]:
        step = enum_context.current_parallelism
        return FeedEnumerator(enum_context, [Share(first, step, first) for first in range(step)])

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[Share], checkpoint: list[Share]
    ) -> SplitEnumerator[Share, list[Share]]:
        return FeedEnumerator(enum_context, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[Record, Share]:
        return FeedReader(reader_context, self.port)


class FeedEnumerator(SplitQueueEnumerator[Share, list[Share]]):
    def snapshot_state(self, checkpoint_id: int) -> list[Share]:
        return self.waiting_splits


class FeedReader(SourceReader[Record, Share]):
    """Reads one share, from where it stands."""

    def __init__(self, context: SourceReaderContext, port: int) -> None:
        self.context, self.port = context, port
        self.share: Share | None = None
        self.socket: socket.socket | None = None
        self.rest = b""

    def start(self) -> None:
        if self.share is None:
            self.context.send_split_request()

    def add_splits(self, splits: list[Share]) -> None:
        (self.share,) = splits
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.sendall(f"FROM {self.share.next} STEP {self.share.step}\n".encode())
        self.socket.setblocking(False)

    def poll_next(self, output: ReaderOutput[Record]) -> InputStatus:
        if self.socket is None or self.share is None or not self.is_available():
            return InputStatus.NOTHING_AVAILABLE
        *lines, self.rest = (self.rest + self.socket.recv(1 << 16)).split(b"\n")
        if lines:
            numbers = [line.split(b",") for line in lines]
            output.collect_all([(int(number), int(created)) for number, created in numbers])
            self.share = replace(self.share, next=self.share.next + len(lines) * self.share.step)
        return InputStatus.MORE_AVAILABLE if self.is_available() else InputStatus.NOTHING_AVAILABLE

    def is_available(self, timeout_ms: int = 0) -> bool:
        return self.socket is not None and bool(select.select([self.socket], [], [], timeout_ms / 1000)[0])

    def snapshot_state(self, checkpoint_id: int) -> list[Share]:
        return [] if self.share is None else [self.share]

    def notify_no_more_splits(self) -> None:
        pass

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()


class Count(KeyedProcessFunction):
    """Counts the records of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        yield f"{value[0]},{value[1]},{seen}"


def run_for(env: StreamExecutionEnvironment, seconds: float) -> None:
    """Run the job of an environment for some time."""
    client = env.execute_async("latency")
    time.sleep(seconds)
    client.cancel().result()
    with contextlib.suppress(Exception):  # it was cancelled
        client.get_job_execution_result().result()


def main(port: int, directory: Path, seconds: float, interval_ms: int, *how: str) -> None:
    exchange, parallelism = (*how, *("blocking", "2")[len(how) :])
    configuration = Configuration()
    configuration.set_string("penstock.exchange", exchange)
    configuration.set_string("penstock.exchange.trusted-network", "true")
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    configuration.set_string("execution.checkpointing.interval", f"{interval_ms} ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(int(parallelism))
    encoder: Any = Encoder.simple_string_encoder()
    policy = RollingPolicy.on_checkpoint_rolling_policy()
    sink = FileSink.for_row_format(str(directory / "out"), encoder).with_rolling_policy(policy).build()
    lines = env.from_source(Feed(port), WatermarkStrategy.no_watermarks(), "feed")
    lines.key_by(lambda record: record[0] % KEYS).process(Count()).sink_to(sink)
    run_for(env, seconds)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
