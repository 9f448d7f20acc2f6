"""What the queries share: lines of JSON become typed rows, with timestamps where a query asks for time.

Rows are made with their names, `Row("auction", "price")(7, 100)`: in PyFlink they have those of the declared type only
where they have passed the JVM.
"""

import json
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from pyflink.common import Duration, Row, Types, WatermarkStrategy
from pyflink.common.typeinfo import TypeInformation
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import DataStream, FlatMapFunction, OutputTag, ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat

TEXTS = {
    *("name", "emailAddress", "creditCard", "city", "state", "itemName", "description"),
    *("channel", "url", "extra", "day", "value"),
}
BID = ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")
AUCTION = (
    "id",
    "itemName",
    "description",
    "initialBid",
    "reserve",
    "dateTime",
    "expires",
    "seller",
    "category",
    "extra",
)


def row_of(names: Iterable[str]) -> TypeInformation:
    """Return a new type of rows; one that was used for a stream cannot be pickled with a function."""
    fields = list(names)
    return Types.ROW_NAMED(fields, [Types.STRING() if name in TEXTS else Types.LONG() for name in fields])


def lines(env: StreamExecutionEnvironment, folder: str, name: str) -> DataStream:
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build()
    return env.from_source(source, WatermarkStrategy.no_watermarks(), name)


class OfKind(FlatMapFunction):
    def __init__(self, kind: str, names: tuple[str, ...]) -> None:
        self.kind, self.fields, self.row = kind, itemgetter(*names), Row(*names)

    def flat_map(self, value: str) -> Iterable[Row]:
        event = json.loads(value)
        if self.kind in event:
            yield self.row(*self.fields(event[self.kind]))


def bids(events: DataStream, *names: str) -> DataStream:
    """Return the bids, with the named fields or all of them."""
    wanted = names or BID
    return events.flat_map(OfKind("bid", wanted), output_type=row_of(wanted))


class Split(ProcessFunction):
    """Sends the events of one kind on, and those of another one to a side; the rest is left out."""

    def __init__(self, main: str, main_names: tuple[str, ...], side: str, side_names: tuple[str, ...]) -> None:
        self.main, self.main_fields, self.main_row = main, itemgetter(*main_names), Row(*main_names)
        self.side, self.side_fields, self.side_row = side, itemgetter(*side_names), Row(*side_names)
        self.tag = OutputTag(side, row_of(side_names))

    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterable[Any]:
        event = json.loads(value)
        if self.main in event:
            yield self.main_row(*self.main_fields(event[self.main]))
        elif self.side in event:
            yield self.tag, self.side_row(*self.side_fields(event[self.side]))


def split(
    events: DataStream, main: str, main_names: tuple[str, ...], side: str, side_names: tuple[str, ...]
) -> tuple[DataStream, DataStream]:
    """Return the events of two kinds, with the named fields; each line is read once."""
    both = events.process(Split(main, main_names, side, side_names), output_type=row_of(main_names))
    return both, both.get_side_output(OutputTag(side, row_of(side_names)))


class DateTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value.dateTime


def timed(events: DataStream) -> DataStream:
    """Give rows their timestamps; an event may come four seconds late."""
    behind = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(4))
    return events.assign_timestamps_and_watermarks(behind.with_timestamp_assigner(DateTime()))
