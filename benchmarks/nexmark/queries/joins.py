"""Queries that bring two streams together by a key."""

from collections.abc import Callable, Iterable

from pyflink.common import Row, Types
from pyflink.datastream import DataStream, KeyedCoProcessFunction, KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

from queries.streams import AUCTION, BID, bids, row_of, split, timed


class WithOne(KeyedCoProcessFunction):
    """Joins the many of the second stream with the one of the first, whichever comes first.

    Args:
        one: The fields of the first stream.
        many: The fields of the second stream.
        joined: Makes the result of a pair, or None.
    """

    def __init__(self, one: tuple[str, ...], many: tuple[str, ...], joined: Callable[[Row, Row], Row | None]) -> None:
        self.names, self.joined = (one, many), joined

    def open(self, runtime_context: RuntimeContext) -> None:
        one, many = map(row_of, self.names)
        self.one = runtime_context.get_state(ValueStateDescriptor("one", one))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", many))

    def process_element1(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> Iterable[Row]:
        self.one.update(value)
        for other in self.waiting.get():
            result = self.joined(value, other)
            if result is not None:
                yield result
        self.waiting.clear()

    def process_element2(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> Iterable[Row]:
        one = self.one.value()
        if one is None:
            self.waiting.add(value)
            return
        result = self.joined(one, value)
        if result is not None:
            yield result


def q3(events: DataStream, side: DataStream) -> DataStream:
    """Find who sells in Oregon, Idaho or California in category 10."""
    person, auction = ("id", "name", "city", "state"), ("id", "seller", "category")
    auctions, persons = split(events, "auction", auction, "person", person)
    return (
        persons.filter(lambda row: row.state in {"OR", "ID", "CA"})
        .connect(auctions.filter(lambda row: row.category == 10))
        .key_by(lambda row: row.id, lambda row: row.seller, key_type=Types.LONG())
        .process(
            WithOne(person, auction, lambda one, other: Row(one.name, one.city, one.state, other.id)),
            output_type=Types.ROW([Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG()]),
        )
    )


class Winning(KeyedCoProcessFunction):
    """Keeps the best bid of an auction until it expires, and bids for an auction that has not come yet.

    Args:
        auction: The fields of auctions.
        bid: The fields of bids.
        won: Makes the result of an auction and the bid that won it.
    """

    def __init__(self, auction: tuple[str, ...], bid: tuple[str, ...], won: Callable[[Row, Row], Row]) -> None:
        self.names, self.won = (auction, bid), won

    def open(self, runtime_context: RuntimeContext) -> None:
        auction, bid = map(row_of, self.names)
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", auction))
        self.best = runtime_context.get_state(ValueStateDescriptor("best", bid))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", row_of(self.names[1])))

    def process_element1(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> None:
        self.auction.update(value)
        ctx.timer_service().register_event_time_timer(value.expires)
        for bid in self.waiting.get():
            self.offer(value, bid)
        self.waiting.clear()

    def process_element2(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> None:
        auction = self.auction.value()
        if auction is None:
            self.waiting.add(value)
            ctx.timer_service().register_event_time_timer(value.dateTime)
        else:
            self.offer(auction, value)

    def offer(self, auction: Row, bid: Row) -> None:
        if auction.dateTime <= bid.dateTime <= auction.expires:
            best = self.best.value()
            if best is None or (bid.price, -bid.dateTime) > (best.price, -best.dateTime):
                self.best.update(bid)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Row]:
        auction = self.auction.value()
        if auction is None:  # none comes any more that a bid of this time is for
            later = [bid for bid in self.waiting.get() if bid.dateTime > timestamp]
            if later:
                self.waiting.update(later)
            else:
                self.waiting.clear()
        elif timestamp == auction.expires:
            best = self.best.value()
            if best is not None:
                yield self.won(auction, best)
            self.auction.clear()
            self.best.clear()


class Average(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.sums = runtime_context.get_state(ValueStateDescriptor("sums", Types.ROW([Types.LONG(), Types.LONG()])))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterable[Row]:
        count, total = self.sums.value() or (0, 0)
        count, total = count + 1, total + value.price
        self.sums.update(Row(count, total))
        yield Row(value.category, count, total // count)


def q4(events: DataStream, side: DataStream) -> DataStream:
    """Average the winning bids of each category: a row for each auction that ends, with the number of auctions."""
    bid, auction = ("auction", "price", "dateTime"), ("id", "dateTime", "expires", "category")
    offers, auctions = split(events, "bid", bid, "auction", auction)
    priced = Row("category", "price")
    return (
        timed(auctions)
        .connect(timed(offers))
        .key_by(lambda row: row.id, lambda row: row.auction, key_type=Types.LONG())
        .process(
            Winning(auction, bid, lambda one, best: priced(one.category, best.price)),
            output_type=row_of(("category", "price")),
        )
        .key_by(lambda row: row.category, key_type=Types.LONG())
        .process(Average(), output_type=Types.ROW([Types.LONG()] * 3))
    )


def q9(events: DataStream, side: DataStream) -> DataStream:
    """Find the winning bid of each auction: the highest, then the earliest while it was open."""
    bid = ("auction", "bidder", "price", "dateTime", "extra")
    offers, auctions = split(events, "bid", bid, "auction", AUCTION)
    both = Types.ROW([*row_of(AUCTION).get_field_types(), *row_of(bid).get_field_types()])
    return (
        timed(auctions)
        .connect(timed(offers))
        .key_by(lambda row: row.id, lambda row: row.auction, key_type=Types.LONG())
        .process(Winning(AUCTION, bid, lambda auction, best: Row(*auction, *best)), output_type=both)
    )


SIDE = ("id", "value")
SIDE_ROW = Row(*SIDE)


def side_row(line: str) -> Row:
    key, value = line.split(",")
    return SIDE_ROW(int(key), value)


def q13(events: DataStream, side: DataStream) -> DataStream:
    """Give each bid the value of a side input, which has a value for each of 10,000 keys."""
    bid = ("auction", "bidder", "price", "dateTime")
    rows = side.map(side_row, output_type=row_of(SIDE))
    return (
        rows.connect(bids(events, *bid))
        .key_by(lambda one: one.id, lambda other: other.auction % 10_000, key_type=Types.LONG())
        .process(WithOne(SIDE, bid, lambda one, other: Row(*other, one.value)), output_type=row_of((*bid, "value")))
    )


def q20(events: DataStream, side: DataStream) -> DataStream:
    """Give bids for auctions of category 10 the auction."""
    rest = AUCTION[1:]
    offers, auctions = split(events, "bid", BID, "auction", AUCTION)
    both = Types.ROW([*row_of(BID).get_field_types(), *row_of(rest).get_field_types()])
    return (
        auctions.connect(offers)
        .key_by(lambda row: row.id, lambda row: row.auction, key_type=Types.LONG())
        .process(
            WithOne(AUCTION, BID, lambda one, bid: Row(*bid, *list(one)[1:]) if one.category == 10 else None),
            output_type=both,
        )
    )
