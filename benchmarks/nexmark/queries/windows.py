"""Queries over windows of event time."""

from collections.abc import Iterable
from typing import Any

from pyflink.common import Row, Time, Types
from pyflink.datastream import AggregateFunction, DataStream, ProcessWindowFunction
from pyflink.datastream.functions import ProcessAllWindowFunction
from pyflink.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

from queries.streams import bids, row_of, split, timed

PERSON = ("id", "name", "dateTime")
HIGHEST = ("auction", "price", "bidder", "dateTime", "extra")


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Row, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class WithEnd(ProcessWindowFunction):
    def process(self, key: int, context: ProcessWindowFunction.Context, elements: Iterable[int]) -> Iterable[Row]:
        yield Row(context.window().end, key, next(iter(elements)))


class Hottest(ProcessWindowFunction):
    def process(self, key: int, context: ProcessWindowFunction.Context, elements: Iterable[Row]) -> Iterable[Row]:
        found = list(elements)
        most = max(row[2] for row in found)
        return [row for row in found if row[2] == most]


def q5(events: DataStream, side: DataStream) -> DataStream:
    """Find the auctions with the most bids of the last 10 seconds, every 2 seconds."""
    return (
        timed(bids(events, "auction", "dateTime"))
        .key_by(lambda bid: bid.auction, key_type=Types.LONG())
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)))
        .aggregate(Count(), WithEnd(), accumulator_type=Types.LONG(), output_type=Types.ROW([Types.LONG()] * 3))
        .key_by(lambda row: row[0], key_type=Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.seconds(2)))
        .process(Hottest(), output_type=Types.ROW([Types.LONG()] * 3))
    )


class Highest(AggregateFunction):
    """Keeps the bids with the highest price."""

    def create_accumulator(self) -> list[Row]:
        return []

    def add(self, value: Row, accumulator: list[Row]) -> list[Row]:
        if not accumulator or value.price > accumulator[0].price:
            return [value]
        return [*accumulator, value] if value.price == accumulator[0].price else accumulator

    def get_result(self, accumulator: list[Row]) -> list[Row]:
        return accumulator

    def merge(self, acc_a: list[Row], acc_b: list[Row]) -> list[Row]:
        if not acc_a or not acc_b:
            return acc_a or acc_b
        if acc_a[0].price == acc_b[0].price:
            return acc_a + acc_b
        return max(acc_a, acc_b, key=lambda bids: bids[0].price)


class Each(ProcessAllWindowFunction):
    def process(self, context: ProcessAllWindowFunction.Context, elements: Iterable[list[Row]]) -> Iterable[Row]:
        return next(iter(elements))


def q7(events: DataStream, side: DataStream) -> DataStream:
    """Find the bids with the highest price, every 10 seconds."""
    return (
        timed(bids(events, *HIGHEST))
        .window_all(TumblingEventTimeWindows.of(Time.seconds(10)))
        # A list as accumulator has no type: in thread mode PyFlink cannot write a checkpoint of Types.LIST here.
        .aggregate(
            Highest(),
            Each(),
            accumulator_type=Types.PICKLED_BYTE_ARRAY(),
            output_type=row_of(HIGHEST),
        )
    )


class NewSeller(ProcessWindowFunction):
    def process(self, key: int, context: ProcessWindowFunction.Context, elements: Iterable[Row]) -> Iterable[Row]:
        names = [row.name for row in elements]
        persons = [name for name in names if name]
        if persons and len(persons) < len(names):
            yield Row(key, persons[0], context.window().start)


def q8(events: DataStream, side: DataStream) -> DataStream:
    """Find the persons who came and began an auction in the same 10 seconds."""
    persons, auctions = split(events, "person", PERSON, "auction", ("seller", "dateTime"))
    seller = Row(*PERSON)
    sellers = auctions.map(lambda auction: seller(auction.seller, "", auction.dateTime), output_type=row_of(PERSON))
    return (
        timed(persons)
        .union(timed(sellers))
        .key_by(lambda row: row.id, key_type=Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .process(NewSeller(), output_type=Types.ROW([Types.LONG(), Types.STRING(), Types.LONG()]))
    )


class WithSession(ProcessWindowFunction):
    def process(self, key: int, context: Any, elements: Iterable[int]) -> Iterable[Row]:
        yield Row(key, next(iter(elements)), context.window().start, context.window().end)


def q11(events: DataStream, side: DataStream) -> DataStream:
    """Count the bids of each session of a bidder, which ends when there is none for 10 seconds."""
    return (
        timed(bids(events, "bidder", "dateTime"))
        .key_by(lambda bid: bid.bidder, key_type=Types.LONG())
        .window(EventTimeSessionWindows.with_gap(Time.seconds(10)))
        .aggregate(Count(), WithSession(), accumulator_type=Types.LONG(), output_type=Types.ROW([Types.LONG()] * 4))
    )
