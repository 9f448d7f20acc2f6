"""The floor of each query: plain Python without an engine: ``python plain.py PLACE - q5=EVENTS q7=EVENTS``.

It reads lines from both files by turns, decodes each, keeps what it needs in dicts, and writes lines. It has no
checkpoints, no second process and no order to keep, and windows are looked at once, at the end.
"""

from __future__ import annotations

import json
import sys
from bisect import insort
from collections import Counter, defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Event = dict[str, Any]
DAY_MS, MINUTE_MS = 86_400_000, 60_000


def events(folder: Path) -> Iterator[Event]:
    files = [path.open() for path in sorted((folder / "events").iterdir())]
    for line in chain.from_iterable(zip_longest(*files)):
        if line:
            yield json.loads(line)
    for file in files:
        file.close()


def bids(folder: Path) -> Iterator[Event]:
    return (event["bid"] for event in events(folder) if "bid" in event)


def q0(folder: Path) -> Iterator[tuple[Any, ...]]:
    for bid in bids(folder):
        yield bid["auction"], bid["bidder"], bid["price"], bid["dateTime"], bid["extra"]


def q1(folder: Path) -> Iterator[tuple[Any, ...]]:
    rate = Decimal("0.908")
    for bid in bids(folder):
        yield bid["auction"], bid["bidder"], rate * bid["price"], bid["dateTime"], bid["extra"]


def q2(folder: Path) -> Iterator[tuple[Any, ...]]:
    for bid in bids(folder):
        if bid["auction"] % 123 == 0:
            yield bid["auction"], bid["price"]


def q3(folder: Path) -> Iterator[tuple[Any, ...]]:
    persons: dict[int, Event] = {}
    waiting: dict[int, list[int]] = defaultdict(list)
    for event in events(folder):
        if "person" in event:
            person = event["person"]
            if person["state"] in {"OR", "ID", "CA"}:
                persons[person["id"]] = person
                for auction in waiting.pop(person["id"], ()):
                    yield person["name"], person["city"], person["state"], auction
        elif "auction" in event and event["auction"]["category"] == 10:
            auction, seller = event["auction"]["id"], event["auction"]["seller"]
            person = persons.get(seller)
            if person is None:
                waiting[seller].append(auction)
            else:
                yield person["name"], person["city"], person["state"], auction


def winning(folder: Path) -> Iterator[tuple[Event, Event]]:
    auctions: dict[int, Event] = {}
    best: dict[int, Event] = {}
    waiting: dict[int, list[Event]] = defaultdict(list)

    def offer(auction: Event, bid: Event) -> None:
        if auction["dateTime"] <= bid["dateTime"] <= auction["expires"]:
            other = best.get(bid["auction"])
            if other is None or (bid["price"], -bid["dateTime"]) > (other["price"], -other["dateTime"]):
                best[bid["auction"]] = bid

    for event in events(folder):
        if "bid" in event:
            bid = event["bid"]
            auction = auctions.get(bid["auction"])
            if auction is None:
                waiting[bid["auction"]].append(bid)
            else:
                offer(auction, bid)
        elif "auction" in event:
            auction = auctions[event["auction"]["id"]] = event["auction"]
            for bid in waiting.pop(auction["id"], ()):
                offer(auction, bid)
    return ((auctions[number], bid) for number, bid in best.items())


def q4(folder: Path) -> Iterator[tuple[Any, ...]]:
    sums: dict[int, tuple[int, int]] = {}
    for auction, bid in winning(folder):
        count, total = sums.get(auction["category"], (0, 0))
        sums[auction["category"]] = count, total = count + 1, total + bid["price"]
        yield auction["category"], count, total // count


def q5(folder: Path) -> Iterator[tuple[Any, ...]]:
    hops: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in bids(folder):
        hops[bid["dateTime"] // 2_000][bid["auction"]] += 1
    for end in range(min(hops) + 1, max(hops) + 6):
        counts: Counter[int] = Counter()
        for hop in range(end - 5, end):
            counts.update(hops.get(hop, ()))
        most = max(counts.values(), default=0)
        yield from ((end * 2_000, auction, bids) for auction, bids in counts.items() if bids == most)


def q7(folder: Path) -> Iterator[tuple[Any, ...]]:
    highest: dict[int, list[Event]] = {}
    for bid in bids(folder):
        window = bid["dateTime"] // 10_000
        found = highest.get(window)
        if found is None or bid["price"] > found[0]["price"]:
            highest[window] = [bid]
        elif bid["price"] == found[0]["price"]:
            found.append(bid)
    for bid in chain.from_iterable(highest.values()):
        yield bid["auction"], bid["price"], bid["bidder"], bid["dateTime"], bid["extra"]


def q8(folder: Path) -> Iterator[tuple[Any, ...]]:
    names: dict[tuple[int, int], str] = {}
    sellers: dict[tuple[int, int], None] = {}
    for event in events(folder):
        if "person" in event:
            person = event["person"]
            names[person["id"], person["dateTime"] // 10_000] = person["name"]
        elif "auction" in event:
            sellers[event["auction"]["seller"], event["auction"]["dateTime"] // 10_000] = None
    for (number, window), name in names.items():
        if (number, window) in sellers:
            yield number, name, window * 10_000


def q9(folder: Path) -> Iterator[tuple[Any, ...]]:
    for auction, bid in winning(folder):
        yield *auction.values(), bid["auction"], bid["bidder"], bid["price"], bid["dateTime"], bid["extra"]


def q11(folder: Path) -> Iterator[tuple[Any, ...]]:
    times: dict[int, list[int]] = defaultdict(list)
    for bid in bids(folder):
        times[bid["bidder"]].append(bid["dateTime"])
    for bidder, found in times.items():
        found.sort()
        first = last = found[0]
        count = 0
        for at in found:
            if at - last > 10_000:
                yield bidder, count, first, last + 10_000
                first, count = at, 0
            last = at
            count += 1
        yield bidder, count, first, last + 10_000


def q13(folder: Path) -> Iterator[tuple[Any, ...]]:
    side = dict(line.split(",") for path in (folder / "side").iterdir() for line in path.read_text().splitlines())
    values = {int(key): value for key, value in side.items()}
    for bid in bids(folder):
        yield bid["auction"], bid["bidder"], bid["price"], bid["dateTime"], values[bid["auction"] % 10_000]


def q14(folder: Path) -> Iterator[tuple[Any, ...]]:
    rate = Decimal("0.908")
    for bid in bids(folder):
        price = rate * bid["price"]
        if 1_000_000 < price < 50_000_000:
            hour = datetime.fromtimestamp(bid["dateTime"] / 1000, UTC).hour
            time = "dayTime" if 8 <= hour <= 18 else "nightTime" if hour <= 6 or hour >= 20 else "otherTime"
            extra = bid["extra"]
            yield bid["auction"], bid["bidder"], price, time, bid["dateTime"], extra, extra.count("c")


@cache
def day_of(number: int) -> str:
    return datetime.fromtimestamp(number * DAY_MS / 1000, UTC).strftime("%Y-%m-%d")


def rank_of(price: int) -> int:
    return 1 if price < 10_000 else 2 if price < 1_000_000 else 3


def q16(folder: Path) -> Iterator[tuple[Any, ...]]:
    counts_of: dict[tuple[str, int], list[int]] = {}
    seen: dict[tuple[str, int, int, int], int] = {}
    for bid in bids(folder):
        channel, day, rank = bid["channel"], bid["dateTime"] // DAY_MS, rank_of(bid["price"])
        counts = counts_of.get((channel, day))
        if counts is None:
            counts = counts_of[channel, day] = [0] * 13
        counts[0] = max(counts[0], bid["dateTime"] % DAY_MS // MINUTE_MS)
        counts[1] += 1
        counts[1 + rank] += 1
        for first, item in ((5, bid["bidder"]), (9, bid["auction"])):
            before = seen.get((channel, day, first, item), 0)
            if not before:
                counts[first] += 1
            if not before >> rank & 1:
                counts[first + rank] += 1
                seen[channel, day, first, item] = before | 1 << rank
        yield channel, day_of(day), f"{counts[0] // 60:02}:{counts[0] % 60:02}", *counts[1:]


def q17(folder: Path) -> Iterator[tuple[Any, ...]]:
    found: dict[tuple[int, int], list[int]] = {}
    for bid in bids(folder):
        auction, day, price = bid["auction"], bid["dateTime"] // DAY_MS, bid["price"]
        row = found.get((auction, day))
        if row is None:
            row = found[auction, day] = [0, 0, 0, 0, price, price, 0]
        row[0] += 1
        row[rank_of(price)] += 1
        row[4], row[5] = min(row[4], price), max(row[5], price)
        row[6] += price
        yield auction, day_of(day), *row[:6], row[6] // row[0], row[6]


def q18(folder: Path) -> Iterator[tuple[Any, ...]]:
    last: dict[tuple[int, int], Event] = {}
    for bid in bids(folder):
        key = bid["bidder"], bid["auction"]
        before = last.get(key)
        if before is None or bid["dateTime"] > before["dateTime"]:
            last[key] = bid
            yield tuple(bid.values())


def q19(folder: Path) -> Iterator[tuple[Any, ...]]:
    found: dict[int, list[Event]] = defaultdict(list)
    for bid in bids(folder):
        best = found[bid["auction"]]
        insort(best, bid, key=lambda one: (-one["price"], one["dateTime"]))
        del best[10:]
        first = next((place for place, one in enumerate(best) if one is bid), None)
        if first is not None:
            yield from ((*best[place].values(), place + 1) for place in range(first, len(best)))


def q20(folder: Path) -> Iterator[tuple[Any, ...]]:
    auctions: dict[int, tuple[Any, ...] | None] = {}
    waiting: dict[int, list[Event]] = defaultdict(list)
    for event in events(folder):
        if "bid" in event:
            bid = event["bid"]
            if bid["auction"] not in auctions:
                waiting[bid["auction"]].append(bid)
            elif (auction := auctions[bid["auction"]]) is not None:
                yield *bid.values(), *auction
        elif "auction" in event:
            number, *rest = event["auction"].values()
            auctions[number] = auction = tuple(rest) if event["auction"]["category"] == 10 else None
            for bid in waiting.pop(number, ()):
                if auction is not None:
                    yield *bid.values(), *auction


FLOORS: dict[str, Callable[[Path], Iterator[tuple[Any, ...]]]] = {
    each.__name__: each for each in (q0, q1, q2, q3, q4, q5, q7, q8, q9, q11, q13, q14, q16, q17, q18, q19, q20)
}


def write(query: str, folder: Path, out: Path) -> None:
    """Run a query from files of events to a file of lines."""
    out.mkdir(parents=True)
    with (out / "part-0").open("w") as file:
        file.writelines(",".join(map(str, row)) + "\n" for row in FLOORS[query](folder))


if __name__ == "__main__":
    for number, task in enumerate(sys.argv[3:]):
        name, _, events_folder = task.partition("=")
        write(name, Path(events_folder), Path(sys.argv[1], str(number), "out"))
        print("DONE", number, flush=True)
