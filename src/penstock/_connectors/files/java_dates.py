"""Java's date patterns for names of folders, such as ``yyyy-MM-dd--HH``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

# Fixed, because Python's own names depend on the machine's locale.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)

_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+|'")

_NUMBERS: dict[str, Callable[[datetime], int]] = {
    "y": lambda moment: moment.year,
    "u": lambda moment: moment.year,
    "M": lambda moment: moment.month,
    "L": lambda moment: moment.month,
    "d": lambda moment: moment.day,
    "D": lambda moment: moment.timetuple().tm_yday,
    "H": lambda moment: moment.hour,
    "k": lambda moment: moment.hour or 24,
    "h": lambda moment: moment.hour % 12 or 12,
    "K": lambda moment: moment.hour % 12,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
}


def compile_pattern(pattern: str) -> Callable[[datetime], str]:
    """Return a function that formats a time by a pattern of java.time.format.DateTimeFormatter.

    Raises:
        ValueError: The pattern has an unknown letter or an open quote.

    Example:
        >>> from datetime import datetime
        >>> compile_pattern("yyyy-MM-dd--HH 'o''clock' EEE h a")(datetime(2024, 2, 9, 15))
        "2024-02-09--15 o'clock Fri 3 PM"
    """
    parts = [_part(pattern, match[0]) for match in _TOKEN.finditer(pattern)]
    return lambda moment: "".join(part(moment) for part in parts)


def _part(pattern: str, run: str) -> Callable[[datetime], str]:
    """Return the formatter of one run: quoted text, punctuation, or one repeated letter."""
    if run[0] == "'":
        if len(run) == 1:
            msg = f"The date pattern {pattern!r} has a quote that does not end."
            raise ValueError(msg)
        text = run[1:-1].replace("''", "'") or "'"
        return lambda _: text
    if not run[0].isalpha():
        return lambda _: run
    field = _text_field(run[0], len(run)) or _number_field(run[0], len(run))
    if field is None:
        known = ", ".join(sorted({*_NUMBERS, "E", "a", "S"}))
        msg = f"The date pattern {pattern!r} has {run!r}; known are {known} and text in single quotes."
        raise ValueError(msg)
    return field


def _text_field(letter: str, width: int) -> Callable[[datetime], str] | None:
    match letter:
        case "M" | "L" if width in {3, 4}:
            return lambda moment: _name(_MONTHS[moment.month - 1], width)
        case "E" if width <= 4:
            return lambda moment: _name(_DAYS[moment.weekday()], width)
        case "a" if width == 1:
            return lambda moment: "AM" if moment.hour < 12 else "PM"
        case "S" if width <= 9:
            return lambda moment: f"{moment.microsecond:06d}000"[:width]
        case "y" | "u" if width == 2:
            return lambda moment: f"{moment.year % 100:02d}"
        case _:
            return None


def _number_field(letter: str, width: int) -> Callable[[datetime], str] | None:
    number = _NUMBERS.get(letter)
    widest = 9 if letter in "yu" else 3 if letter == "D" else 2
    return None if number is None or width > widest else lambda moment: f"{number(moment):0{width}d}"


def _name(full: str, width: int) -> str:
    return full if width == 4 else full[:3]
