"""Queries of Nexmark as programs of PyFlink, whose imports alone are changed: files with the defaults of FileSource."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit import nexmark

from penstock._connectors.files import source as file_source
from penstock.common import Duration, Row, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.functions import (
    AggregateFunction,
    JoinFunction,
    KeyedCoProcessFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from penstock.datastream import DataStream

PERSON = Types.ROW_NAMED(["id", "name", "at"], [Types.LONG(), Types.STRING(), Types.LONG()])
AUCTION = Types.ROW_NAMED(["id", "seller", "category", "expires", "at"], [Types.LONG()] * 5)
BID = Types.ROW_NAMED(["auction", "price", "at"], [Types.LONG()] * 3)


class At(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value["at"]


def stream(lines: DataStream[Any], kind: str, row_type: Any) -> DataStream[Any]:
    names = row_type.get_field_names()
    found = lines.filter(lambda event: event["kind"] == kind)
    return found.map(lambda event: Row(*(event[name] for name in names)), output_type=row_type)


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class WithEnd(ProcessWindowFunction):
    def process(self, key: int, context: Any, elements: Iterable[int]) -> Iterable[Row]:
        yield Row(context.window().end, key, next(iter(elements)))


class Hottest(ProcessWindowFunction):
    def process(self, key: int, context: Any, elements: Iterable[Row]) -> Iterable[Row]:
        found = list(elements)
        most = max(row[2] for row in found)
        yield from (row for row in found if row[2] == most)


def hot_items(events: DataStream[Any]) -> DataStream[Any]:
    counted = Types.ROW([Types.LONG(), Types.LONG(), Types.LONG()])
    sliding = SlidingEventTimeWindows.of(Time.milliseconds(nexmark.WINDOW_MS), Time.milliseconds(nexmark.SLIDE_MS))
    counts = (
        stream(events, "bid", BID)
        .key_by(lambda bid: bid.auction, key_type=Types.LONG())
        .window(sliding)
        .aggregate(Count(), WithEnd(), accumulator_type=Types.LONG(), output_type=counted)
    )
    return (
        counts.key_by(lambda row: row[0], key_type=Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(nexmark.SLIDE_MS)))
        .process(Hottest(), output_type=counted)
    )


class NewSeller(JoinFunction):
    def join(self, first: Any, second: Any) -> Row:
        return Row(first.id, first.name, second.id)


def new_sellers(events: DataStream[Any]) -> DataStream[Any]:
    return (
        stream(events, "person", PERSON)
        .join(stream(events, "auction", AUCTION))
        .where(lambda person: person.id)
        .equal_to(lambda auction: auction.seller)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(nexmark.WINDOW_MS)))
        .apply(NewSeller())
    )


class Winning(KeyedCoProcessFunction):
    """Keeps the bids of an auction until it expires."""

    def open(self, runtime_context: Any) -> None:
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", AUCTION))
        self.bids = runtime_context.get_list_state(ListStateDescriptor("bids", BID))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.auction.update(value)
        ctx.timer_service().register_event_time_timer(value.expires)

    def process_element2(self, value: Any, ctx: Any) -> None:
        self.bids.add(value)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Row]:
        auction = self.auction.value()
        fitting = [(-bid.price, bid.at) for bid in self.bids.get() if auction.at <= bid.at <= auction.expires]
        if fitting:
            price, at = min(fitting)
            yield Row(auction.id, -price, at)
        self.bids.clear()


def winning_bids(events: DataStream[Any]) -> DataStream[Any]:
    auctions, bids = stream(events, "auction", AUCTION), stream(events, "bid", BID)
    return (
        auctions.connect(bids)
        .key_by(lambda auction: auction.id, lambda bid: bid.auction, key_type=Types.LONG())
        .process(Winning(), output_type=Types.ROW([Types.LONG(), Types.LONG(), Types.LONG()]))
    )


class WithAuction(KeyedCoProcessFunction):
    """Joins bids with their auction, whichever comes first."""

    def open(self, runtime_context: Any) -> None:
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", AUCTION))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", BID))

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Row]:
        self.auction.update(value)
        for bid in self.waiting.get():
            yield Row(value.id, bid.price, value.seller)
        self.waiting.clear()

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Row]:
        auction = self.auction.value()
        if auction is None:
            self.waiting.add(value)
        else:
            yield Row(auction.id, value.price, auction.seller)


def bids_of_category(events: DataStream[Any]) -> DataStream[Any]:
    auctions = stream(events, "auction", AUCTION).filter(lambda auction: auction.category == nexmark.CATEGORY)
    return (
        auctions.connect(stream(events, "bid", BID))
        .key_by(lambda auction: auction.id, lambda bid: bid.auction, key_type=Types.LONG())
        .process(WithAuction(), output_type=Types.ROW([Types.LONG(), Types.LONG(), Types.LONG()]))
    )


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (hot_items, nexmark.hot_items),
        (new_sellers, nexmark.new_sellers),
        (winning_bids, nexmark.winning_bids),
        (bids_of_category, nexmark.bids_of_category),
    ],
    ids=["Q5", "Q8", "Q9", "Q20"],
)
def test_nexmark_over_two_files_of_the_same_time_equals_plain_python(
    tmp_path: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    query: Callable[[DataStream[Any]], DataStream[Any]],
    expected: Callable[[list[dict[str, Any]]], list[tuple[Any, ...]]],
) -> None:
    monkeypatch.setattr(file_source, "_LEAST_PART_BYTES", 1024)  # so small files would be cut, too
    folder = tmp_path / "in"
    folder.mkdir()
    made = nexmark.events(6000)
    nexmark.write_files(folder, made)
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build()
    events = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "events")
        .map(json.loads)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500)).with_timestamp_assigner(At())
        )
    )
    with query(events).execute_and_collect(name) as found:
        rows = sorted(tuple(row) for row in found)
    wanted = expected(made)
    assert len(wanted) > 50
    assert rows == wanted
