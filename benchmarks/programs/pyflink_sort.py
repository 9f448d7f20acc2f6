"""A sort in a process function of PyFlink: ``python pyflink_sort.py RECORDS``.

PyFlink has no sort of partitions. Each of two keys has half of the records, which its function keeps in a list, beside
checkpoints, and sorts when the watermark comes to its end.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import FlatMapFunction, KeyedProcessFunction

END = (1 << 63) - 1


class Now(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 0


class Sorts(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.records: dict[int, list[tuple[int, int]]] = {}

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> None:
        key = ctx.get_current_key()
        if key not in self.records:
            self.records[key] = []
            ctx.timer_service().register_event_time_timer(END)
        self.records[key].append(value)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield from sorted(self.records.pop(ctx.get_current_key()), key=lambda record: record[0])


class Counts(FlatMapFunction):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, runtime_context: Any) -> None:
        self.count = 0
        self.file = Path(self.folder) / str(runtime_context.get_index_of_this_subtask())

    def flat_map(self, value: tuple[int, int]) -> tuple[()]:
        self.count += 1
        return ()

    def close(self) -> None:
        self.file.write_text(str(self.count))


def main(records: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Now())
    with tempfile.TemporaryDirectory() as folder:
        numbers = env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "in")
        pairs = numbers.map(lambda number: (number * 2654435761 % 1_000_003, number), pair)
        stamped = pairs.assign_timestamps_and_watermarks(strategy)
        ordered = stamped.key_by(lambda record: record[1] % 2, Types.LONG()).process(Sorts(), pair)
        ordered.flat_map(Counts(folder), Types.LONG()).print()
        env.execute()
        print("RESULT", sum(int(path.read_text()) for path in Path(folder).iterdir()))


if __name__ == "__main__":
    main(int(sys.argv[1]))
