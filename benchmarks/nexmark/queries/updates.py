"""Queries whose results change with each bid: a row is the newest of its key until the next one comes."""

from bisect import insort
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache

from pyflink.common import Row, Types
from pyflink.datastream import DataStream, KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

from queries.streams import BID, bids, row_of

DAY_MS, MINUTE_MS = 86_400_000, 60_000
TOP = 10


@cache
def day_of(number: int) -> str:
    return datetime.fromtimestamp(number * DAY_MS / 1000, UTC).strftime("%Y-%m-%d")


def rank_of(price: int) -> int:
    if price < 10_000:
        return 1
    return 2 if price < 1_000_000 else 3


class ChannelStatistics(KeyedProcessFunction):
    """Counts bids, bidders and auctions of a channel and day, all of them and by three ranks of prices."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.counts = runtime_context.get_state(ValueStateDescriptor("counts", Types.ROW([Types.LONG()] * 13)))
        # By bidder and by auction: a bit for each rank in which it was seen.
        self.bidders, self.auctions = (
            runtime_context.get_map_state(MapStateDescriptor(name, Types.LONG(), Types.LONG()))
            for name in ("bidders", "auctions")
        )

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterable[Row]:
        counts = list(self.counts.value() or [0] * 13)
        rank = rank_of(value.price)
        counts[0] = max(counts[0], value.dateTime % DAY_MS // MINUTE_MS)
        counts[1] += 1
        counts[1 + rank] += 1
        for first, seen, item in ((5, self.bidders, value.bidder), (9, self.auctions, value.auction)):
            before = seen.get(item) or 0
            if not before:
                counts[first] += 1
            if not before >> rank & 1:
                counts[first + rank] += 1
                seen.put(item, before | 1 << rank)
        self.counts.update(Row(*counts))
        channel, day = ctx.get_current_key()
        yield Row(channel, day, f"{counts[0] // 60:02}:{counts[0] % 60:02}", *counts[1:])


def q16(events: DataStream, side: DataStream) -> DataStream:
    """Count the bids of each channel and day, and who made them for what."""
    return (
        bids(events, "channel", "bidder", "auction", "price", "dateTime")
        .key_by(
            lambda bid: (bid.channel, day_of(bid.dateTime // DAY_MS)),
            key_type=Types.TUPLE([Types.STRING(), Types.STRING()]),
        )
        .process(ChannelStatistics(), output_type=Types.ROW([Types.STRING()] * 3 + [Types.LONG()] * 12))
    )


def q17(events: DataStream, side: DataStream) -> DataStream:
    """Count the bids of each auction and day, with the least, the greatest, the mean and the sum of their prices."""
    of_day = Types.ROW([Types.LONG(), Types.STRING(), *[Types.LONG()] * 7])

    def first(bid: Row) -> Row:
        rank, price = rank_of(bid.price), bid.price
        ranks = (int(rank == 1), int(rank == 2), int(rank == 3))
        return Row(bid.auction, day_of(bid.dateTime // DAY_MS), 1, *ranks, price, price, price)

    def both(a: Row, b: Row) -> Row:
        counts = (a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5])
        return Row(a[0], a[1], *counts, min(a[6], b[6]), max(a[7], b[7]), a[8] + b[8])

    return (
        bids(events, "auction", "price", "dateTime")
        .map(first, output_type=of_day)
        .key_by(lambda row: (row[0], row[1]), key_type=Types.TUPLE([Types.LONG(), Types.STRING()]))
        .reduce(both)
        .map(
            lambda row: Row(*list(row)[:8], row[8] // row[2], row[8]),
            output_type=Types.ROW([Types.LONG(), Types.STRING(), *[Types.LONG()] * 8]),
        )
    )


class Last(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", row_of(BID)))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterable[Row]:
        last = self.last.value()
        if last is None or value.dateTime > last.dateTime:
            self.last.update(value)
            yield value


def q18(events: DataStream, side: DataStream) -> DataStream:
    """Find the last bid of each bidder for each auction."""
    return (
        bids(events)
        .key_by(lambda bid: (bid.bidder, bid.auction), key_type=Types.TUPLE([Types.LONG(), Types.LONG()]))
        .process(Last(), output_type=row_of(BID))
    )


class Best(KeyedProcessFunction):
    """Keeps the best bids in their order; those that a new one moves get new ranks."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.best = runtime_context.get_list_state(ListStateDescriptor("best", row_of(BID)))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterable[Row]:
        best = list(self.best.get())
        insort(best, value, key=lambda bid: (-bid.price, bid.dateTime))
        del best[TOP:]
        first = next((place for place, bid in enumerate(best) if bid is value), None)
        if first is not None:
            self.best.update(best)
            for place in range(first, len(best)):
                yield Row(*best[place], place + 1)


def q19(events: DataStream, side: DataStream) -> DataStream:
    """Find the 10 highest bids of each auction, the earlier of equal ones first."""
    return (
        bids(events)
        .key_by(lambda bid: bid.auction, key_type=Types.LONG())
        .process(Best(), output_type=row_of((*BID, "rank")))
    )
