"""Programs with declared types, and the same ones without: (b), (c), (d), (i) of `workloads` and three of Nexmark's.

Q9, Q18 and Q20 are cut down to what a declared type may slow: their events are made of numbers and not read. Each
program takes the source of numbers, how many there are, and whether its types are declared. What reaches the sink are
integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from penstock_programs import CountAndSum, one_second_behind

from penstock.common import Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import DataStream, KeyedCoProcessFunction, KeyedProcessFunction
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.datastream.functions import RuntimeContext

T = TypeVar("T")
#: Key, time, number.
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
#: Auction, bidder, price, channel, url, time, extra.
BID = Types.TUPLE(
    [Types.LONG(), Types.LONG(), Types.LONG(), Types.STRING(), Types.STRING(), Types.LONG(), Types.STRING()]
)
#: Auction, item, description, initial bid, reserve, time, expiry, seller, category, extra.
AUCTION = Types.TUPLE(
    [
        *(Types.LONG(), Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()),
        *(Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG(), Types.STRING()),
    ]
)


def declared(type_info: T, typed: bool) -> T | None:
    """Return a type where types are declared."""
    return type_info if typed else None


class Counter(KeyedProcessFunction):
    """Counts the records of each key."""

    def __init__(self, *, typed: bool) -> None:
        self.typed = typed

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", declared(Types.LONG(), self.typed)))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[tuple[int, int]]:
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        yield value, seen


class MapCounter(Counter):
    """Counts ten items of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        kind = declared(Types.LONG(), self.typed)
        self.entries = runtime_context.get_map_state(MapStateDescriptor("seen", kind, kind))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[tuple[int, int]]:
        item = value % 10
        seen = (self.entries.get(item) or 0) + 1
        self.entries.put(item, seen)
        yield value, seen


def keyed_reduce(numbers: DataStream, records: int, typed: bool) -> DataStream:
    """(b): a rolling reduce of a thousand keys."""
    keys = [f"key-{k}" for k in range(1_000)]
    last = records // 1_000
    return (
        numbers.map(lambda i: (keys[i * 7919 % 1_000], 1, i), declared(EVENT, typed))
        .key_by(lambda r: r[0], declared(Types.STRING(), typed))
        .reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2]))
        .filter(lambda r: r[1] == last)
        .map(lambda r: r[2])
    )


def keyed_state(numbers: DataStream, records: int, typed: bool) -> DataStream:
    """(c): a count for each of a million keys."""
    last = max(1, records // 1_000_000)
    return (
        numbers.map(lambda i: i * 2654435761 % 1_000_000, declared(Types.LONG(), typed))
        .key_by(lambda key: key, declared(Types.LONG(), typed))
        .process(Counter(typed=typed), declared(PAIR, typed))
        .filter(lambda r: r[1] == last)
        .map(lambda r: r[0])
    )


def windows(numbers: DataStream, records: int, typed: bool) -> DataStream:
    """(d): tumbling windows of ten thousand keys."""
    keys = [f"key-{k}" for k in range(10_000)]
    half = records // 2
    return (
        numbers.map(lambda i: (keys[i % half * 7919 % 10_000], i % half // 50, i), declared(EVENT, typed))
        .assign_timestamps_and_watermarks(one_second_behind())
        .key_by(lambda r: r[0], declared(Types.STRING(), typed))
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .aggregate(CountAndSum(), accumulator_type=declared(PAIR, typed), output_type=declared(PAIR, typed))
        .map(lambda r: r[1] * 100 + r[0])
    )


def map_state(numbers: DataStream, records: int, typed: bool) -> DataStream:
    """(i): ten entries for each of ten thousand keys."""
    last = max(1, records // 100_000)
    return (
        numbers.map(lambda i: i * 2654435761 % 100_000, declared(Types.LONG(), typed))
        .key_by(lambda x: x // 10, declared(Types.LONG(), typed))
        .process(MapCounter(typed=typed), declared(PAIR, typed))
        .filter(lambda r: r[1] == last)
        .map(lambda r: r[0])
    )


# ------------------------------------------------------------------------------------------------------------- Nexmark


class EventTime(TimestampAssigner):
    """The time of an auction or a bid stands in its sixth field."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[5]


def bid_of(i: int) -> tuple[Any, ...]:
    """Return the bid of a number: on one of the last hundred auctions, by one of ten thousand bidders."""
    scattered = i * 2654435761 % 4_294_967_296
    return (
        max(0, i // 15 - scattered % 100),
        scattered // 100 % 10_000,
        scattered % 100_000,
        "Google",
        "https://www.nexmark.com/item.htm?query=1",
        i // 10,
        "an extra text of a bid",
    )


def auction_of(i: int) -> tuple[Any, ...]:
    """Return the auction of a number; it lasts as long as 150 bids take."""
    auction, at = i // 15, i // 10
    return auction, "item", "a description of it", 10, 20, at, at + 15, i % 1_000, 10 + auction % 5, "more"


def _bids(numbers: DataStream, typed: bool) -> DataStream:
    bids = numbers.map(bid_of, declared(BID, typed))
    return bids.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime())
    )


def _auctions(numbers: DataStream, typed: bool) -> DataStream:
    auctions = numbers.filter(lambda i: i % 15 == 0).map(auction_of, declared(AUCTION, typed))
    return auctions.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime())
    )


class Winner(KeyedCoProcessFunction):
    """Q9: keeps the auction and its best bid until the auction ends."""

    def __init__(self, *, typed: bool) -> None:
        self.typed = typed

    def open(self, runtime_context: RuntimeContext) -> None:
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", declared(AUCTION, self.typed)))
        self.bids = runtime_context.get_list_state(ListStateDescriptor("bids", declared(BID, self.typed)))
        self.best = runtime_context.get_state(ValueStateDescriptor("best", declared(BID, self.typed)))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        auction = self.auction.value()
        if auction is None:
            self.bids.add(value)
            ctx.timer_service().register_event_time_timer(value[5] + 100_000)
        else:
            self._bid(auction, value)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        self.auction.update(value)
        for bid in self.bids.get():
            self._bid(value, bid)
        self.bids.clear()
        ctx.timer_service().register_event_time_timer(value[6])

    def _bid(self, auction: Any, bid: Any) -> None:
        if auction[5] <= bid[5] <= auction[6]:
            best = self.best.value()
            if best is None or bid[2] > best[2]:
                self.best.update(bid)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[tuple[int, int]]:
        best = self.best.value()
        if best is not None:
            yield best[0], best[2]
        self.auction.clear()
        self.best.clear()
        self.bids.clear()


class Last(KeyedProcessFunction):
    """Q18: passes a bid that is later than the last one of its bidder for its auction."""

    def __init__(self, *, typed: bool) -> None:
        self.typed = typed

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", declared(BID, self.typed)))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        last = self.last.value()
        if last is None or value[5] >= last[5]:
            self.last.update(value)
            yield value


class OfCategory(KeyedCoProcessFunction):
    """Q20: joins bids with the auctions of a category, whichever come first."""

    def __init__(self, *, typed: bool) -> None:
        self.typed = typed

    def open(self, runtime_context: RuntimeContext) -> None:
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", declared(AUCTION, self.typed)))
        self.bids = runtime_context.get_list_state(ListStateDescriptor("bids", declared(BID, self.typed)))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[tuple[int, int]]:
        auction = self.auction.value()
        if auction is None:
            self.bids.add(value)
        else:
            yield value[2], auction[8]

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[tuple[int, int]]:
        self.auction.update(value)
        for bid in self.bids.get():
            yield bid[2], value[8]
        self.bids.clear()


def winning_bids(numbers: DataStream, records: int, typed: bool) -> DataStream:
    """Q9."""
    key = declared(Types.LONG(), typed)
    joined = _bids(numbers, typed).key_by(lambda bid: bid[0], key)
    auctions = _auctions(numbers, typed).key_by(lambda auction: auction[0], key)
    return joined.connect(auctions).process(Winner(typed=typed), declared(PAIR, typed)).map(lambda pair: pair[1])


def last_bids(numbers: DataStream, records: int, typed: bool) -> DataStream:
    """Q18."""
    return (
        _bids(numbers, typed)
        .key_by(lambda bid: (bid[1], bid[0]), declared(PAIR, typed))
        .process(Last(typed=typed), declared(BID, typed))
        .map(lambda bid: bid[2])
    )


def bids_of_category(numbers: DataStream, records: int, typed: bool) -> DataStream:
    """Q20."""
    key = declared(Types.LONG(), typed)
    auctions = _auctions(numbers, typed).filter(lambda auction: auction[8] == 10)
    joined = _bids(numbers, typed).key_by(lambda bid: bid[0], key).connect(auctions.key_by(lambda one: one[0], key))
    return joined.process(OfCategory(typed=typed), declared(PAIR, typed)).map(lambda pair: pair[0])


JOBS: dict[str, Callable[[DataStream, int, bool], DataStream]] = {
    "b": keyed_reduce,
    "c": keyed_state,
    "d": windows,
    "i": map_state,
    "Q9": winning_bids,
    "Q18": last_bids,
    "Q20": bids_of_category,
}
