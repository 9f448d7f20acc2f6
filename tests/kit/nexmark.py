"""A small Nexmark: persons, auctions and bids made the same each time, and what its queries give in plain Python.

Of 50 events one is a person, three are auctions and 46 are bids, as in Nexmark. All times are milliseconds.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

STEP_MS = 20
WINDOW_MS, SLIDE_MS = 10_000, 2_000
CATEGORY = 10


def events(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Return events in the order of their times, of which no two are equal."""
    chance = Random(seed)
    made: list[dict[str, Any]] = []
    persons = auctions = 0
    for number in range(count):
        at, kind = number * STEP_MS, number % 50
        if kind == 0:
            made.append({"kind": "person", "id": persons, "name": f"p{persons}", "at": at})
            persons += 1
        elif kind < 4:
            made.append(
                {
                    "kind": "auction",
                    "id": auctions,
                    "seller": chance.randrange(max(0, persons - 5), persons),
                    "category": 10 + auctions % 5,
                    "expires": at + chance.randrange(500, 15_000),
                    "at": at,
                }
            )
            auctions += 1
        else:
            auction = chance.randrange(max(0, auctions - 12), auctions)
            made.append({"kind": "bid", "auction": auction, "price": chance.randrange(1, 10**6), "at": at})
    return made


def write_files(folder: Path, made: list[dict[str, Any]], files: int = 2) -> None:
    """Write events to files of lines, which all cover the same times."""
    for index in range(files):
        lines = (json.dumps(event) for event in made[index::files])
        (folder / f"events-{index}.json").write_text("".join(f"{line}\n" for line in lines))


def of_kind(made: Iterable[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind."""
    return [event for event in made if event["kind"] == kind]


def hot_items(made: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """Return for each sliding window the auctions with the most bids (Q5): the window's end, auction, bids."""
    bids: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in of_kind(made, "bid"):
        last = bid["at"] // SLIDE_MS * SLIDE_MS
        for start in range(last, last - WINDOW_MS, -SLIDE_MS):
            bids[start + WINDOW_MS][bid["auction"]] += 1
    return sorted(
        (end, auction, most)
        for end, counts in bids.items()
        for most in [max(counts.values())]
        for auction, found in counts.items()
        if found == most
    )


def new_sellers(made: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    """Return who began an auction in the window in which they came (Q8): person, name, auction."""
    names = {person["id"]: person for person in of_kind(made, "person")}
    return sorted(
        (person["id"], person["name"], auction["id"])
        for auction in of_kind(made, "auction")
        for person in [names[auction["seller"]]]
        if person["at"] // WINDOW_MS == auction["at"] // WINDOW_MS
    )


def winning_bids(made: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """Return the highest and then earliest bid of each auction while it was open (Q9): auction, price, time."""
    open_ones = {auction["id"]: auction for auction in of_kind(made, "auction")}
    best: dict[int, tuple[int, int]] = {}
    for bid in of_kind(made, "bid"):
        auction = open_ones[bid["auction"]]
        if auction["at"] <= bid["at"] <= auction["expires"]:
            found = (-bid["price"], bid["at"])
            best[bid["auction"]] = min(best.get(bid["auction"], found), found)
    return sorted((auction, -price, at) for auction, (price, at) in best.items())


def bids_of_category(made: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """Return the bids for auctions of one category, with the seller (Q20): auction, price, seller."""
    chosen = {one["id"]: one for one in of_kind(made, "auction") if one["category"] == CATEGORY}
    bids = (bid for bid in of_kind(made, "bid") if bid["auction"] in chosen)
    return sorted((bid["auction"], bid["price"], chosen[bid["auction"]]["seller"]) for bid in bids)
