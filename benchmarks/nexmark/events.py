"""The events of Nexmark, the same each time: persons, auctions and bids as lines of JSON in two files.

    python benchmarks/nexmark/events.py FOLDER 1000000

Of 50 events one is a person, three are auctions and 46 are bids. Ids, prices, hot sellers, bidders and auctions,
channels and sizes follow the generator of Nexmark for Flink. An event comes each millisecond, so no two have the same
time, and a query that asks for the last or the first of some has one answer. Both files cover the same times. The day
changes one minute behind the first event. The first events of a large set are those of a small one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: 2015-07-14 23:59:00 UTC, in milliseconds.
BASE_MS = 1_436_918_340_000
FIRST_ID = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5
PERSONS, AUCTIONS, PERIOD = 1, 3, 50
ACTIVE_PERSONS, OPEN_AUCTIONS, LEAD = 1_000, 100, 10
#: Of so many persons or auctions that follow each other the first one is hot.
HOT_STEP = 100
CHANNELS, SIDE_ROWS = 10_000, 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
PERSON_SIZE, AUCTION_SIZE, BID_SIZE = 200, 500, 100
STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
FILES = 2


class Events:
    """Makes events in the order of their times.

    Args:
        step_ms: From one event to the next.
        seed: Of all that is left to chance.
    """

    def __init__(self, step_ms: int = 1, seed: int = 7) -> None:
        self._step_ms = step_ms
        self._chance = Random(seed)
        self._letters = "".join(self._chance.choices(LETTERS, k=1 << 16))
        self._hot_urls = [self._url() for _ in HOT_CHANNELS]
        self._urls = [
            self._url() + (f"&channel_id={number * 7919}" if self._below(10) else "") for number in range(CHANNELS)
        ]

    def __call__(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield the first events; each has its type, and itself by the name of its kind."""
        for number in range(count):
            at = BASE_MS + number * self._step_ms
            round_, place = divmod(number, PERIOD)
            if place < PERSONS:
                yield {"event_type": 0, "person": self._person(round_, at)}
            elif place < PERSONS + AUCTIONS:
                yield {"event_type": 1, "auction": self._auction(round_, place, at)}
            else:
                yield {"event_type": 2, "bid": self._bid(round_, at)}

    def _person(self, newest: int, at: int) -> dict[str, Any]:
        pick = self._chance.choice
        person = {
            "id": FIRST_ID + newest,
            "name": f"{pick(FIRST_NAMES)} {pick(LAST_NAMES)}",
            "emailAddress": f"{self._text(7)}@{self._text(5)}.com",
            "creditCard": " ".join(f"{self._below(10_000):04}" for _ in range(4)),
            "city": pick(CITIES),
            "state": pick(STATES),
            "dateTime": at,
        }
        return {**person, "extra": self._extra(PERSON_SIZE, 60)}

    def _auction(self, newest_person: int, place: int, at: int) -> dict[str, Any]:
        hot = self._below(4) > 0
        first = self._price()
        # On average an auction is open until so many others have begun.
        length = PERIOD * OPEN_AUCTIONS // AUCTIONS * self._step_ms
        auction = {
            "id": FIRST_ID + newest_person * AUCTIONS + place - PERSONS,
            "itemName": self._text(20),
            "description": self._text(100),
            "initialBid": first,
            "reserve": first + self._price(),
            "dateTime": at,
            "expires": at + 1 + self._below(2 * length),
            "seller": FIRST_ID + (newest_person // HOT_STEP * HOT_STEP if hot else self._active(newest_person)),
            "category": FIRST_CATEGORY + self._below(CATEGORIES),
        }
        return {**auction, "extra": self._extra(AUCTION_SIZE, 100)}

    def _bid(self, newest_person: int, at: int) -> dict[str, Any]:
        newest = newest_person * AUCTIONS + AUCTIONS - 1
        if self._below(2):
            auction = newest // HOT_STEP * HOT_STEP
        else:
            oldest = max(newest - OPEN_AUCTIONS, 0)
            auction = oldest + self._below(newest - oldest + 1 + LEAD)
        hot = self._below(4) > 0
        if self._below(2):
            number = self._below(len(HOT_CHANNELS))
            channel, url = HOT_CHANNELS[number], self._hot_urls[number]
        else:
            number = self._below(CHANNELS)
            channel, url = f"channel-{number}", self._urls[number]
        return {
            "auction": FIRST_ID + auction,
            "bidder": FIRST_ID + (newest_person // HOT_STEP * HOT_STEP + 1 if hot else self._active(newest_person)),
            "price": self._price(),
            "channel": channel,
            "url": url,
            "dateTime": at,
            "extra": self._extra(BID_SIZE, 32),
        }

    def _active(self, newest: int) -> int:
        """Choose one of the persons that are active, or that will come next."""
        active = min(newest + 1, ACTIVE_PERSONS)
        return newest + 1 - active + self._below(active + LEAD)

    def _price(self) -> int:
        return round(10 ** (self._chance.random() * 6) * 100)

    def _below(self, bound: int) -> int:
        return int(self._chance.random() * bound)

    def _text(self, most: int) -> str:
        return self._cut(3 + self._below(most - 3))

    def _extra(self, size: int, taken: int) -> str:
        """Fill an event up to its size, give or take a fifth."""
        free = size - taken
        return self._cut(free * 4 // 5 + self._below(free * 2 // 5))

    def _cut(self, length: int) -> str:
        start = self._below(len(self._letters) - length)
        return self._letters[start : start + length]

    def _url(self) -> str:
        return f"https://www.nexmark.com/{self._text(5)}/{self._text(5)}/{self._text(5)}/item.htm?query=1"


def write(folder: Path, count: int, step_ms: int = 1, seed: int = 7) -> None:
    """Write events to files in ``events``, and the rows of the side input to ``side``."""
    places = folder / "events", folder / "side"
    for place in places:
        place.mkdir(parents=True)
    files = [(places[0] / f"events-{index}.jsonl").open("w") for index in range(FILES)]
    for number, event in enumerate(Events(step_ms, seed)(count)):
        # Each kind comes in each file.
        print(json.dumps(event, separators=(",", ":")), file=files[(number + number // PERIOD) % FILES])
    for file in files:
        file.close()
    rows = "".join(f"{key},value-{key}\n" for key in range(SIDE_ROWS))
    (places[1] / "side.csv").write_text(rows)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
