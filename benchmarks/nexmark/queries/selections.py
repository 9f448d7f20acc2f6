"""Queries that look at each bid alone."""

from datetime import UTC, datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import DataStream

from queries.streams import bids

EURO = Decimal("0.908")
PRICED = Row("auction", "bidder", "price", "dateTime", "extra")


def q0(events: DataStream, side: DataStream) -> DataStream:
    """Pass all bids on."""
    return bids(events, "auction", "bidder", "price", "dateTime", "extra")


def q1(events: DataStream, side: DataStream) -> DataStream:
    """Give the prices in euros."""
    converted = Types.ROW([Types.LONG(), Types.LONG(), Types.BIG_DEC(), Types.LONG(), Types.STRING()])
    return bids(events, "auction", "bidder", "price", "dateTime", "extra").map(
        lambda bid: Row(bid.auction, bid.bidder, EURO * bid.price, bid.dateTime, bid.extra), output_type=converted
    )


def q2(events: DataStream, side: DataStream) -> DataStream:
    """Choose the bids for some auctions."""
    return bids(events, "auction", "price").filter(lambda bid: bid.auction % 123 == 0)


def time_of_day(at_ms: int) -> str:
    hour = datetime.fromtimestamp(at_ms / 1000, UTC).hour
    if 8 <= hour <= 18:
        return "dayTime"
    return "nightTime" if hour <= 6 or hour >= 20 else "otherTime"


def q14(events: DataStream, side: DataStream) -> DataStream:
    """Choose bids by their price in euros, tell the time of day, and count a letter."""
    priced = Types.ROW_NAMED(
        ["auction", "bidder", "price", "dateTime", "extra"],
        [Types.LONG(), Types.LONG(), Types.BIG_DEC(), Types.LONG(), Types.STRING()],
    )
    calculated = Types.ROW(
        [*[Types.LONG()] * 2, Types.BIG_DEC(), Types.STRING(), Types.LONG(), Types.STRING(), Types.LONG()]
    )
    return (
        bids(events, "auction", "bidder", "price", "dateTime", "extra")
        .map(lambda bid: PRICED(bid.auction, bid.bidder, EURO * bid.price, bid.dateTime, bid.extra), output_type=priced)
        .filter(lambda bid: 1_000_000 < bid.price < 50_000_000)
        .map(
            lambda bid: Row(
                *(bid.auction, bid.bidder, bid.price, time_of_day(bid.dateTime)),
                *(bid.dateTime, bid.extra, bid.extra.count("c")),
            ),
            output_type=calculated,
        )
    )
