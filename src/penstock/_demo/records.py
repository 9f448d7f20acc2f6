"""The records between the job's operators: a flight as the source reads it, and what the operators make of it."""

from typing import NamedTuple

from penstock.common import Types

FLIGHT = Types.ROW_NAMED(
    ["scheduled_ms", "origin", "dest", "carrier", "flight", "tailnum", "dep_time", "dep_delay"],
    [
        Types.LONG(),  # scheduled departure, milliseconds since the epoch: the event time
        Types.STRING(),
        Types.STRING(),
        Types.STRING(),
        Types.LONG(),
        Types.STRING(),  # the aircraft; unknown for some cancelled flights
        Types.LONG(),  # when it left, as in 1755; None: cancelled
        Types.LONG(),  # minutes after schedule, negative when early; None: cancelled
    ],
)


class Hour(NamedTuple):
    """The departures that one airport had scheduled for one hour."""

    start_ms: int
    origin: str
    departures: int
    delay: int


class Departure(NamedTuple):
    """A flight as far as its aircraft's delay is concerned; sorts by scheduled departure, then by flight."""

    scheduled_ms: int
    carrier: str
    flight: int
    delay: int


class Alert(NamedTuple):
    """Three departures of an aircraft, one later than the other; `flown` counts its flights since its last day off."""

    tailnum: str
    flown: int
    departures: list[Departure]
