"""Events that do not end: those of a stretch of `events.py` again and again, later and with new ids each time."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from events import AUCTIONS, PERIOD, PERSONS, Events

STRETCH = 20_000
#: By what a number of an event grows from one stretch to the next.
STEPS = {
    "dateTime": STRETCH,
    "expires": STRETCH,
    "bidder": STRETCH // PERIOD * PERSONS,
    "seller": STRETCH // PERIOD * PERSONS,
    "auction": STRETCH // PERIOD * AUCTIONS,
}
IDS = {"person": STRETCH // PERIOD * PERSONS, "auction": STRETCH // PERIOD * AUCTIONS}


@cache
def templates() -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Make the events of a stretch: a text with gaps, the numbers of the first stretch for them, and their steps."""
    made: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
    for event in Events()(STRETCH):
        kind = next(name for name in event if name != "event_type")
        steps = {name: IDS[kind] if name == "id" else STEPS[name] for name in event[kind] if name in (*STEPS, "id")}
        numbers = tuple(event[kind][name] for name in steps)
        gaps: dict[str, Any] = {**event, kind: {**event[kind], **dict.fromkeys(steps, "@@")}}
        text = json.dumps(gaps, separators=(",", ":")).replace("%", "%%").replace('"@@"', "%d")
        made.append((text, numbers, tuple(steps.values())))
    return made


def event_line(index: int) -> str:
    """Return an event as a line of JSON."""
    round_, place = divmod(index, STRETCH)
    text, numbers, steps = templates()[place]
    return text % tuple([number + round_ * step for number, step in zip(numbers, steps, strict=True)])
